"""Names and qualities of service that both nodes must agree on. Every name is relative."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, QoSPolicyKind, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions

HEARTBEAT_TOPIC = 'planner_heartbeat'
"""Where the planner gives signs of life, in the namespace that it shares with its robots."""

TASK_EVENTS_TOPIC = 'task_events'
"""Where the planner mirrors what happens to tasks; executors learn from it that a plan ended."""

HEARTBEAT_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)

STATE_QOS = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""States and the skill catalogue: whoever comes later gets the latest."""

SEGMENTS_QOS = QoSProfile(depth=50)
"""Reliable, volatile, the last 50."""

GOALS_QOS = QoSProfile(depth=1000)
"""Of the services of actions. rclpy's own depth of 10 loses goals that come in a burst."""

FEEDBACK_QOS = QoSProfile(depth=100)
"""Of the feedback of actions, of all goals of a server together."""

EVENTS_QOS = QoSProfile(depth=200)
"""Reliable, volatile, the last 200."""

QOS_OVERRIDES = QoSOverridingOptions.with_default_policies()
"""What of a publisher's quality of service a user may override by parameters, where people and
tools listen: history, depth and reliability."""

DEPTH_OVERRIDES = QoSOverridingOptions((QoSPolicyKind.HISTORY, QoSPolicyKind.DEPTH))
"""The same where our own programs listen, which ask for reliable publishers."""
