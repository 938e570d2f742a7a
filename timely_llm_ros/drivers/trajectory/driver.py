"""Drives any arm that follows joint trajectories, between named poses from a file.

A skill is a list of poses. Each motion is a trajectory of one point at rest. Its time follows from
the joints' limits, and it is over when the joints are there.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.trajectory.joint_poses import read_joint_poses
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError, SkillFailedError
from timely_llm_ros.execution import NoPerception, SafeActionRetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.drivers.trajectory.joint_link import JointLink, JointReading
    from timely_llm_ros.drivers.trajectory.options import TrajectoryOptions
    from timely_llm_ros.execution import CallValue, Perception
    from timely_llm_ros.skills import Call, Scene, SkillSet

CONNECT_LIMIT_S = 5.0
"""How long it may take until the arm is heard (s)."""

MIN_MOTION_S = 0.1
"""The shortest trajectory (s)."""

_TIME_STEP_S = 1e-6
"""A shorter wait (s) may not move a floating-point clock at all."""

REST_SPEED = 0.02
"""Below this speed (rad/s or m/s) a joint stands still."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A motion that was asked for, from rest to rest as a controller interpolates one point."""

    start: Mapping[str, float]
    end: Mapping[str, float]
    began_s: float
    duration_s: float

    def at(self, now_s: float) -> dict[str, float]:
        """Return where each joint should be at a time of the loop's clock."""
        share = min(1.0, max(0.0, (now_s - self.began_s) / self.duration_s))
        eased = share**2 * (3 - 2 * share)
        return {name: way + eased * (self.end[name] - way) for name, way in self.start.items()}


