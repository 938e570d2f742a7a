"""What an executor tells Prometheus of its robots."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from timely_llm_ros.execution import ExecutorPhase, SegmentCode
from timely_llm_ros.ros import Metric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.nodes.executor.robot_server import RobotServer
    from timely_llm_ros.ros import Samples

CONNECTED = Metric(
    'timely_executor_robot_connected', 'gauge', 'Whether the robot has contact.', ('robot',)
)
PHASE = Metric(
    'timely_executor_robot_phase', 'gauge', 'What the robot does: 1 for its phase.',
    ('robot', 'phase'),
)  # fmt: skip
HALTED = Metric('timely_executor_robot_halted', 'gauge', 'Whether it is halted.', ('robot',))
INACTIVE = Metric(
    'timely_executor_robot_inactive', 'gauge', 'Whether its executor is not active.', ('robot',)
)
QUEUED = Metric(
    'timely_executor_segments_queued', 'gauge', 'Segments that wait for their turn.', ('robot',)
)
REMAINING = Metric(
    'timely_executor_remaining_seconds', 'gauge', 'Expected time of what it has to do.', ('robot',)
)
ENDED = Metric(
    'timely_executor_segments_ended_total',
    'counter',
    'Segments that ended, by error code in words; "none" is success.',
    ('robot', 'reason'),
)

EXECUTOR_METRICS = (CONNECTED, PHASE, HALTED, INACTIVE, QUEUED, REMAINING, ENDED)
"""Every metric of an executor."""


def executor_samples(servers: Iterable[RobotServer]) -> Samples:
    """Return the figures of an executor's robots."""
    states = [(server, server.executor.state) for server in servers]
    return {
        CONNECTED: [((s.robot,), s.executor.connected) for s, _ in states],
        PHASE: [
            ((s.robot, phase), phase == state.phase)
            for s, state in states
            for phase in get_args(ExecutorPhase)
        ],
        HALTED: [((s.robot,), s.stops.halted) for s, _ in states],
        INACTIVE: [((s.robot,), not s.stops.active) for s, _ in states],
        QUEUED: [((s.robot,), state.queued) for s, state in states],
        REMAINING: [((s.robot,), state.remaining_s) for s, state in states],
        ENDED: [
            ((s.robot, code.name.lower()), s.ended[code]) for s, _ in states for code in SegmentCode
        ],
    }
