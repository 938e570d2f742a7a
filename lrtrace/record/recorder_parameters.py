"""The recorder node's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.ros import MetricsOptions, fixed, fixed_group

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class RecorderParameters:
    """What the recorder is told."""

    output: str = fixed(
        '', 'folder of the trace, which must not exist; empty: named after the time'
    )
    autostart: bool = fixed(
        True, 'whether it records from its start; else it waits for the transitions'
    )
    robots: tuple[str, ...] = fixed(
        (), 'robots whose topics are subscribed before anyone publishes on them'
    )
    topics: tuple[str, ...] = fixed(
        (), "patterns of further topics to record, by full name, e.g. '/arm_1/joint_*'"
    )
    action_feedback: bool = fixed(
        True,
        'whether the feedback of actions is recorded; without it, readers that refuse type names '
        'with "_" can read the trace, such as mcap_ros2',
    )
    custom_data: tuple[str, ...] = fixed((), 'what to note about the run: a list of name=value')
    flush_period_s: float = fixed(
        0.5, 'a kill loses at most the messages of this time (s)', minimum=0.05, maximum=1.0
    )
    max_file_bytes: int = fixed(
        1 << 29,
        'a file of so many bytes is ended and another begun; 0: never',
        minimum=0,
        maximum=1 << 40,
    )
    max_file_s: float = fixed(
        600.0,
        'a file that spans so much time (s) is ended and another begun, which keeps the index in '
        'memory small; 0: never',
        minimum=0.0,
        maximum=1e6,
    )
    max_backlog_bytes: int = fixed(
        1 << 26,
        'memory for messages that wait to be written; what finds no room is dropped, counted and '
        'reported',
        minimum=1 << 16,
        maximum=1 << 34,
    )
    metrics: MetricsOptions = fixed_group(MetricsOptions())


def named_values(pairs: Iterable[str]) -> dict[str, str]:
    """Return what a list of ``name=value`` says; empty entries count for nothing.

    Raises:
        ConfigurationError: An entry has no name or no equals sign.
    """
    found = {}
    for pair in filter(None, pairs):
        name, equals, value = pair.partition('=')
        if not (name and equals):
            raise ConfigurationError(f'parameter custom_data: {pair!r}: expected name=value')
        found[name] = value
    return found
