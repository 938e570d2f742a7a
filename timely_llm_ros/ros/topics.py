"""Names and qualities of service that both nodes must agree on. Every name is relative."""

from __future__ import annotations

from copy import copy
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSPolicyKind, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions

HEARTBEAT_TOPIC = 'planner_heartbeat'
"""Where the planner gives signs of life, in the namespace that it shares with its robots."""

TASK_EVENTS_TOPIC = 'task_events'
"""Where the planner mirrors what happens to tasks; executors learn from it that a plan ended."""

HEARTBEAT_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)

STATE_QOS = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""States and the skill catalogue: whoever comes later gets the latest."""

REST_PERIOD_S = 4.0
"""How often an executor tells the state of a robot that rests (s), and a planner expects it."""

SEGMENTS_QOS = QoSProfile(depth=50)
"""Reliable, volatile, the last 50."""

GOALS_QOS = QoSProfile(depth=1000)
"""Of the services of actions. rclpy's own depth of 10 loses goals that come in a burst."""

FEEDBACK_QOS = QoSProfile(depth=100)
"""Of the feedback of actions, of all goals of a server together."""

EVENTS_QOS = QoSProfile(depth=200)
"""Reliable, volatile, the last 200."""

QOS_OVERRIDES = QoSOverridingOptions.with_default_policies()
"""What of its quality of service a user may override by parameters, where people and tools listen
to a publisher or are heard by a subscription: history, depth and reliability."""

DEPTH_OVERRIDES = QoSOverridingOptions((QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH))
"""The same where our own programs listen, which ask for reliable publishers."""


def overridable(
    qos: QoSProfile | int, options: QoSOverridingOptions = QOS_OVERRIDES
) -> dict[str, Any]:
    """Return what a publisher or subscription is made with whose QoS a user may override.

    Args:
        qos: Its quality of service unless he does; a number is the depth.
        options: What of it may be overridden.
    """
    # rclpy writes what is overridden into the profile that it gets.
    profile = QoSProfile(depth=qos) if isinstance(qos, int) else copy(qos)
    return {'qos_profile': profile, 'qos_overriding_options': options}
