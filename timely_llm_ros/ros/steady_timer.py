"""Timers that a step of the wall clock does not hold up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rclpy.clock import Clock
from rclpy.clock_type import ClockType

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node
    from rclpy.timer import Timer


def create_steady_timer(node: Node, period_s: float, callback: Callable[[], None]) -> Timer:
    """Call something every ``period_s`` seconds on the node's thread.

    rclpy's own default is the node's clock, the wall clock: set back by an hour, it stops such a
    timer for an hour.
    """
    return node.create_timer(period_s, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))
