"""Spans without a planner's node: what they need, and that nothing waits for a collector."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import export
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from timely_llm_ros.errors import ConfigurationError, Ending, TaskRefusedError
from timely_llm_ros.execution import SegmentOutcome
from timely_llm_ros.nodes.planner import spans
from timely_llm_ros.nodes.planner.spans import MOST_CALLS, PlannerSpans
from timely_llm_ros.planner import SegmentEnded, SegmentStarted, Task, TaskAccepted, TaskEnded
from timely_llm_ros.skills import Scene
from timely_llm_ros.utility import NORMAL

TASK_ID = '12345678-1234-5678-1234-567812345678'
RECEIVED_S = 1000.0
TIMES_S = st.floats(0.0, 100.0)


def accepted() -> TaskAccepted:
    task = Task(TASK_ID, 'drone_1', 'tello', 'land', Scene(), NORMAL)
    return TaskAccepted(TASK_ID, 'drone_1', RECEIVED_S, task, RECEIVED_S)


def ended(outcome: SegmentOutcome, at_s: float) -> SegmentEnded:
    return SegmentEnded(TASK_ID, 'drone_1', at_s, outcome)


def task_ended(at_s: float) -> TaskEnded:
    result: Any = SimpleNamespace(ending=Ending(), status=SimpleNamespace(value='succeeded'))
    return TaskEnded(TASK_ID, 'drone_1', at_s, result)


def test_who_misses_the_package_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'opentelemetry.sdk.trace', None)
    with pytest.raises(ConfigurationError, match=r"pip install 'timely_llm_ros\[otel\]'"):
        PlannerSpans('http://127.0.0.1:4318', 'planner', lambda: 0)


@pytest.mark.parametrize('endpoint', ['127.0.0.1:4318', 'grpc://127.0.0.1:4317', 'http://'])
def test_an_endpoint_that_is_none_is_named(endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match=endpoint):
        PlannerSpans(endpoint, 'planner', lambda: 0)


def test_without_an_endpoint_nothing_is_imported() -> None:
    text = (
        'import sys\nfrom timely_llm_ros.nodes.planner.spans import PlannerSpans\n'
        "PlannerSpans('', 'planner', lambda: 0)\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    subprocess.run([sys.executable, '-c', text], check=True)


@pytest.mark.parametrize('answers', [False, True])
async def test_a_planner_does_not_wait_for_a_collector_that_hangs(
    answers: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It has more to say than the queue has room for, and that is said once."""
    monkeypatch.setattr(spans, 'LINGER_S', 0.05)
    monkeypatch.setenv('OTEL_EXPORTER_OTLP_TIMEOUT', '0.1')
    monkeypatch.setenv('OTEL_BSP_MAX_QUEUE_SIZE', '8')
    monkeypatch.setenv('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', '8')
    with socket.create_server(('127.0.0.1', 0)) as silent:
        port = silent.getsockname()[1]
        if answers:
            silent.close()
        made = PlannerSpans(f'http://127.0.0.1:{port}', 'planner', lambda: 0)
        with caplog.at_level(logging.WARNING, 'timely_llm_ros'):
            for _ in range(20):
                made.on_planner_event(accepted())
                made.on_planner_event(ended(SegmentOutcome(0), RECEIVED_S + 1.0))
                made.on_planner_event(task_ended(RECEIVED_S + 2.0))
            await made.close()
    assert sum('spans for' in record.getMessage() for record in caplog.records) == 1


@pytest.fixture(scope='module')
def keeping() -> tuple[PlannerSpans, InMemorySpanExporter]:
    kept = InMemorySpanExporter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, 'BatchSpanProcessor', lambda _: SimpleSpanProcessor(kept))
        made = PlannerSpans('http://nowhere', 'planner', lambda: 10**18)
    return made, kept


@pytest.mark.parametrize('task_id', [TASK_ID, ''])
def test_a_goal_that_is_refused_has_a_span_that_says_why(
    keeping: tuple[PlannerSpans, InMemorySpanExporter], task_id: str
) -> None:
    made, kept = keeping
    kept.clear()
    error = TaskRefusedError('its budget is too small')
    made.refused(error, 'drone_1', task_id, client='web', skill_set='tello', after_s=0.5)
    found: Any = kept.get_finished_spans()
    (goal,) = found
    assert (goal.context.trace_id == uuid.UUID(TASK_ID).int) == bool(task_id)
    assert goal.attributes['timely.task_id'] == task_id
    assert (goal.name, goal.attributes['timely.outcome']) == ('goal', 'refused')
    assert goal.status.description == 'its budget is too small'
    assert goal.end_time - goal.start_time == 500_000_000


@given(
    started_s=st.none() | TIMES_S,
    ended_s=TIMES_S,
    execution_s=TIMES_S,
    durations_s=st.lists(TIMES_S, max_size=MOST_CALLS + 5),
    code=st.sampled_from([0, 1, 60000]),
)
def test_spans_lie_within_each_other_whatever_robots_say(
    keeping: tuple[PlannerSpans, InMemorySpanExporter],
    started_s: float | None,
    ended_s: float,
    execution_s: float,
    durations_s: list[float],
    code: int,
) -> None:
    made, kept = keeping
    kept.clear()
    made.on_planner_event(accepted())
    at_s = RECEIVED_S + ended_s
    if started_s is not None:
        made.on_planner_event(SegmentStarted(TASK_ID, 'drone_1', RECEIVED_S + started_s, 0, 0.0))
    calls = tuple(f'move({number})' for number in range(len(durations_s)))
    outcome = SegmentOutcome(0, Ending(code, ''), calls, tuple(durations_s), execution_s)
    made.on_planner_event(ended(outcome, at_s))
    made.on_planner_event(task_ended(at_s))
    finished: tuple[Any, ...] = kept.get_finished_spans()
    *called, segment, goal = finished
    assert len(called) == min(len(calls), MOST_CALLS)
    assert goal.context.trace_id == uuid.UUID(TASK_ID).int
    for parent, inner in [(goal, segment), *((segment, call) for call in called)]:
        assert inner.parent.span_id == parent.context.span_id
        assert parent.start_time <= inner.start_time <= inner.end_time <= parent.end_time
    assert segment.attributes['timely.calls'] == len(calls)
    failed = [one for one in called if one.attributes['timely.outcome'] != 'succeeded']
    assert len(failed) == (code != 0 and 0 < len(calls) <= MOST_CALLS)
