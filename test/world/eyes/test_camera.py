"""What cameras see: computed by rays, so that what hides a thing hides it."""

from __future__ import annotations

from support.robots.worlds import SCENE, fly, make_world

from timely_llm_ros.skills import Scene, SceneObject

HIDDEN = Scene(
    (
        SceneObject('cup_1', 'cup', x_m=2.5, y_m=0.1),
        SceneObject('tree_1', 'tree', x_m=1.5, y_m=0.1),
    )
)


def names(world: object) -> set[str]:
    return {seen.thing.item.name for seen in world.cameras['d1'].in_view()}  # type: ignore[attr-defined]


def test_what_stands_before_a_thing_hides_it() -> None:
    world = make_world(HIDDEN)
    fly(world, 'takeoff;move_down(50);')
    assert names(world) == {'tree_1'}
    world = make_world(HIDDEN)
    fly(world, 'takeoff;move_left(100);move_forward(100);')
    assert 'cup_1' in names(world)


def test_what_is_behind_a_drone_is_not_in_view() -> None:
    world = make_world()
    fly(world, 'takeoff;')
    assert names(world) == {'cat_1', 'cup_1'}
    world = make_world()
    fly(world, 'takeoff;turn_cw(180);')
    assert names(world) == {'key_1', 'person_1'}


def test_is_visible_is_what_the_camera_sees() -> None:
    world = make_world()
    plan = 'takeoff;goto(cat_1);is_visible(cat_1);is_visible(key_1);'
    assert fly(world, plan)[2:] == [True, False]


def test_a_camera_misses_and_mistakes_its_share_of_things() -> None:
    world = make_world(noise=0.3, seed=1)
    fly(world, 'takeoff;')
    camera, looks = world.cameras['d1'], 1000
    told = [one for _ in range(looks) for one in camera.look()]
    truth = len(camera.in_view()) * looks
    kinds = {item.kind for item in SCENE.objects}
    assert 0.65 < len(told) / truth < 0.75
    assert 0.25 < sum(one.label not in kinds for one in told) / len(told) < 0.35


def test_a_camera_tells_places_from_the_start_of_its_drone() -> None:
    world = make_world(position_noise_m=0.0)
    fly(world, 'takeoff;move_forward(100);')
    (cat,) = (one for one in world.cameras['d1'].look() if one.label == 'cat')
    # It steps from foot to foot.
    assert abs(cat.position_m[0] - 3.0) < 0.1
    assert abs(cat.position_m[1] - 1.0) < 0.1
