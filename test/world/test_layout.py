"""How a scene is laid out in a bay, and what a survey of it tells."""

from __future__ import annotations

import math
import random
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.sample_tasks import kinds_of, sample_scene
from timely_llm_ros.world import WorldOptions, arrange, survey
from timely_llm_ros.world.layout import FREE_M, REACH_M

KINDS = [kind.number for kind in kinds_of('tello')]


@given(st.integers(0, 10_000), st.integers(2, 12))
def test_things_stand_in_reach_apart_and_on_their_side(seed: int, count: int) -> None:
    scene = sample_scene(random.Random(seed), KINDS, count)
    laid = arrange(scene)
    assert laid.names == scene.names
    for before, after in zip(scene.objects, laid.objects, strict=True):
        assert max(abs(after.x_m), abs(after.y_m)) <= REACH_M
        assert (after.x_m >= 0, after.y_m >= 0) == (before.x_m >= 0, before.y_m >= 0)
        assert math.hypot(after.x_m, after.y_m) >= FREE_M - 0.1
    for one, other in combinations(laid.objects, 2):
        assert math.dist((one.x_m, one.y_m), (other.x_m, other.y_m)) > 0.5


def test_a_survey_misses_and_mistakes_its_share() -> None:
    scene = sample_scene(random.Random(0), KINDS, 12)
    options = WorldOptions(noise=0.3, seed=5)
    surveys = [survey(scene, options, number) for number in range(300)]
    known = [item.name in scene.names for one in surveys for item in one.objects]
    assert 0.66 < len(known) / (300 * 12) < 0.74
    assert 0.66 < sum(known) / len(known) < 0.74
    assert survey(scene, options, 7) == surveys[7]


def test_a_survey_without_noise_knows_everything_nearly_where_it_is() -> None:
    scene = sample_scene(random.Random(1), KINDS, 12)
    seen = survey(scene, WorldOptions(position_noise_m=0.03))
    assert seen.names == scene.names
    assert seen != scene
