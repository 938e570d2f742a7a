"""The trajectory driver on virtual time, with joints that follow as a real controller has them."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import create_driver, read_options
from timely_llm_ros.drivers.trajectory import TrajectoryDriver, TrajectoryOptions
from timely_llm_ros.drivers.trajectory.joint_poses import Joint, read_joint_poses
from timely_llm_ros.drivers.trajectory.mock.joint_body import JointBody
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError
from timely_llm_ros.execution import SegmentCode, SegmentExecutor, SegmentOutcome
from timely_llm_ros.skills import Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import parse_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.testing import JOINTED_HOME, JOINTED_POSES, JOINTED_SKILLS, LocalJoints
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from timely_llm_ros.drivers import DriverOptions
    from timely_llm_ros.drivers.trajectory import JointLink
    from timely_llm_ros.execution import Driver, Perception
    from timely_llm_ros.skills import SkillSet

SCENE = Scene((SceneObject('cup_1', 'cup'), SceneObject('cup_2', 'cup')))


@pytest.fixture
def poses_file(tmp_path: Path) -> str:
    path = tmp_path / 'arm.yaml'
    path.write_text(JOINTED_POSES, encoding='utf-8')
    return str(path)


class SharpEyes:
    async def look(self, scene: Scene) -> frozenset[str]:
        return frozenset(scene.names)

    def locate(self, scene: Scene) -> Scene:
        return scene


class Bench:
    def __init__(
        self, poses_file: str, perception: Perception | None = None, **options: Any
    ) -> None:
        self.joints = LocalJoints()
        self.driver = TrajectoryDriver(
            JOINTED_SKILLS,
            TrajectoryOptions(poses_file=poses_file, **options),
            self.joints,
            perception=perception,
        )
        self.executor = SegmentExecutor(self.driver, JOINTED_SKILLS, LoopClock())

    def run(
        self, text: str, plan: str = 'p', *, awaits_value: bool = False
    ) -> asyncio.Task[SegmentOutcome]:
        segment = Segment(0, text, parse(text, JOINTED_SKILLS, SCENE), 1, awaits_value=awaits_value)
        return asyncio.get_running_loop().create_task(
            self.executor.execute(plan, segment, SCENE, lambda _: None)
        )

    def require_still(self) -> None:
        _, speeds = self.joints.body.joints()
        assert set(speeds.values()) == {0.0}
        events = [event['event'] for event in self.joints.record]
        assert [event for event in events if event in ('move', 'still')][-1] == 'still'


def on_joints(poses_file: str, body: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        bench = Bench(poses_file, **options)
        await bench.executor.start()
        # The hold that every connection begins with is not of the test.
        bench.joints.record.clear()
        await body(bench)
        await bench.executor.close()

    run_virtual(main())


def test_a_skill_goes_through_its_poses_and_the_other_joints_stay(poses_file: str) -> None:
    async def body(bench: Bench) -> None:
        assert (await bench.run('pick(cup_1);home;')).succeeded
        over = {'base': 1.0, 'elbow': 0.2, 'finger': 0.04}
        assert bench.joints.moves == [
            over,
            {**over, 'elbow': 0.6},
            {**over, 'elbow': 0.6, 'finger': 0.01},
            {**over, 'finger': 0.01},
            JOINTED_HOME,
        ]
        times_s = [e['duration_s'] for e in bench.joints.record if e['event'] == 'move']
        # The slower of base (1 rad, 2 rad/s) and elbow (0.3 rad, 1 rad/s, 4 rad/s^2), at full speed
        # and as cubic motions; then the elbow alone; then the finger.
        assert times_s[0] == pytest.approx(max(1.5 * 1.0 / 2, math.sqrt(6 * 0.3 / 4)))
        assert times_s[1] == pytest.approx(math.sqrt(6 * 0.4 / 4))
        assert times_s[2] == pytest.approx(1.5 * 0.03 / 0.1)

    on_joints(poses_file, body, speed=1.0, goal_tolerance=1e-6)


ways = st.floats(-3.0, 3.0).filter(lambda way: way == 0 or abs(way) > 1e-6)


@given(ways, st.floats(0.05, 5.0), st.floats(0.1, 50.0), st.floats(0.0, 1.0))
def test_no_joint_exceeds_its_limits(
    way: float, velocity: float, acceleration: float, share: float
) -> None:
    now_s = 0.0
    body = JointBody({'a': 0.0}, lambda _: None, clock=lambda: now_s)
    duration_s = Joint(velocity, acceleration).least_s(way)
    if not body.follow(['a'], [way], duration_s):
        assert duration_s == 0
        return
    now_s = share * duration_s
    (_, speeds), step_s = body.joints(), duration_s * 1e-6
    now_s += step_s
    (_, later) = body.joints()
    assert abs(speeds['a']) <= velocity * (1 + 1e-6)
    if now_s < duration_s:
        assert abs(later['a'] - speeds['a']) / step_s <= acceleration * (1 + 1e-3)


@given(st.floats(0.05, 1.9), st.booleans())
def test_a_stop_holds_the_arm_where_it_comes_to_rest(at_s: float, velocities: bool) -> None:
    async def main() -> None:
        import tempfile

        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
            file.write(JOINTED_POSES)
            file.flush()
            bench = Bench(file.name, speed=0.25)
            bench.joints.velocities = velocities
            await bench.executor.start()
            task = bench.run('pick(cup_1);')
            await asyncio.sleep(at_s)
            before, speeds = bench.joints.body.joints()
            assert await bench.executor.stop()
            assert (await task).ending.code == SegmentCode.CANCELED
            await asyncio.sleep(0.5)
            bench.require_still()
            after, _ = bench.joints.body.joints()
            # 0.2 s to slow down from at most an eighth of the greatest speed, read 0.02 s ago.
            for name, speed in speeds.items():
                assert abs(after[name] - before[name]) <= abs(speed) * 0.2 + 0.02
            await bench.executor.close()

    run_virtual(main())


def test_dropped_trajectories_fail_the_skill_and_hold(poses_file: str) -> None:
    async def body(bench: Bench) -> None:
        bench.joints.body.drop_all(True)
        outcome = await bench.run('pick(cup_1);')
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert 'pick(cup_1): base is 1.000 from its goal 1.000' in outcome.ending.message
        assert 'may have refused the trajectory' in outcome.ending.message
        assert bench.joints.moves == []

    on_joints(poses_file, body, goal_time_s=0.5)


def test_an_emergency_stop_fails_the_skill_and_nothing_moves(poses_file: str) -> None:
    async def body(bench: Bench) -> None:
        task = bench.run('pick(cup_1);')
        await asyncio.sleep(0.5)
        bench.joints.body.jam(True)
        outcome = await task
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert 'from its goal' in outcome.ending.message
        assert len(bench.joints.moves) == 1
        bench.joints.body.jam(False)
        bench.require_still()
        assert (await bench.run('home;', 'q')).succeeded

    on_joints(poses_file, body)


def test_silence_is_a_lost_robot_and_a_stop_comes_first_when_it_is_back(poses_file: str) -> None:
    async def body(bench: Bench) -> None:
        task = bench.run('pick(cup_1);')
        await asyncio.sleep(0.2)
        bench.joints.silent = True
        outcome = await task
        assert outcome.ending.code == SegmentCode.ROBOT_LOST
        assert "nothing of 'base' heard for 0.2" in outcome.ending.message
        # Unseen, it rests on its way, before its goal and not back where it was last seen.
        begun, rest = bench.joints.moves
        last = bench.joints.readings['base'].position
        assert last < rest['base'] < begun['base']
        await asyncio.sleep(0.5)
        bench.require_still()
        assert bench.joints.body.joints()[0] == pytest.approx(rest)
        with pytest.raises(RobotUnavailableError, match='within 5 s'):
            await bench.executor.start()
        assert len(bench.joints.moves) == 2
        bench.joints.silent = False
        await bench.executor.start()
        await asyncio.sleep(0.5)
        bench.require_still()
        assert all(move == pytest.approx(rest) for move in bench.joints.moves[2:])
        assert bench.joints.moves[2:]

    on_joints(poses_file, body)


def test_without_a_controller_nothing_is_connected(poses_file: str) -> None:
    async def main() -> None:
        bench = Bench(poses_file)
        bench.joints.has_controller = False
        with pytest.raises(RobotUnavailableError, match='nobody takes the joint trajectories'):
            await bench.executor.start()
        with pytest.raises(RobotUnavailableError, match='expected to be connected'):
            await bench.driver.safe()

    run_virtual(main())


def test_a_skill_that_takes_too_long_is_stopped(poses_file: str) -> None:
    async def body(bench: Bench) -> None:
        outcome = await bench.run('pick(cup_1);')
        assert outcome.ending.code == SegmentCode.DRIVER_TIMEOUT
        await asyncio.sleep(0.5)
        bench.require_still()

    on_joints(poses_file, body, speed=0.01)


def test_objects_without_a_pose_and_eyes(poses_file: str) -> None:
    async def body(bench: Bench) -> None:
        outcome = await bench.run('pick(cup_2);')
        assert "pose 'over_cup_2': expected it among the poses of" in outcome.ending.message
        assert bench.joints.moves[1:] == []
        outcome = await bench.run('look_at(cup_1);', 'q', awaits_value=True)
        assert outcome.value == 'true'

    on_joints(poses_file, body, perception=SharpEyes())


def test_without_eyes_looking_fails(poses_file: str) -> None:
    async def body(bench: Bench) -> None:
        outcome = await bench.run('look_at(cup_1);', awaits_value=True)
        assert 'no perception' in outcome.ending.message

    on_joints(poses_file, body)


@pytest.mark.parametrize(
    ('old', 'new', 'text'),
    [
        ('joints:', 'joins:', "expected a key 'joints'"),
        ('skills:', 'tricks:', "key 'tricks': expected one of joints, poses, skills"),
        ('max_velocity: 2.0', 'max_velocity: 0', r'joints\.base\.max_velocity: 0\.0'),
        ('max_velocity: 2.0', 'speed: 2.0', r'joints\.base: .*expected max_velocity'),
        ('max_velocity: 2.0', 'max_velocity: .nan', r'joints\.base\.max_velocity: nan'),
        ('[0.0, 0.5, 0.04]', '[0.0, 0.5]', r'poses\.home: \[0\.0, 0\.5\]: expected 3 positions'),
        (
            '[0.0, 0.5, 0.04]',
            '[0.0, 0.5, 0.05]',
            r'home\.finger: 0\.05: expected 0 to 0\.04',
        ),
        ('{elbow: 0.6}', '{knee: 0.6}', r'poses\.at_cup_1: .*some by joint: base, elbow, finger'),
        ('{elbow: 0.6}', '{elbow: yes}', r'poses\.at_cup_1\.elbow: True: expected a finite number'),
        ('closed, ', 'shut, ', r"skills\.pick: 'shut': expected a pose"),
        ("'at_{target}'", "'at_{tarot}'", r"skills\.pick: '\{tarot\}': expected a pose"),
        ('home: [', 'rest: [', r"skills\.home: 'home': expected a pose"),
        (
            "look_at: ['over_{target}']",
            'look_at: over',
            r"look_at: 'over': expected a list",
        ),
        ('joints:', 'joints: [', 'expected a readable YAML file'),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, old: str, new: str, text: str) -> None:
    assert old in JOINTED_POSES
    path = tmp_path / 'arm.yaml'
    path.write_text(JOINTED_POSES.replace(old, new, 1), encoding='utf-8')
    arguments = {'pick': ('target',), 'look_at': ('target',), 'home': ()}
    with pytest.raises(ConfigurationError, match=text):
        read_joint_poses(str(path), arguments)


def _driver(skill_set: SkillSet, options: DriverOptions) -> Driver:
    """Make a driver whose joints nobody asks for anything."""
    return create_driver(skill_set, options, joints=cast('JointLink', object()))


@pytest.mark.parametrize(
    ('options', 'text'),
    [
        ({'speed': 0}, 'speed 0'),
        ({'speed': 1.5}, 'speed 1.5'),
        ({'goal_tolerance': -1}, 'goal_tolerance -1'),
        ({'stop_s': float('inf')}, 'stop_s inf'),
        ({'poses_file': '/no/such/file'}, 'readable YAML'),
        ({'legs': 2}, 'legs'),
    ],
)
def test_wrong_options_are_refused(poses_file: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        _driver(JOINTED_SKILLS, read_options('trajectory', {'poses_file': poses_file, **options}))


def test_an_arm_tells_no_texts(poses_file: str) -> None:
    talking = parse_skill_set(
        'name: talking\ndescription: an arm that reads\nsafe_action: stop\nskills:\n'
        '  stop: {description: stop, duration: {model: constant, seconds: 0.3}}\n'
        '  read: {description: read, blocking: true, returns: text, duration: '
        '{model: constant, seconds: 1}}\n'
    )
    with pytest.raises(ConfigurationError, match="skill 'read' returns 'text'"):
        _driver(talking, TrajectoryOptions(poses_file=poses_file))
