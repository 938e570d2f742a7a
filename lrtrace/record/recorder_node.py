"""The ROS node that records a fleet: a managed node, which writes a trace while it is active."""

from __future__ import annotations

import datetime
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from lrtrace.record.fleet_topics import FleetTopics
from lrtrace.record.program_node import ProgramNode, run_program
from lrtrace.record.recorder_health import RecorderCounts, health, recorder_samples, summary_line
from lrtrace.record.recorder_parameters import RecorderParameters, named_values
from lrtrace.record.recording import Recording
from lrtrace.storage import TraceWriter
from timely_llm_ros.errors import TimelyError
from timely_llm_ros.ros import Exporter, autostart, create_steady_timer, declare, overridable

if TYPE_CHECKING:
    from collections.abc import Sequence

DIAGNOSTICS_PERIOD_S = 1.0


class RecorderNode(ProgramNode, LifecycleNode):  # type: ignore[misc]
    """Opens a trace when it is configured, and records what a fleet says while it is active."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__('recorder', **node_options)
        self._lost: Counter[str] = Counter()
        self._recording: Recording | None = None
        """The latest; still there when it has ended."""
        self._topics: FleetTopics | None = None
        """None while nothing is recorded."""
        self._traces = self._warned = 0
        self._failed = False

    def start(self) -> None:
        """Record at once, or wait for the transitions.

        Raises:
            ConfigurationError: A parameter cannot be used.
        """
        self._options = declare(self, RecorderParameters)
        self._exporter = Exporter(self._options.metrics, 'recorder')
        self._health = self.create_publisher(DiagnosticArray, 'diagnostics', **overridable(10))
        if self._options.autostart:
            self._failed = not autostart(self)
        create_steady_timer(self, DIAGNOSTICS_PERIOD_S, self._diagnose)

    @property
    def over(self) -> bool:
        """Whether it could not start, or the trace can no longer be written on."""
        return self._failed or (self._recording is not None and bool(self._recording.failure))

    def finish(self) -> int:
        """End the trace and say so; one that could not be written on stays as it is."""
        self._end_trace()
        self._exporter.close()
        return 1 if self.over else 0

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Make a trace. Nothing is in it until the node is active."""
        try:
            self._recording = self._open_trace(self._options)
        except TimelyError as err:
            self.get_logger().error(f'not configured: {err}')
            return TransitionCallbackReturn.FAILURE
        self._traces += 1
        self._lost.clear()
        self._warned = 0
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Record from now on."""
        if self._recording is None:
            return TransitionCallbackReturn.FAILURE
        self._topics = FleetTopics(self, self._options, self._recording, self._lost)
        self.get_logger().info(f'recording to {self._recording.folder}')
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Hear no more; what was heard is written, and the trace may be gone on with."""
        self._hear_no_more()
        self.get_logger().info('nothing is recorded until the node is active again')
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the trace."""
        self._end_trace()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the trace, for good."""
        self._end_trace()
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the trace: whatever went wrong, what is in it stays readable."""
        self._end_trace()
        return super().on_error(state)

    def _open_trace(self, options: RecorderParameters) -> Recording:
        """Make a trace; those after the first have their number behind their name.

        Raises:
            ConfigurationError: A parameter cannot be used.
            TraceError: The trace cannot be made.
        """
        time = f'{datetime.datetime.now(datetime.UTC):%Y%m%d_%H%M%S}'
        folder = Path(options.output or f'trace_{time}')
        if self._traces:
            folder = folder.with_name(f'{folder.name}_{self._traces + 1}')
        writer = TraceWriter(
            folder,
            custom_data={'run_id': str(uuid.uuid4()), **named_values(options.custom_data)},
            max_file_bytes=options.max_file_bytes,
            max_file_s=options.max_file_s,
        )
        return Recording(
            writer,
            max_backlog_bytes=options.max_backlog_bytes,
            flush_period_s=options.flush_period_s,
        )

    def _hear_no_more(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _end_trace(self) -> None:
        """End the trace, if one is open, and say what is in it."""
        self._hear_no_more()
        recording = self._recording
        if recording is None or recording.ended:
            return
        recording.note({'lost_messages': str(self._lost.total())})
        recording.close()
        if recording.failure:
            self.get_logger().fatal(f'recording ends: {recording.failure}')
        print(summary_line(recording.counts(self._lost)), flush=True)
        if recording.failure:
            print(f'error: {recording.failure}', file=sys.stderr)

    def _diagnose(self) -> None:
        counts = RecorderCounts() if self._recording is None else self._recording.counts(self._lost)
        if self._topics is not None:
            self._topics.look_at_events()
        level, text, values = health(counts, active=self._topics is not None)
        self._exporter.show(recorder_samples(counts))
        status = DiagnosticStatus(
            level=bytes([level]),
            name=f'{self.get_fully_qualified_name().lstrip("/")}: trace',
            message=text,
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._health.publish(message)
        missing = counts.dropped.total() + counts.lost.total()
        if missing > self._warned:
            self._warned = missing
            self.get_logger().warning(f'not recorded so far: {counts.missing_text}')


def main(arguments: Sequence[str] | None = None) -> int:
    """Record until SIGINT or SIGTERM, or until it fails; return the exit code."""
    return run_program(RecorderNode, arguments)


if __name__ == '__main__':
    sys.exit(main())
