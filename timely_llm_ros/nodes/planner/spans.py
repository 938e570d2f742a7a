"""Makes OpenTelemetry spans of the planner's events: a goal, its segments, their calls.

They go to a collector from a thread of OpenTelemetry's, through a queue that is bounded: who does
not take them loses them, and the planner never waits.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import uuid
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.planner import (
    SegmentEnded,
    SegmentReady,
    SegmentStarted,
    TaskAccepted,
    TaskEnded,
    TaskStatus,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.errors import TimelyError
    from timely_llm_ros.execution import SegmentOutcome
    from timely_llm_ros.planner import PlannerEvent

_logger = logging.getLogger(__name__)

MOST_CALLS = 100
"""So many calls of a segment have a span, because they are made on the planner's loop."""

LINGER_S = 2.0
"""How long a planner that ends waits for the last spans to be taken (s)."""


_WORDS = {int(code): code.name.lower() for code in SegmentCode}


@dataclass(slots=True)
class _OpenTask:
    """A task that has not ended; ``origin_ns`` is when the planner's clock was 0 (Unix time)."""

    span: Any
    origin_ns: int
    received_s: float
    labels: dict[str, str]
    texts: dict[int, str] = field(default_factory=dict)
    starts_s: dict[int, float] = field(default_factory=dict)

    def at(self, time_s: float) -> int:
        """Return a time of the planner's clock in Unix time (ns)."""
        return self.origin_ns + round(1e9 * time_s)


