"""The recorder node's parameters, and which topics they mean."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Declare = Callable[..., Any]

PACKAGE = 'timely_llm_ros/'
"""Every topic of this package's types is recorded, the feedback of its actions too, whatever its
name, if it is in the node's namespace."""

SHARED_TOPICS = {
    '/diagnostics': 'diagnostic_msgs/msg/DiagnosticArray',
    '/rosout': 'rcl_interfaces/msg/Log',
}
"""Topics of the whole machine that are recorded too."""

FLEET_TOPICS = {
    'diagnostics': 'diagnostic_msgs/msg/DiagnosticArray',
    'skill_catalogue': 'std_msgs/msg/String',
}
"""Topics of other packages' types that are recorded too, by their last name in the namespace."""

STATUS_TYPE = 'action_msgs/msg/GoalStatusArray'


@dataclass(frozen=True, slots=True)
class RecorderOptions:
    """What the node's parameters say.

    Attributes:
        output: The trace's folder, which must not exist; empty for one named after the time.
        robots: Robots whose topics are subscribed before anyone publishes on them.
        topics: Patterns of further topics, by full name.
        custom_data: What else to note about the run.
        flush_period_s: A kill loses at most the messages of this time (s).
        max_file_bytes: A longer file is ended and another begun; 0 for no limit.
        max_file_s: So it is with one that spans this time (s).
        max_backlog_bytes: Messages may wait to be written in so much memory.
    """

    output: str
    robots: tuple[str, ...]
    topics: tuple[str, ...]
    custom_data: dict[str, str]
    flush_period_s: float
    max_file_bytes: int
    max_file_s: float
    max_backlog_bytes: int


def read_options(declare: Declare) -> RecorderOptions:
    """Declare the parameters and return what they say.

    Args:
        declare: Declares one by its name, its default, a description and the least and greatest
            value where there are such; returns what it is set to.

    Raises:
        TraceError: One cannot be used.
    """
    pairs = declare('custom_data', [''], 'what to note about the run: a list of name=value')
    robots = declare('robots', [''], 'robots whose topics to subscribe before anyone publishes')
    topics = declare(
        'topics', [''], "patterns of further topics to record, by full name, e.g. '/arm_1/joint_*'"
    )
    return RecorderOptions(
        output=declare(
            'output', '', 'folder of the trace, which must not exist; empty: named after the time'
        ),
        robots=tuple(filter(None, robots)),
        topics=tuple(filter(None, topics)),
        custom_data=_named(pairs),
        flush_period_s=declare(
            'flush_period_s',
            0.5,
            'a kill loses at most the messages of this time (s)',
            (0.05, 1.0),
        ),
        max_file_bytes=declare(
            'max_file_bytes',
            1 << 29,
            'a file of so many bytes is ended and another begun; 0: never',
            (0, 1 << 40),
        ),
        max_file_s=declare(
            'max_file_s',
            0.0,
            'a file that spans so much time (s) is ended and another begun; 0: never',
            (0.0, 1e6),
        ),
        max_backlog_bytes=declare(
            'max_backlog_bytes',
            1 << 26,
            'memory for messages that wait to be written; what finds no room is dropped, counted '
            'and reported',
            (1 << 16, 1 << 34),
        ),
    )


def _named(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in filter(None, pairs):
        name, equals, value = pair.partition('=')
        if not (name and equals):
            raise TraceError(f'parameter custom_data: {pair!r}: expected name=value')
        found[name] = value
    return found


def is_recorded(topic: str, kind: str, namespace: str, patterns: Sequence[str]) -> bool:
    """Return whether a topic belongs into the trace.

    Args:
        topic: Its full name.
        kind: Its type.
        namespace: The node's own, with a slash at its end.
        patterns: Of further topics.
    """
    if SHARED_TOPICS.get(topic) == kind or any(fnmatchcase(topic, one) for one in patterns):
        return True
    if not topic.startswith(namespace):
        return False
    if kind.startswith(PACKAGE):
        return True
    if kind == STATUS_TYPE:
        return topic.endswith(('/plan_task/_action/status', '/execute_segment/_action/status'))
    return FLEET_TOPICS.get(topic.removeprefix(namespace)) == kind
