"""What plans are worth: cases, judgements, the world of symbols, counting."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.evaluation.plans import (
    Written,
    cells,
    draw_cases,
    judge,
    outcome_of,
    report,
    summary,
)
from timely_llm_ros.sample_tasks import KINDS, is_held_out
from timely_llm_ros.skills import Scene, SceneObject, parse
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from timely_llm_ros.evaluation.plans import Outcome

CASES = draw_cases([5, 10], 2, 'held_out')
TELLO, ARM = find_skill_set('tello'), find_skill_set('arm')
SCENE = Scene(tuple(SceneObject(name, 'thing') for name in ('cup_1', 'cup_2', 'box_1', 'table_1')))


def arm(plan: str) -> Outcome:
    return outcome_of(parse(plan, ARM, SCENE), lambda _: True)


def drone(plan: str, *, sees: bool = True) -> Outcome:
    return outcome_of(parse(plan, TELLO, SCENE), lambda _: sees)


def test_cases_are_held_out_of_every_kind_and_the_same_at_every_call() -> None:
    assert [case.task.kind for case in CASES] == [*[k for k in KINDS for _ in range(2)] * 2]
    assert all(is_held_out(case.task.scene) for case in CASES)
    assert len({case.name for case in CASES}) == len(CASES)
    assert draw_cases([5, 10], 2, 'held_out') == CASES


def test_cases_of_one_skill_set_ask_for_what_it_can_do() -> None:
    cases = draw_cases([5], 6, 'held_out', 'rover')
    assert {case.task.kind for case in cases} == {1, 3, 5}
    for case in cases:
        assert case.skill_set.name == case.task.skill_set == 'rover'
        assert judge(case, Written(case.task.plan, 'stop', '', 20)).exact


def test_the_right_plan_is_all_that_a_plan_can_be() -> None:
    for case in CASES:
        verdict = judge(case, Written(case.task.plan, 'stop', '', 20))
        assert verdict.complete
        assert verdict.valid
        assert verdict.first
        assert verdict.exact
        assert verdict.success


@pytest.mark.parametrize('reason', ['length', 'invalid_plan', 'error'])
def test_a_plan_that_did_not_end_is_neither_complete_nor_valid_nor_right(reason: str) -> None:
    case = CASES[0]
    first = case.task.plan.split(';')[0] + ';'
    verdict = judge(case, Written(first, reason, 'x', 2))
    assert (verdict.complete, verdict.valid, verdict.exact, verdict.success) == (False,) * 4
    assert verdict.first
    assert not judge(case, Written('', 'stop', '', 0)).valid


def test_what_a_plan_brings_about_does_not_depend_on_its_order() -> None:
    first = arm('pick(cup_1);place(box_1);pick(cup_2);place(box_1);wipe(table_1);home;')
    assert first == arm('wipe(table_1);sort_into(cup_2,box_1);sort_into(cup_1,box_1);')
    assert first != arm('pick(cup_1);place(box_1);pick(cup_2);place(box_1);home;')
    assert arm('pick(cup_1);').held == 'cup_1'
    assert arm('pick(cup_1);place(box_1);') != arm('pick(cup_2);place(box_1);')
    assert arm('place(box_1);').places == ()


def test_a_drones_pictures_count_by_where_it_is() -> None:
    right = drone('takeoff;goto(cup_1);take_picture;land;')
    assert right == drone('takeoff;scan;move_up(50);goto(cup_1);delay(500);take_picture;land;')
    assert right != drone('takeoff;goto(cup_2);take_picture;land;')
    assert right != drone('takeoff;goto(cup_1);move_down(30);take_picture;land;')
    assert right != drone('takeoff;goto(cup_1);take_picture;')


def test_conditions_and_loops_are_run() -> None:
    plan = 'if(is_visible(cup_1)){log("yes");}else{log("no");};'
    assert drone(plan).messages == ('yes',)
    assert drone(plan, sees=False).messages == ('no',)
    assert drone(plan.replace('if(', 'if(!')).messages == ('no',)
    assert drone('repeat(3){move_left(50);};').away_cm == (0.0, 150.0, 0.0)
    assert drone('move_left(150);') == drone('repeat(3){move_left(50);};')
    assert drone('repeat(10){repeat(10){repeat(10){hover;};};};').messages == ()


def test_counts_are_by_kind_by_objects_and_over_all() -> None:
    judged = []
    for number, case in enumerate(CASES):
        plan = case.task.plan if number % 2 else 'hover;' if case.task.kind < 9 else 'stop;'
        written = Written(plan, 'stop', '', 10 + number % 2)
        judged.append((case, written, judge(case, written)))
    counted = cells(judged)
    assert len(counted) == 2 * len(KINDS)
    assert summary(counted.values()).exact == len(CASES) // 2
    found = report(counted)
    assert found['all']['exact'] == found['by_kind']['9 stack']['exact'] == 0.5
    assert found['by_objects']['10']['valid'] == 1.0
    assert found['mean_tokens'] == 10.5
    assert json.loads(json.dumps(found)) == found
