"""Drones of the world: physics, the Tello's protocol, and what happens on the way."""

from __future__ import annotations

import math

import pytest
from support.robots.tello_bench import bench
from support.robots.worlds import fly, make_world

from timely_llm_ros.drivers.tello.mock import Phase
from timely_llm_ros.errors import SkillFailedError
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.world import WorldAircraft

WALL = Scene((SceneObject('tree_1', 'tree', x_m=1.2, y_m=0.1),))


def test_a_drone_flies_where_its_skills_lead_it() -> None:
    world = make_world()
    fly(world, 'takeoff;move_forward(200);turn_ccw(90);move_left(100);move_up(50);')
    x_m, y_m, z_m, heading_rad = world.pose_of('d1')
    assert (x_m, y_m) == pytest.approx((1.0, 0.0), abs=0.1)
    assert z_m == pytest.approx(1.3, abs=0.12)
    assert heading_rad == pytest.approx(math.pi / 2, abs=0.06)


def test_a_drone_that_lands_stands_on_the_floor_with_its_motors_off() -> None:
    world = make_world()
    fly(world, 'takeoff;move_forward(100);land;', stay_s=1.0)
    assert world.pose_of('d1')[2] < 0.03
    assert not world.drones.motors[0]
    assert world.log.events == []


def test_wind_pushes_a_drone_less_far_than_a_hand_is_wide() -> None:
    world = make_world(wind_m_s=1.5, gusts_m_s=0.5)
    fly(world, 'takeoff;', stay_s=10.0)
    x_m, y_m, z_m, _ = world.pose_of('d1')
    assert 0.0 < math.hypot(x_m, y_m) < 0.1
    assert z_m == pytest.approx(0.82, abs=0.1)


def test_motors_that_are_cut_let_a_drone_fall() -> None:
    world = make_world()
    fly(world, 'takeoff;')
    world.drones.motors[0] = False
    world.advance(world.now_s + 1.0)
    assert world.pose_of('d1')[2] < 0.1


def test_a_drone_does_not_fly_through_what_is_in_its_way() -> None:
    world = make_world(WALL)
    (_, value) = fly(world, 'takeoff;move_forward(300);', WALL)
    assert isinstance(value, SkillFailedError)
    assert world.pose_of('d1')[0] < 1.2
    assert next((event.event, event.what) for event in world.log.events) == ('hit', 'tree_1')


def test_one_seed_and_one_plan_give_one_log_to_the_last_byte() -> None:
    def run(seed: int) -> tuple[str, tuple[float, ...]]:
        world = make_world(WALL, seed=seed, gusts_m_s=0.5)
        fly(world, 'takeoff;move_forward(300);move_left(50);land;', WALL)
        return world.log.text, world.pose_of('d1')

    assert run(3) == run(3)
    assert run(3)[0]
    assert run(3) != run(4)


async def test_the_real_driver_flies_a_drone_of_the_world_over_udp() -> None:
    world = make_world()
    mock = {'airframe': WorldAircraft(world, 'd1'), 'speed': 4.0}
    async with bench(mock=mock) as flight:
        await flight.do('takeoff')
        await flight.do('move_forward(100)')
        await flight.do('turn_cw(90)')
        x_m, y_m, z_m, heading_rad = world.pose_of('d1')
        assert (x_m, y_m, z_m) == pytest.approx((1.0, 0.0, 0.82), abs=0.15)
        assert heading_rad == pytest.approx(-math.pi / 2, abs=0.1)
        await flight.do('land')
        assert flight.mock.phase is Phase.GROUND
    assert world.pose_of('d1')[2] < 0.1


def test_a_drone_that_lands_on_furniture_has_landed() -> None:
    scene = Scene((SceneObject('cup_1', 'cup', 'red', 'near', 'table', x_m=1.5, y_m=0.0),))
    world = make_world(scene)
    values = fly(world, 'takeoff;move_up(50);move_forward(210);land;', scene, stay_s=1.0)
    assert values == [None] * 4
    assert world.pose_of('d1')[2] == pytest.approx(0.42, abs=0.03)
    assert not world.drones.motors[0]
