"""The actions of a simulated arm, as the calls file ``moveit`` names them.

They are MoveIt's ``move_action`` and that of a gripper's controller. Nothing here knows how the arm
is simulated.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from rclpy.action import GoalResponse

from timely_llm_ros.ros import DeferredActionServer

if TYPE_CHECKING:
    from rclpy.action.server import ServerGoalHandle
    from rclpy.node import Node

    from timely_llm_ros.ros import RosThread

TYPES = ('control_msgs', 'moveit_msgs')
"""The packages that have the types."""

RESULTS_KEPT_S = 60


class ArmBody(Protocol):
    """An arm. Used on the loop."""

    def start(self, request: Any) -> int | None:
        """Begin what a ``MotionPlanRequest`` asks for; return why not, as MoveIt's error code."""
        ...

    def ended(self) -> int | None:
        """Return the code with which the motion ended; None while it is under way."""
        ...

    def stop(self) -> None:
        """Hold the arm where it is."""
        ...

    def grip(self, apart_m: float) -> bool:
        """Have the fingers that far apart (m); return whether they hold something."""
        ...


class ArmActions:
    """Serves the goals of one arm: a new motion takes the place of the one under way.

    Args:
        node: The node that has the actions.
        ros: The thread that serves it.
        robot: Name of the arm, which goes before the actions' names.
        arm: Does what is asked for.
    """

    def __init__(self, node: Node, ros: RosThread, robot: str, arm: ArmBody) -> None:
        self._ros, self._arm = ros, arm
        motion = import_module('moveit_msgs.action').MoveGroup
        gripper = import_module('control_msgs.action').GripperCommand
        self._motion_result, self._gripper_result = motion.Result, gripper.Result
        self._preempted = motion.Result().error_code.PREEMPTED
        self._goal: ServerGoalHandle | None = None
        self._motions = self._serve(node, motion, f'{robot}/move_action', self._move, self._stop)
        self._grips = self._serve(
            node, gripper, f'{robot}/panda_hand_controller/gripper_cmd', self._grip, lambda _: None
        )

    @staticmethod
    def there() -> bool:
        """Return whether the actions' types are installed."""
        return all(importlib.util.find_spec(package) for package in TYPES)

    def advance(self) -> None:
        """End the motion under way, if it has ended; called on the loop, again and again."""
        if self._goal is not None and (code := self._arm.ended()) is not None:
            self._end(code)

    def _serve(self, node: Node, kind: Any, name: str, take: Any, cancel: Any) -> Any:
        return DeferredActionServer(
            node,
            kind,
            name,
            on_goal=lambda _: GoalResponse.ACCEPT,
            on_accepted=partial(self._ros.call_loop, take),
            on_cancel=partial(self._ros.call_loop, cancel),
            result_timeout_s=RESULTS_KEPT_S,
        )

    # On the loop

    def _move(self, goal: ServerGoalHandle) -> None:
        if self._goal is not None:
            self._end(self._preempted)
        self._goal = goal
        code = self._arm.start(goal.request.request)
        if code is not None:
            self._end(code)

    def _stop(self, goal: ServerGoalHandle) -> None:
        if goal is self._goal:
            self._arm.stop()
            self._end(self._preempted)

    def _end(self, code: int) -> None:
        goal, self._goal = self._goal, None
        result = self._motion_result()
        result.error_code.val = code
        self._ros.call(
            partial(self._motions.finish, goal, result, succeeded=code == result.error_code.SUCCESS)
        )

    def _grip(self, goal: ServerGoalHandle) -> None:
        wanted_m = goal.request.command.position
        held = self._arm.grip(wanted_m)
        result = self._gripper_result(position=wanted_m, stalled=held, reached_goal=not held)
        self._ros.call(partial(self._grips.finish, goal, result, succeeded=True))
