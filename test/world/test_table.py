"""Arms of the world: what they grip, build and put away, and how the world judges it."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('mujoco')

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.robots.tables import REACH, SCENE, make_table, verdicts, work

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.sample_tasks import ask, kinds_of, sample_scene
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.world import JointController, MoveGroup, World, WorldTask, arrange_table

JOINTS = [f'panda_joint{number}' for number in range(1, 8)]
NAMES = [*JOINTS, 'panda_finger_joint1']
TOWER = WorldTask('t1', 'a1', 'stack', stacked=(('block_2', 'block_1'),))


def happened(world: World, event: str) -> list[str]:
    return [one.what for one in world.log.events if one.event == event]


def request(
    place_m: tuple[float, float, float] | None = None,
    joints: dict[str, float] | None = None,
    speed: float = 0.2,
) -> Any:
    """What the calls file ``moveit`` asks for, with the fields that matter."""
    pose = SimpleNamespace(
        position=SimpleNamespace(**dict(zip('xyz', place_m or (), strict=False)))
    )
    region = SimpleNamespace(primitive_poses=[pose])
    goal = SimpleNamespace(
        joint_constraints=[
            SimpleNamespace(joint_name=name, position=angle)
            for name, angle in (joints or {}).items()
        ],
        position_constraints=[SimpleNamespace(constraint_region=region)] if place_m else [],
        orientation_constraints=[
            SimpleNamespace(orientation=SimpleNamespace(x=1.0, y=0.0, z=0.0, w=0.0))
        ],
    )
    return SimpleNamespace(
        goal_constraints=[goal],
        max_velocity_scaling_factor=speed,
        max_acceleration_scaling_factor=speed,
    )


def finish(world: World, group: MoveGroup) -> int:
    """Let time pass until a motion has ended; return its code."""
    for _ in range(1000):
        world.advance(world.now_s + 0.02)
        if (code := group.ended()) is not None:
            return code
    raise AssertionError('the motion does not end')


@given(
    radius_m=st.floats(0.32, 0.7),
    bearing_rad=st.floats(-2.8, 2.8),
    height_m=st.floats(0.08, 0.45),
)
@examples(20)
def test_the_hand_comes_to_rest_where_it_should_and_points_down(
    radius_m: float, bearing_rad: float, height_m: float
) -> None:
    world = make_table(Scene())
    place_m = (radius_m * math.cos(bearing_rad), radius_m * math.sin(bearing_rad), height_m)
    group = MoveGroup(world, 'a1', REACH)
    assert group.start(request(place_m)) is None
    assert finish(world, group) == 1
    arm = world.arms['a1']
    held_m = arm.hold_m
    assert held_m[2] == pytest.approx(height_m - 0.1, abs=0.005)
    assert math.dist(held_m[:2], place_m[:2]) < 0.005


@pytest.mark.parametrize(
    ('asked', 'code'),
    [
        (request((1.2, 0.0, 0.3)), -31),
        (request((0.0, 0.0, 0.3)), -31),
        (request(joints={'panda_joint1': 0.1}), -10),
        (request(joints=dict.fromkeys(JOINTS, math.nan)), -10),
        (request((0.5, math.nan, 0.3)), -10),
        (request(), -10),
        (SimpleNamespace(goal_constraints=[]), -10),
    ],
)
def test_what_an_arm_cannot_do_is_refused_with_the_code_of_moveit(asked: Any, code: int) -> None:
    world = make_table()
    assert MoveGroup(world, 'a1', REACH).start(asked) == code


def test_a_hand_that_is_to_point_up_is_refused() -> None:
    asked = request((0.5, 0.0, 0.3))
    asked.goal_constraints[0].orientation_constraints[0].orientation = SimpleNamespace(
        x=0.0, y=0.0, z=0.0, w=1.0
    )
    assert MoveGroup(make_table(), 'a1', REACH).start(asked) == -10


def test_an_arm_that_is_stopped_stays_where_it_is() -> None:
    world = make_table()
    group, arm = MoveGroup(world, 'a1', REACH), world.arms['a1']
    assert group.start(request((0.0, 0.5, 0.3))) is None
    world.advance(0.5)
    group.stop()
    world.advance(1.0)
    before = arm.hold_m.copy()
    assert math.dist(before[:2], (0.0, 0.5)) > 0.1
    world.advance(3.0)
    assert math.dist(before, arm.hold_m) < 0.01


def trajectory(lasts_s: float = 1.0, **joints: float) -> Any:
    """A trajectory of one point; joints that are not named stay at rest."""
    rest = dict(zip(NAMES, (*make_table().arms['a1'].rest_rad, 0.04), strict=True))
    goal = {**rest, **joints}
    time = SimpleNamespace(sec=int(lasts_s), nanosec=round(lasts_s % 1 * 1e9))
    point = SimpleNamespace(positions=list(goal.values()), time_from_start=time)
    return SimpleNamespace(joint_names=list(goal), points=[point])


def test_joints_follow_trajectories_and_fingers_close_on_what_is_there() -> None:
    world = make_table()
    arm, group = world.arms['a1'], MoveGroup(world, 'a1', REACH)
    controller = JointController(arm, lambda: world.now_s, group.grip)
    item = SCENE.get('block_1')
    assert item is not None
    joints = REACH.solve((item.x_m, item.y_m, 0.125))
    assert joints is not None
    goal = dict(zip(NAMES, joints, strict=False))
    assert controller.follow(trajectory(1.5, **goal))
    world.advance(0.75)
    names, positions, speeds = controller.joints()
    assert names == NAMES
    assert max(map(abs, speeds)) > 0.1
    world.advance(2.0)
    names, positions, speeds = controller.joints()
    assert positions[:7] == pytest.approx(joints, abs=0.01)
    assert max(map(abs, speeds)) < 0.02
    assert controller.follow(trajectory(0.5, **goal, panda_finger_joint1=0.0))
    assert arm.held == 'block_1'


@pytest.mark.parametrize(
    'wrong', ['a joint less', 'a joint twice', 'no point', 'no time', 'short', 'no number']
)
def test_a_trajectory_that_the_real_controller_drops_is_dropped(wrong: str) -> None:
    world = make_table()
    arm = world.arms['a1']
    controller = JointController(arm, lambda: world.now_s, lambda _: None)
    asked = trajectory(panda_joint1=1.0)
    match wrong:
        case 'a joint less':
            asked.joint_names.pop()
        case 'a joint twice':
            asked.joint_names[1] = asked.joint_names[0]
        case 'no point':
            asked.points.clear()
        case 'no time':
            asked.points[0].time_from_start.sec = 0
        case 'short':
            asked.points[0].positions.pop()
        case 'no number':
            asked.points[0].positions[0] = math.nan
    assert not controller.follow(asked)
    world.advance(1.5)
    assert arm.joints_rad.tolist() == pytest.approx(arm.rest_rad, abs=0.001)


def test_a_block_is_carried_where_the_hand_goes() -> None:
    world = make_table()
    assert work(world, 'pick(block_1);') == [None]
    arm = world.arms['a1']
    assert arm.held == 'block_1'
    assert math.dist(world.tables['a1'].place_m('block_1'), arm.hold_m) < 0.02
    work(world, 'open_gripper;')
    world.advance(world.now_s + 1.0)
    assert world.tables['a1'].place_m('block_1')[2] == pytest.approx(0.025, abs=0.005)
    assert happened(world, 'grip') == happened(world, 'let_go') == ['block_1']


def test_fingers_that_close_beside_a_block_hold_nothing() -> None:
    world = make_table()
    group = MoveGroup(world, 'a1', REACH)
    item = SCENE.get('block_1')
    assert item is not None
    group.grip(0.04)
    assert group.start(request((item.x_m + 0.04, item.y_m, 0.125))) is None
    assert finish(world, group) == 1
    assert not group.grip(0.0)
    assert happened(world, 'grip') == ['nothing']


def test_closed_fingers_push_a_thing_off_the_table() -> None:
    scene = Scene((SceneObject('apple_1', 'apple', x_m=0.58, z_m=0.025),))
    world = make_table(scene)
    group = MoveGroup(world, 'a1', REACH)
    group.grip(0.0)
    for place_m in ((0.48, 0.0, 0.25), (0.48, 0.0, 0.11), (0.76, 0.0, 0.11)):
        assert group.start(request(place_m)) is None
        assert finish(world, group) == 1
    world.advance(world.now_s + 1.0)
    assert happened(world, 'fall') == ['apple_1']


def test_a_tower_that_stands_succeeds_and_one_that_was_not_built_fails() -> None:
    world = make_table()
    work(world, 'pick(block_2);place(block_1);home;', task=TOWER)
    assert verdicts(world) == []
    world.advance(world.now_s + 2.1)
    assert verdicts(world) == ['succeeded: block_2 on block_1']
    work(world, 'home;', task=TOWER)
    world.advance(world.now_s + 2.1)
    assert verdicts(world)[1:] == ['failed: block_2 does not stand on block_1']


def test_a_block_that_is_still_in_the_hand_stands_on_nothing() -> None:
    world = make_table()
    work(world, 'pick(block_2);place(block_1);pick(block_2);', task=TOWER)
    world.advance(world.now_s + 2.1)
    assert verdicts(world) == ['failed: block_2 does not stand on block_1']


def test_a_third_block_goes_on_the_second_where_that_is_now() -> None:
    world = make_table()
    task = WorldTask('t1', 'a1', 'stack', stacked=(('block_2', 'block_1'), ('block_3', 'block_2')))
    work(world, 'pick(block_2);place(block_1);pick(block_3);place(block_2);home;', task=task)
    world.advance(world.now_s + 2.1)
    assert verdicts(world) == ['succeeded: block_2 on block_1, block_3 on block_2']


def test_a_place_is_wiped_by_a_hand_that_goes_over_it() -> None:
    task = WorldTask('t1', 'a1', 'clean', stored=(('apple_1', 'bin_1'),), wiped=('desk_1',))
    world = make_table()
    work(world, 'pick(apple_1);place(bin_1);wipe(desk_1);home;', task=task)
    world.advance(world.now_s + 2.1)
    assert verdicts(world) == ['succeeded: apple_1 in bin_1, desk_1 wiped']
    work(world, 'sort_into(apple_1,bin_1);home;', task=task)
    world.advance(world.now_s + 2.1)
    assert verdicts(world)[1:] == ['failed: desk_1 was wiped for 0 cm']


def test_a_task_that_waits_has_the_one_before_judged_at_once_and_a_tidy_table() -> None:
    world = make_table()
    later = WorldTask('t2', 'a1', 'stack', stacked=(('block_3', 'block_1'),))
    world.begin(TOWER)
    work(world, 'pick(block_2);place(block_1);')
    world.begin(later)
    assert world.tables['a1'].stands_on('block_2', 'block_1')
    world.end('t1')
    assert verdicts(world) == ['succeeded: block_2 on block_1']
    assert world.tables['a1'].place_m('block_2')[2] == pytest.approx(0.025, abs=1e-6)
    # One that never got its turn does not have the table tidied under the one that has.
    world.begin(TOWER)
    work(world, 'pick(block_3);place(block_1);home;')
    world.end('t1')
    assert world.tables['a1'].stands_on('block_3', 'block_1')
    world.end('t2')
    world.advance(world.now_s + 2.1)
    assert verdicts(world)[1:] == [
        'failed: block_2 does not stand on block_1', 'succeeded: block_3 on block_1',
    ]  # fmt: skip


def test_a_task_about_what_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'t1': 'block_9': expected something in the bay"):
        make_table().begin(WorldTask('t1', 'a1', 'stack', stacked=(('block_9', 'block_1'),)))


@pytest.mark.parametrize('pair', [('block_1',), ('block_1', 'block_2', 'block_3'), 'ab'])
def test_a_task_whose_pairs_are_none_is_refused(pair: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'t1': .*expected two names"):
        WorldTask('t1', 'a1', 'stack', stacked=(pair,))


@pytest.mark.parametrize('speed', [0.0, -1.0, math.nan, 7.0])
def test_a_speed_out_of_range_is_full_speed(speed: float) -> None:
    world = make_table()
    group = MoveGroup(world, 'a1', REACH)
    assert group.start(request((0.0, 0.5, 0.3), speed=speed)) is None
    assert finish(world, group) == 1
    assert 0.2 < world.now_s < 1.5


def test_a_table_has_room_for_so_much() -> None:
    bins = tuple(SceneObject(f'bin_{number}', 'bin') for number in range(13))
    with pytest.raises(ConfigurationError, match='13 objects on a table, 13 of them'):
        arrange_table(Scene(bins))


@given(st.integers(0, 10**6), st.integers(4, 24))
@examples(15)
def test_things_are_laid_out_apart_and_in_reach(seed: int, objects: int) -> None:
    kinds = [kind.number for kind in kinds_of('arm')]
    scene = sample_scene(random.Random(seed), kinds, objects)
    laid = arrange_table(scene)
    assert [item.name for item in laid.objects] == list(scene.names)
    places = [(item.x_m, item.y_m) for item in laid.objects]
    for number, place in enumerate(places):
        assert REACH.solve((*place, 0.1)) is not None
        assert all(math.dist(place, other) > 0.1 for other in places[:number])


def test_the_camera_over_a_table_tells_names_and_places_from_the_arm() -> None:
    world = make_table(position_noise_m=0.0)
    work(world, 'pick(block_1);')
    told = {one.label: one.position_m for one in world.cameras['a1'].look()}
    assert set(told) >= {'block_2', 'apple_1', 'bin_1', 'desk_1'}
    for name in ('block_2', 'bin_1'):
        item = SCENE.get(name)
        assert item is not None
        assert told[name] == pytest.approx((item.x_m, item.y_m, item.z_m), abs=0.01)


def test_one_seed_and_one_plan_give_one_log_to_the_last_byte() -> None:
    def run(seed: int) -> str:
        world = make_table(seed=seed)
        work(world, 'pick(block_2);place(block_1);home;', task=TOWER)
        world.advance(world.now_s + 2.1)
        return world.log.text

    assert run(3) == run(3)
    assert 'succeeded' in run(3)


def test_the_right_plans_of_sample_tasks_succeed_on_a_table() -> None:
    rng = random.Random(0)
    kinds = kinds_of('arm')
    scene = arrange_table(sample_scene(rng, [kind.number for kind in kinds], 10))
    world = make_table(scene)
    for kind in kinds:
        sample = ask(rng, scene, kind.number)
        assert sample is not None
        work(world, sample.plan, scene, task=WorldTask.of(kind.name, 'a1', sample))
        world.advance(world.now_s + 2.1)
    assert len(verdicts(world)) == 3
    assert [word for word in verdicts(world) if word.startswith('failed')] == []