class PlannerSpans:
    """Makes spans where there is an endpoint, and none elsewhere. Used on the loop's thread.

    The id of a goal's trace is the task's id. Times are those of the task's events.

    Args:
        endpoint: Base URL of a collector (OTLP over HTTP); "" for none.
        node: Full name of the planner's node.
        now_ns: Returns the time that the planner's messages are stamped with (Unix time, ns).

    Raises:
        ConfigurationError: OpenTelemetry is not installed, or the endpoint is no URL.
    """

    def __init__(self, endpoint: str, node: str, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._tasks: dict[str, _OpenTask] = {}
        self._provider: Any = None
        self.policy = ''
        """Which policy ranks generations."""
        if not endpoint:
            return
        if not re.fullmatch(r'https?://\S+', endpoint):
            raise ConfigurationError(
                f'otlp_endpoint {endpoint!r}: expected a URL such as http://127.0.0.1:4318'
            )
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
            from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
        except ImportError as err:
            raise ConfigurationError(
                f'otlp_endpoint {endpoint!r}: expected OpenTelemetry to be installed '
                f"(pip install 'timely_llm_ros[otel]'): {err}"
            ) from err
        said = _SaidOnce(endpoint)

        class Exporter(OTLPSpanExporter):
            def export(self, spans: Any) -> SpanExportResult:
                result = super().export(spans)
                if result is SpanExportResult.SUCCESS:
                    said.taken()
                return result

        class TaskIds(RandomIdGenerator):
            """The only spans without a parent are those of goals."""

            task_id = ''

            def generate_trace_id(self) -> int:
                if not self.task_id:
                    # A goal that was rejected never had an id.
                    return super().generate_trace_id()
                return uuid.UUID(self.task_id).int

        self._ids = TaskIds()
        self._trace = trace
        self._provider = TracerProvider(
            resource=Resource.create(
                {'service.name': 'timely_planner', 'service.instance.id': node}
            ),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        url = f'{endpoint.rstrip("/")}/v1/traces'
        self._provider.add_span_processor(BatchSpanProcessor(Exporter(url)))
        self._tracer = self._provider.get_tracer('timely_llm_ros')

    async def close(self) -> None:
        """Have the collector take what is left, for a while; idempotent."""
        provider, self._provider = self._provider, None
        if provider is not None:
            # Nobody waits for a daemon, should the collector hang.
            ending = threading.Thread(target=provider.shutdown, daemon=True)
            ending.start()
            await asyncio.to_thread(ending.join, LINGER_S)

    def on_planner_event(self, event: PlannerEvent) -> None:
        """Make spans of what happened to a task."""
        if self._provider is None:
            return
        if isinstance(event, TaskAccepted):
            self._begin(event)
            return
        open_task = self._tasks.get(event.task_id)
        if open_task is None:
            return
        match event:
            case SegmentReady(segment=segment):
                open_task.texts[segment.index] = segment.text
                values = {
                    'timely.segment': segment.index,
                    'timely.generation_s': event.generation_s,
                }
                open_task.span.add_event('generated', values, open_task.at(event.at_s))
            case SegmentStarted():
                open_task.starts_s[event.index] = event.at_s
            case SegmentEnded():
                self._add_segment(open_task, event.outcome, event.at_s)
            case TaskEnded(result=result):
                del self._tasks[event.task_id]
                word = result.status.value
                self._end(open_task.span, word, result.ending.message, open_task.at(event.at_s))
            case _:
                return

    def refused(
        self,
        error: TimelyError,
        robot: str,
        task_id: str = '',
        *,
        client: str,
        skill_set: str,
        after_s: float = 0.0,
    ) -> None:
        """Make the span of a goal that was not taken, ``after_s`` (s) after it came."""
        if self._provider is None:
            return
        now_ns = self._now_ns()
        labels = self._labels(task_id, robot, client, skill_set)
        span = self._goal(labels, now_ns - round(1e9 * after_s))
        self._end(span, 'refused', str(error), now_ns)

    def _begin(self, event: TaskAccepted) -> None:
        task = event.task
        labels = self._labels(task.task_id, task.robot, task.client, task.skill_set)
        origin_ns = self._now_ns() - round(1e9 * event.at_s)
        start_ns = origin_ns + round(1e9 * event.received_s)
        span = self._goal(labels, start_ns)
        self._tasks[task.task_id] = _OpenTask(span, origin_ns, event.received_s, labels)

    def _labels(self, task_id: str, robot: str, client: str, skill_set: str) -> dict[str, str]:
        return {
            'timely.task_id': task_id,
            'timely.robot': robot,
            'timely.client': client,
            'timely.skill_set': skill_set,
            'timely.policy': self.policy,
        }

    def _goal(self, labels: dict[str, str], start_ns: int) -> Any:
        self._ids.task_id = labels['timely.task_id']
        return self._tracer.start_span('goal', attributes=labels, start_time=start_ns)

    def _add_segment(self, task: _OpenTask, outcome: SegmentOutcome, at_s: float) -> None:
        """Add a segment and its calls, one after the other; what never started has no length.

        A robot's start is heard of a little late, so its end may be heard before all of its time.
        """
        start_s = task.starts_s.pop(outcome.index, at_s - outcome.execution_s)
        start_s = min(at_s, max(task.received_s, start_s))
        end_s = min(at_s, start_s + outcome.execution_s) if outcome.execution_s else at_s
        code = outcome.ending.code
        word = TaskStatus.SUCCEEDED.value if outcome.succeeded else _WORDS.get(code, str(code))
        values: dict[str, Any] = {
            **task.labels,
            'timely.segment': outcome.index,
            'timely.text': task.texts.pop(outcome.index, ''),
            'timely.calls': len(outcome.calls),
            'timely.execution_s': outcome.execution_s,
        }
        segment = self._start('segment', task.span, values, task.at(start_s))
        last = len(outcome.calls) - 1
        timed = zip(outcome.calls, outcome.call_durations_s, strict=False)
        for number, (text, duration_s) in enumerate(islice(timed, MOST_CALLS)):
            skill = text.partition('(')[0]
            values = {**task.labels, 'timely.skill': skill, 'timely.call': text}
            call = self._start(f'call {skill}', segment, values, task.at(start_s))
            start_s = min(end_s, start_s + duration_s)
            failed = number == last and not outcome.succeeded
            ending = (word, outcome.ending.message) if failed else (TaskStatus.SUCCEEDED.value, '')
            self._end(call, *ending, task.at(start_s))
        self._end(segment, word, outcome.ending.message, task.at(end_s))

    def _start(self, name: str, parent: Any, values: dict[str, Any], start_ns: int) -> Any:
        context = self._trace.set_span_in_context(parent)
        return self._tracer.start_span(name, context, attributes=values, start_time=start_ns)

    def _end(self, span: Any, outcome: str, message: str, end_ns: int) -> None:
        span.set_attribute('timely.outcome', outcome)
        if outcome != TaskStatus.SUCCEEDED.value:
            span.set_status(self._trace.StatusCode.ERROR, message)
        span.end(end_ns)


class _SaidOnce(logging.Handler):
    """Says the first thing that OpenTelemetry complains of, and no other until spans are taken."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(logging.WARNING)
        self._endpoint, self._said = endpoint, False
        log = logging.getLogger('opentelemetry')
        log.handlers, log.propagate = [self], False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._said:
            self._said = True
            _logger.warning(
                'spans for %s: %s. The planner goes on; what is not taken is lost, and nothing '
                'more is said until it is',
                self._endpoint,
                record.getMessage(),
            )

    def taken(self) -> None:
        """Note that the collector takes spans."""
        if self._said:
            self._said = False
            _logger.info('spans for %s: they are taken again', self._endpoint)
