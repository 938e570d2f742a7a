"""Which of LIBERO's tasks fit on a table of the world."""

from __future__ import annotations

import pytest

pytest.importorskip('mujoco')

from benchmarks.world.libero import Laid, lay
from timely_llm_ros.evaluation.suites import SuiteTask
from timely_llm_ros.skills import Scene, SceneObject

SCENE = Scene(
    (
        SceneObject('kitchen_table', 'kitchen_table'),
        SceneObject('milk_1', 'milk', relation='on', support='kitchen_table'),
        SceneObject('basket_1', 'basket', relation='on', support='kitchen_table'),
        SceneObject('basket_1_inside', 'inside', relation='in', support='basket_1'),
        SceneObject('plate_1', 'plate', relation='on', support='kitchen_table'),
    )
)


def task(gold: str) -> SuiteTask:
    return SuiteTask('t', 'put it away', SCENE, SCENE, gold)


def test_what_is_put_into_a_basket_fits() -> None:
    laid = lay(task('pick(milk_1);place_in(basket_1_inside);'))
    assert isinstance(laid, Laid)
    assert laid.stored == (('milk_1', 'basket_1'),)
    assert laid.plan == 'pick(milk_1);place(basket_1);home;'
    assert set(laid.scene.names) == {'milk_1', 'basket_1', 'plate_1'}
    assert len({(item.x_m, item.y_m) for item in laid.scene.objects}) == 3


@pytest.mark.parametrize(
    ('gold', 'lacks'),
    [
        ('pick(milk_1);place_on(plate_1);', 'on plate'),
        ('pick(milk_1);place_in(plate_1);', 'in plate'),
        ('open(plate_1);', 'open plate'),
    ],
)
def test_what_asks_for_more_does_not(gold: str, lacks: str) -> None:
    assert lay(task(gold)) == lacks
