"""How each robot is driven, said so that any process can bring it to its safe action."""

from __future__ import annotations

import asyncio
import functools
import mmap
import pickle
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from timely_llm_ros.drivers import DriverOptions, create_driver
from timely_llm_ros.drivers.ros import RosDriver, RosOptions
from timely_llm_ros.drivers.trajectory import TrajectoryOptions
from timely_llm_ros.nodes.executor.joint_topics import JointTopics
from timely_llm_ros.nodes.executor.ros_calls import RosCalls
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.execution import Driver, Envelope, Perception
    from timely_llm_ros.skills import SkillSet

PerceptionName = Literal['topic', 'simulated', 'none']
"""A robot's eyes. ``topic``: a node of somebody else's sees and says so on a topic.
``simulated``: a draw. ``none``: nothing, so that looking fails."""

PERCEPTIONS: tuple[PerceptionName, ...] = get_args(PerceptionName)

_skill_set = functools.cache(find_skill_set)
"""Read once: whoever makes a robot safe has no time to read a file again."""

_SIZE = 1 << 18
_COUNT_BYTES = 4


@dataclass(frozen=True, slots=True)
class RobotBody:
    """How one robot is driven.

    Attributes:
        robot: Its name.
        skill_set: Name of a shipped skill set, or a path.
        options: The options of its driver; their type says which driver that is.
        perception: Its eyes; None for a driver that needs none.
        seed: Of what is drawn for it.
        namespace: Namespace of its fleet.
        envelope: The rules that its executor keeps; None for none.
    """

    robot: str
    skill_set: str
    options: DriverOptions
    perception: PerceptionName | None = None
    seed: int = 0
    namespace: str = ''
    envelope: Envelope | None = None

    def make_driver(self, skill_set: SkillSet, perception: Perception | None = None) -> Driver:
        """Return its driver, not yet connected; connecting it opens what it needs of ROS.

        Raises:
            ConfigurationError: The driver cannot do the skills.
        """
        options, joints, calls = self.options, None, None
        if isinstance(options, TrajectoryOptions):
            joints = JointTopics(
                self.robot,
                self.namespace,
                command_topic=options.command_topic,
                state_topic=options.state_topic,
            )
        elif isinstance(options, RosOptions):
            calls = RosCalls(self.robot, self.namespace)
            options = replace(
                options,
                prefix=options.prefix.replace('{robot}', self.robot),
                frame=options.frame.replace('{robot}', self.robot),
                body_frame=options.body_frame.replace('{robot}', self.robot),
            )
        return create_driver(
            skill_set,
            options,
            robot=self.robot,
            perception=perception,
            joints=joints,
            calls=calls,
        )

    async def make_safe(self) -> None:
        """Connect a driver made for this alone, issue the safe action and release the robot."""
        driver = self.make_driver(_skill_set(self.skill_set))
        try:
            if isinstance(driver, RosDriver):
                await driver.connect(only_safe=True)
            else:
                await driver.connect()
            await driver.safe()
        finally:
            with suppress(Exception):
                await driver.close()


class SharedBodies:
    """The robots that a worker may move, in memory that its guard shares.

    The memory holds how many there are, and then what they are.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self._prepared = 0

    def remember(self, bodies: Sequence[RobotBody]) -> None:
        """Make the robots known to both processes, before any of them is connected."""
        data = pickle.dumps(tuple(bodies))
        end = _COUNT_BYTES + len(data)
        if end > _SIZE:
            raise ValueError(f'{end} bytes: expected at most {_SIZE}')
        self._memory[_COUNT_BYTES:end] = data
        self.keep(len(bodies))

    def keep(self, count: int) -> None:
        """Keep the first ``count`` robots: the others have heard nothing and may be left alone."""
        self._memory[:_COUNT_BYTES] = count.to_bytes(_COUNT_BYTES, 'little')

    @property
    def count(self) -> int:
        """How many robots may have been moved."""
        return int.from_bytes(self._memory[:_COUNT_BYTES], 'little')

    def prepare(self) -> None:
        """Import and read what making the robots safe takes; once, until there are more."""
        if (count := self.count) <= self._prepared:
            return
        # Also where it fails: what is wrong is told once.
        self._prepared = count
        for body in self._bodies():
            body.make_driver(_skill_set(body.skill_set))

    async def make_safe(self) -> None:
        """Bring every robot to its safe action; the others too where one fails."""
        results = await asyncio.gather(
            *(body.make_safe() for body in self._bodies()), return_exceptions=True
        )
        failed = [result for result in results if isinstance(result, BaseException)]
        if failed:
            raise failed[0]

    def _bodies(self) -> Sequence[RobotBody]:
        if not self.count:
            return ()
        data = self._memory[_COUNT_BYTES:]
        bodies: tuple[RobotBody, ...] = pickle.loads(data)  # noqa: S301 (this program wrote it)
        return bodies[: self.count]
