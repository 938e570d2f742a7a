"""An OpenTelemetry collector gets the spans of tasks, and no task waits for it."""

from __future__ import annotations

import signal
import uuid
from typing import TYPE_CHECKING

import pytest
from support.otlp_collector import Collector, attributes
from support.ros.programs import wait_for
from support.ros.ros_client import CANCELED, SUCCEEDED
from timely_llm_ros.action import PlanTask
from timely_llm_ros.msg import TaskEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from builtin_interfaces.msg import Duration
    from opentelemetry.proto.trace.v1.trace_pb2 import Span
    from support.ros.fleet import Fleet
    from support.ros.ros_client import Goal

NS_PER_US = 1000
ERROR = 2


def ns(duration: Duration) -> int:
    return int(duration.sec * 10**9 + duration.nanosec)


def length_ns(span: Span) -> int:
    return int(span.end_time_unix_nano - span.start_time_unix_nano)


def spans_of(collector: Collector, goal: Goal) -> list[Span]:
    """Return all spans of a task; that of its goal ends last."""
    task_id = bytes(goal.uuid.uuid).hex()
    wait_for(lambda: any(span.name == 'goal' for span in collector.of_task(task_id)), 'its spans')
    return collector.of_task(task_id)


def below(spans: list[Span], parent: Span) -> list[Span]:
    found = [span for span in spans if span.parent_span_id == parent.span_id]
    return sorted(found, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))


def test_a_collector_sees_tasks_and_none_waits_for_it(
    start_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('OTEL_BSP_SCHEDULE_DELAY', '50')
    collector = Collector()
    try:
        fleet = start_fleet(
            planner={'otlp_endpoint': collector.url, 'max_queue_per_robot': 0},
            executor={'time_scale': 0.1},
        )
        goal = fleet.plan('takeoff;delay(500);turn_cw(90);land;', client='survey')
        assert goal.result()[0] == SUCCEEDED
        spans = spans_of(collector, goal)
        assert collector.services == {'timely_planner'}

        # A goal, its segments, their calls, and nothing else.
        (root,) = [span for span in spans if not span.parent_span_id]
        segments = below(spans, root)
        calls = [call for segment in segments for call in below(spans, segment)]
        assert len(spans) == 1 + len(segments) + len(calls)
        assert (root.name, {span.name for span in segments}) == ('goal', {'segment'})
        names = ['call takeoff', 'call delay', 'call turn_cw', 'call land']
        assert [span.name for span in calls] == names
        for span in spans:
            told = attributes(span)
            assert told['timely.task_id'] == str(uuid.UUID(bytes=bytes(goal.uuid.uuid)))
            assert told['timely.outcome'] == 'succeeded'
            assert (told['timely.robot'], told['timely.client']) == ('drone_1', 'survey')
            assert (told['timely.skill_set'], told['timely.policy']) == ('tello', 'least_loss')
            assert span.status.code != ERROR
        assert attributes(calls[1])['timely.call'] == 'delay(500)'
        assert [event.name for event in root.events] == ['generated'] * len(segments)

        # Each lies within its parent, and what the topic says of times is what they say.
        for parent in (root, *segments):
            for span in below(spans, parent):
                assert parent.start_time_unix_nano <= span.start_time_unix_nano
                assert span.start_time_unix_nano <= span.end_time_unix_nano
                assert span.end_time_unix_nano <= parent.end_time_unix_nano
        ended = fleet.wait_event(goal, TaskEvent.ENDED)
        assert length_ns(root) == pytest.approx(ns(ended.at), abs=NS_PER_US)
        started = fleet.events_of(goal, TaskEvent.SEGMENT_STARTED)
        done = fleet.events_of(goal, TaskEvent.SEGMENT_ENDED)
        for span, start, end in zip(segments, started, done, strict=True):
            at_ns = span.start_time_unix_nano - root.start_time_unix_nano
            assert at_ns == pytest.approx(ns(start.at), abs=NS_PER_US)
            # A start is heard of late, and no span ends after its end was heard of.
            left_ns = min(ns(end.execution_time), ns(end.at) - ns(start.at))
            assert 0 < length_ns(span) == pytest.approx(left_ns, abs=NS_PER_US)
            assert attributes(span)['timely.text'] == start.text
            for call, took in zip(below(spans, span), end.call_durations, strict=True):
                assert length_ns(call) == pytest.approx(min(ns(took), left_ns), abs=NS_PER_US)
                left_ns -= length_ns(call)

        # One that a client cancels.
        goal = fleet.plan('takeoff;delay(10000);land;')
        fleet.wait_started('delay(10000)')

        # One that is refused meanwhile, and one that is rejected before it has an id.
        refused = fleet.plan('land;', when_busy=PlanTask.Goal.BUSY_QUEUE)
        assert refused.result()[1].error_code == PlanTask.Result.REFUSED
        (root,) = spans_of(collector, refused)
        assert (attributes(root)['timely.outcome'], root.status.code) == ('refused', ERROR)
        assert 'has 0 tasks queued' in root.status.message
        fleet.plan('land;', 'nobody').wait_rejected()
        wait_for(
            lambda: any(attributes(one)['timely.robot'] == 'nobody' for one in collector.spans),
            'the span of a goal that was rejected',
        )

        goal.cancel()
        assert goal.result()[0] == CANCELED
        spans = spans_of(collector, goal)
        (root,) = [span for span in spans if not span.parent_span_id]
        assert (attributes(root)['timely.outcome'], root.status.code) == ('canceled', ERROR)
        outcomes = [attributes(span)['timely.outcome'] for span in below(spans, root)]
        assert outcomes[0] == 'succeeded'
        assert 'canceled' in outcomes
    finally:
        collector.close()

    # Nobody is there any more: said once, and robots fly.
    planner = fleet.planner
    assert planner is not None
    assert fleet.plan('takeoff;land;').result()[0] == SUCCEEDED
    complaint = f'spans for {collector.url}'
    wait_for(lambda: complaint in planner.output, 'a complaint')
    assert fleet.plan('takeoff;land;').result()[0] == SUCCEEDED
    planner.signal(signal.SIGINT)
    assert planner.wait() == 0
    assert planner.output.count(complaint) == 1
    assert 'Traceback' not in planner.output
