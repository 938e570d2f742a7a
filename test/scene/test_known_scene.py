"""What a robot knows: names that stay, ages, and perception that means no good."""

from __future__ import annotations

import math
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.scene import Detection, KnownScene, SceneOptions
from timely_llm_ros.skills import Scene, SceneObject

PERIOD_S = 0.1


def seen(label: str, x_m: float = 0.0, y_m: float = 0.0, score: float = 0.9) -> Detection:
    return Detection(label, score, (x_m, y_m, 0.0))


def known(*objects: SceneObject, **options: float) -> KnownScene:
    made = KnownScene(SceneOptions(**options), ())  # type: ignore[arg-type]
    made.learn(Scene(objects), 0.0)
    return made


def see_twice(scene: KnownScene, *detections: Detection, now_s: float = 0.0) -> None:
    for _ in range(2):
        scene.see(detections, now_s)


@given(
    seed=st.integers(0, 2**32 - 1),
    places=st.lists(
        st.tuples(st.sampled_from(['cup', 'cat', 'box']), st.integers(-6, 6), st.integers(-6, 6)),
        min_size=1,
        max_size=12,
        unique_by=lambda place: place[1:],
    ),
)
def test_names_stay_over_noise_and_missed_detections(
    seed: int, places: list[tuple[str, int, int]]
) -> None:
    rng = random.Random(seed)
    scene = KnownScene(SceneOptions())
    names: dict[tuple[str, int, int], str] = {}
    for step in range(60):
        frame = [
            seen(kind, x + rng.gauss(0, 0.05), y + rng.gauss(0, 0.05))
            for kind, x, y in places
            if rng.random() >= 0.2
        ]
        rng.shuffle(frame)
        assert not scene.see(frame, step * PERIOD_S)
        for item in scene.scene(step * PERIOD_S).objects:
            place = min(places, key=lambda p: math.dist((item.x_m, item.y_m), p[1:]))
            assert item.kind == place[0]
            assert math.dist((item.x_m, item.y_m), place[1:]) < 0.3
            assert names.setdefault(place, item.name) == item.name
    assert set(names) == set(places)
    assert len(set(names.values())) == len(places)


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(['see', 'goal', 'wait']),
            st.sampled_from(['cup', 'cat']),
            st.integers(0, 5),
            st.floats(0, 4),
        ),
        max_size=60,
    )
)
def test_nothing_that_was_forgotten_is_told_again_and_no_name_means_two_things(
    steps: list[tuple[str, str, int, float]],
) -> None:
    options = SceneOptions(forget_s=5.0, least_sightings=1)
    scene = KnownScene(options)
    now_s = 0.0
    touched: dict[str, float] = {}
    gone: set[str] = set()
    for what, kind, place, pause_s in steps:
        now_s += pause_s
        if what == 'see':
            scene.see([seen(kind, float(place))], now_s)
        elif what == 'goal':
            scene.learn(Scene((SceneObject('thing', kind, x_m=float(place)),)), now_s)
        told = scene.scene(now_s)
        for item in told.objects:
            if item.name != 'thing':
                assert item.name not in gone
            if what != 'wait' and (item.kind, round(item.x_m)) == (kind, place):
                touched[item.name] = now_s
            assert now_s - touched[item.name] <= 5.0
        gone |= set(touched) - set(told.names)


def test_an_object_is_told_once_it_was_seen_often_enough_and_until_it_is_forgotten() -> None:
    scene = known(forget_s=10.0, least_sightings=3)
    for step in range(3):
        assert scene.scene(float(step)).names == ()
        scene.see([seen('cup', 1.0)], float(step))
    (item,) = scene.scene(5.0, stamp_s=1005.0).objects
    assert (item.name, item.kind, item.x_m, item.stamp_s) == ('cup_1', 'cup', 1.0, 1002.0)
    assert scene.scene(12.0).names == ('cup_1',)
    assert scene.scene(12.1).names == ()
    # What comes there later is another one.
    for step in range(3):
        scene.see([seen('cup', 1.0)], 13.0 + step)
    assert scene.scene(16.0).names == ('cup_2',)


def test_what_a_goal_names_keeps_its_name_and_is_followed() -> None:
    desk = SceneObject('desk_7', 'desk', 'oak', 'near', 'door', x_m=2.0)
    scene = known(desk)
    scene.see([seen('desk', 2.1)], 1.0)
    (item,) = scene.scene(1.0).objects
    assert (item.name, item.attribute, item.support) == ('desk_7', 'oak', 'door')
    assert item.x_m == pytest.approx(2.03)
    # A perception node that knows the name may tell it anywhere.
    scene.see([seen('desk_7', 9.0)], 2.0)
    assert scene.scene(2.0).objects[0].x_m == 9.0
    see_twice(scene, seen('desk', -2.0), now_s=3.0)
    assert scene.scene(3.0).names == ('desk_7', 'desk_8')


