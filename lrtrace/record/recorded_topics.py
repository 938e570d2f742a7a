"""Which topics belong into the trace of a fleet."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = 'timely_llm_ros/'
"""Every topic of this package's types in the node's namespace is recorded, action feedback too."""

SHARED_TOPICS = {
    '/diagnostics': 'diagnostic_msgs/msg/DiagnosticArray',
    '/rosout': 'rcl_interfaces/msg/Log',
}
"""Topics of the whole machine that are recorded too."""

FLEET_TOPICS = {
    'diagnostics': 'diagnostic_msgs/msg/DiagnosticArray',
    'skill_catalogue': 'std_msgs/msg/String',
}
"""Topics of other packages' types that are recorded too, by their name in the namespace."""

STATUS_TYPE = 'action_msgs/msg/GoalStatusArray'


FEEDBACK = '_FeedbackMessage'
"""End of the types that rosidl makes for the feedback of actions. Others' names have no "_"."""


def is_recorded(
    topic: str,
    kind: str,
    namespace: str,
    patterns: Sequence[str],
    *,
    action_feedback: bool = True,
) -> bool:
    """Return whether a topic of type ``kind``, given by its full name, belongs into the trace.

    ``namespace`` is the node's own, with a slash at its end; ``patterns`` are of further topics.
    Without ``action_feedback`` no feedback of an action does, whatever the patterns say.
    """
    if not action_feedback and kind.endswith(FEEDBACK):
        return False
    if SHARED_TOPICS.get(topic) == kind or any(fnmatchcase(topic, one) for one in patterns):
        return True
    if not topic.startswith(namespace):
        return False
    if kind.startswith(PACKAGE):
        return True
    if kind == STATUS_TYPE:
        return topic.endswith(('/plan_task/_action/status', '/execute_segment/_action/status'))
    return FLEET_TOPICS.get(topic.removeprefix(namespace)) == kind