class TrajectoryDriver:
    """Drives an arm behind a joint trajectory controller.

    Args:
        skill_set: The robot's skills. Its safe action is to hold; every other skill goes through
            the poses that the file names for it, or to the pose of its own name.
        options: How it is driven.
        link: The arm's joints.
        perception: Sees, once the arm is there, whether an object can be seen; without it the
            skills that return this fail.

    Raises:
        ConfigurationError: The poses file does not fit the skill set.
    """

    def __init__(
        self,
        skill_set: SkillSet,
        options: TrajectoryOptions,
        link: JointLink,
        *,
        perception: Perception | None = None,
    ) -> None:
        for name, skill in skill_set.skills.items():
            if skill.returns == 'text' or (
                skill.returns == 'bool' and [spec.kind for spec in skill.arguments] != ['object']
            ):
                raise ConfigurationError(
                    f'skill set {skill_set.name!r}: skill {name!r} returns {skill.returns!r}: '
                    'expected an arm to return nothing, or whether one object can be seen'
                )
        moves = {
            name: tuple(spec.name for spec in skill.arguments)
            for name, skill in skill_set.skills.items()
            if name != skill_set.safe_action
        }
        self._skill_set, self._options, self._link = skill_set, options, link
        self._poses = read_joint_poses(options.poses_file, moves)
        self._perception = perception or NoPerception()
        self._goal: dict[str, float] = {}
        self._way: _Way | None = None
        self._retry = SafeActionRetry(self._hold_when_heard)
        self._connected = False

    async def connect(self) -> None:
        """Wait until every joint is heard and somebody takes trajectories."""
        await self._link.open()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + CONNECT_LIMIT_S
        while (missing := self._missing()) is not None:
            left_s = end_s - loop.time()
            if left_s <= _TIME_STEP_S:
                raise RobotUnavailableError(f'{missing} within {CONNECT_LIMIT_S:g} s')
            await self._link.heard(min(left_s, 0.1))
        self._goal = {name: reading.position for name, reading in self._joints().items()}
        self._connected = True

    async def close(self) -> None:
        """Stop listening."""
        await self._retry.end()
        self._connected = False
        await self._link.close()

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Go through a skill's poses; when it is cancelled, tell the arm to hold."""
        self._require_connection()
        if call.skill not in self._skill_set.skills:
            raise SkillFailedError(
                f'skill {call.skill!r}: expected one of skill set {self._skill_set.name!r}'
            )
        try:
            if call.skill == self._skill_set.safe_action:
                await self.safe()
                await self._until_at_rest(call)
            else:
                for pose in self._poses.steps(call):
                    await self._go(pose, call)
                if self._skill_set.skills[call.skill].blocking:
                    return call.arguments[0].value in await self._perception.look(scene)
        except asyncio.CancelledError:
            # Whoever cancels asks for the safe action next, and that reports its failures.
            with contextlib.suppress(RobotUnavailableError):
                await self.safe()
            raise
        return None

    async def safe(self) -> None:
        """Have the arm hold where it is, or where it comes to rest as it slows down.

        An arm that is not heard is told to hold on the way that it was told to go. After this has
        raised, it is told again, from a reading, as soon as there is one.
        """
        self._require_connection()
        await self._retry.end()
        try:
            await self._hold()
        except RobotUnavailableError:
            self._hold_unseen()
            self._retry.begin()
            raise

    async def _hold(self) -> None:
        # Never from an old reading: that would be a motion back to it.
        readings = self._joints()
        self._rest_at(
            {
                name: reading.position + 0.5 * self._options.stop_s * reading.velocity
                for name, reading in readings.items()
            }
        )

    async def _hold_when_heard(self) -> None:
        await self._link.heard(self._options.state_limit_s)
        await self._hold()

    def _hold_unseen(self) -> None:
        """Have an arm whose states stopped rest where its trajectory should have it by now."""
        if self._way is not None:
            now_s = asyncio.get_running_loop().time()
            self._rest_at(self._way.at(now_s + 0.5 * self._options.stop_s))

    def _rest_at(self, positions: Mapping[str, float]) -> None:
        joints = self._poses.joints
        hold = {
            name: min(max(position, joints[name].lower), joints[name].upper)
            for name, position in positions.items()
        }
        self._goal, self._way = hold, None
        self._link.command(hold, self._options.stop_s)

    async def _go(self, pose: Mapping[str, float], call: Call) -> None:
        start = self._joints()
        goal = {**self._goal, **pose}
        ways = {name: goal[name] - reading.position for name, reading in start.items()}
        duration_s = max(
            MIN_MOTION_S,
            *(
                self._poses.joints[name].least_s(way) / self._options.speed
                for name, way in ways.items()
            ),
        )
        self._goal = goal
        self._link.command(goal, duration_s)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        came_from = {name: reading.position for name, reading in start.items()}
        self._way = _Way(came_from, goal, began_s, duration_s)
        while True:
            await self._link.heard(self._options.state_limit_s)
            joints = self._joints()
            off = {name: abs(goal[name] - joint.position) for name, joint in joints.items()}
            worst = max(off, key=lambda name: off[name])
            if off[worst] <= self._options.goal_tolerance and _at_rest(joints):
                self._way = None
                return
            if loop.time() - began_s > duration_s + self._options.goal_time_s:
                raise SkillFailedError(
                    f'{call.text}: {worst} is {off[worst]:.3f} from its goal {goal[worst]:.3f} '
                    f'after {duration_s + self._options.goal_time_s:.1f} s: '
                    f'expected at most {self._options.goal_tolerance:g}; '
                    'the controller may have refused the trajectory'
                )

    async def _until_at_rest(self, call: Call) -> None:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._options.stop_s + self._options.goal_time_s
        while not _at_rest(self._joints()):
            if loop.time() > end_s:
                raise SkillFailedError(f'{call.text}: the arm still moves')
            await self._link.heard(self._options.state_limit_s)

    def _joints(self) -> dict[str, JointReading]:
        """Return a fresh reading of every joint; raise ``RobotUnavailableError`` without one."""
        missing = self._missing()
        if missing is not None:
            raise RobotUnavailableError(missing)
        return {name: self._link.readings[name] for name in self._poses.joints}

    def _missing(self) -> str | None:
        """Return what the link lacks, as text; None where it lacks nothing."""
        now_s = asyncio.get_running_loop().time()
        for name in self._poses.joints:
            reading = self._link.readings.get(name)
            if reading is None:
                return f'joint states: nothing of {name!r} heard'
            silent_s = now_s - reading.heard_s
            if silent_s > self._options.state_limit_s:
                return f'joint states: nothing of {name!r} heard for {silent_s:.2f} s'
        return None if self._link.has_controller else 'nobody takes the joint trajectories'

    def _require_connection(self) -> None:
        if not self._connected:
            raise RobotUnavailableError('arm: expected to be connected')


def _at_rest(joints: Mapping[str, JointReading]) -> bool:
    return all(abs(joint.velocity) <= REST_SPEED for joint in joints.values())