def test_a_goal_that_calls_a_known_object_otherwise_does_not_rename_it() -> None:
    scene = known()
    see_twice(scene, seen('cup', 1.0), seen('cup', 3.0))
    client = Scene((SceneObject('mine', 'cup', 'red', x_m=1.1), SceneObject('cup_2', 'cup', x_m=5)))
    scene.learn(client, 1.0)
    told = scene.scene(1.0)
    assert {item.name: item.x_m for item in told.objects} == {
        'cup_1': 1.1, 'cup_2': 3.0, 'cup_3': 5.0,
    }  # fmt: skip
    assert told.objects[0].attribute == 'red'


def test_a_label_without_a_place_keeps_the_only_one_of_its_kind() -> None:
    scene = known(forget_s=10.0)
    see_twice(scene, seen('cup', 1.0), seen('cat', 1.0), seen('cat', 3.0))
    somewhere = [Detection(label, 0.9, None) for label in ('cup', 'cat', 'dog')]
    scene.see(somewhere, 8.0)
    assert scene.scene(12.0).names == ('cup_1',)


def test_names_of_skills_are_left_out() -> None:
    scene = KnownScene(SceneOptions(least_sightings=1), {'cup_1', 'home'})
    scene.see([seen('cup')], 0.0)
    scene.learn(Scene((SceneObject('home', 'house'),)), 0.0)
    assert scene.scene(0.0).names == ('cup_2', 'house_1')


@pytest.mark.parametrize(
    ('detection', 'reason'),
    [
        (seen('cup', math.nan), 'position'),
        (seen('cup', math.inf), 'position'),
        (seen('cup', 1e300), 'position'),
        (seen('cup', score=math.nan), 'score'),
        (seen('cup', score=7.0), 'score'),
        (seen(''), 'label'),
        (seen('cup;land'), 'label'),
        (seen('a\x1b[31m\nb'), 'label'),
        (seen('кот'), 'label'),
        (seen('x' * 100_000), 'label'),
        (Detection('cup', 0.9, (0.0, 0.0, 0.0), 'camera'), 'frame'),
    ],
)
def test_hostile_detections_are_refused_with_a_reason(detection: Detection, reason: str) -> None:
    scene = KnownScene(SceneOptions(frame='map', least_sightings=1))
    good = Detection('Traffic  light', 0.9, (1.0, 0.0, 0.0), 'map')
    refused = scene.see([detection, good], 0.0)
    assert list(refused.values()) == [1]
    ((text, _),) = refused.items()
    assert reason in text
    assert text.isprintable()
    assert len(text) < 500
    assert scene.scene(0.0).names == ('traffic_light_1',)


def test_a_flood_is_cut_off_and_what_is_known_stays() -> None:
    scene = KnownScene(SceneOptions(most_objects=20, most_per_s=100, forget_s=1000.0))
    see_twice(scene, *(seen('cup', float(place)) for place in range(10)))
    told = scene.scene(0.0)
    rng = random.Random(0)
    for step in range(200):
        flood = [
            seen(f'thing_{rng.randrange(10**6)}', rng.uniform(-9000, 9000)) for _ in range(1000)
        ]
        refused = scene.see(flood, step * PERIOD_S)
        assert sum(refused.values()) >= 900
        assert len(refused) <= 21
        assert len(scene) <= 20
    assert scene.scene(20.0).names == told.names


@given(
    labels=st.lists(st.text(max_size=80), max_size=30),
    numbers=st.lists(st.floats(), min_size=3, max_size=3),
    score=st.floats(),
)
def test_no_detection_breaks_a_scene(labels: list[str], numbers: list[float], score: float) -> None:
    scene = KnownScene(SceneOptions(least_sightings=1))
    x, y, z = numbers
    scene.see([Detection(label, score, (x, y, z)) for label in labels], 0.0)
    told = scene.scene(0.0)
    assert len(set(told.names)) == len(told.objects)


def test_memory_is_bounded_whatever_is_seen() -> None:
    options = SceneOptions(most_per_s=100_000, least_sightings=1, forget_s=0.1, most_objects=50)
    scene = KnownScene(options)
    names: set[str] = set()

    def size() -> int:
        held = [scene._numbers, scene._objects]
        return sum(map(sys.getsizeof, held)) + sum(map(sys.getsizeof, scene._numbers))

    def flood(first: int, last: int) -> None:
        for step in range(first, last):
            scene.see([seen(f'kind{step}x', 1.0), seen('cup', step % 7)], float(step))
            for name in scene.scene(float(step)).names:
                assert name not in names
                names.add(name)

    flood(0, 3000)
    before = size()
    flood(3000, 6000)
    assert size() <= 1.1 * before
    # A kind whose number was dropped does not begin anew.
    scene.see([seen('kind0x', 1.0)], 7000.0)
    assert not names & set(scene.scene(7000.0).names)
