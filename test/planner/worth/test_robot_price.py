"""What a second of a robot must earn where robots lack."""

from __future__ import annotations

import pytest

from timely_llm_ros.planner.worth import Kind, PlanCosts, RobotPrices
from timely_llm_ros.planner.worth.price import WINDOW_S
from timely_llm_ros.utility import NORMAL, URGENT

SHORT, LONG = Kind('exact', URGENT), Kind('exact', NORMAL)
"""An urgent task keeps its robot for 2 s and is worth 2, a normal one for 8 s and is worth 1."""


def make(robots: int = 1, **weights: float) -> RobotPrices:
    costs = PlanCosts()
    for kind, robot_s in ((SHORT, 1.9), (LONG, 7.9)):
        for _ in range(3):
            costs.observe_first(kind, first_s=0.1, cost_s=0.05)
            costs.observe_plan(kind, 0.1)
            costs.observe_run(kind, robot_s)
    found = RobotPrices(costs, lambda client: weights.get(client, 1.0))
    for number in range(robots):
        found.take(0.0, 'exact', f'r{number}')
    return found


def come(found: RobotPrices, *streams: tuple[Kind, float, str]) -> None:
    """Have tasks come to busy robots for a minute, so many per second of each kind and client."""
    tasks = [
        (number / per_s, client, kind)
        for kind, per_s, client in streams
        for number in range(round(60 * per_s))
    ]
    for at_s, client, kind in sorted(tasks, key=lambda task: task[0]):
        found.note(at_s, client, kind)


def test_a_robot_is_free_for_all_where_nobody_finds_it_busy() -> None:
    assert make().price(60.0, '', 'exact') == 0.0


def test_the_price_is_what_a_robot_earns_with_the_best_of_those_that_come_in_vain() -> None:
    found = make()
    come(found, (SHORT, 0.5, ''), (LONG, 0.5, ''))
    # Of two seconds it waits for one that is urgent; 4 s a task, the beginning counted as busy.
    assert found.price(60.0, '', 'exact') == pytest.approx(2.0 / (2 * 2.0 + 2.0), rel=0.1)
    # A long plan earns 1/8 a second: more than that, so it is not worth its time.
    assert found.price(60.0, '', 'exact') > 1.0 / 8.0


def test_long_plans_are_worth_their_time_where_nothing_better_comes() -> None:
    found = make()
    come(found, (LONG, 2.0, ''))
    assert 0.0 < found.price(60.0, '', 'exact') < 1.0 / 8.0


def test_it_costs_nothing_while_other_robots_are_free() -> None:
    found = make(robots=4)
    come(found, (SHORT, 8.0, ''))
    all_busy = found.price(60.0, '', 'exact')
    found.end(60.0, 'exact', 'r0')
    found.end(60.0, 'exact', 'r1')
    assert found.price(60.0, '', 'exact') == pytest.approx(0.5 * all_busy)
    found.end(60.0, 'exact', 'r2')
    found.end(60.0, 'exact', 'r3')
    assert found.price(60.0, '', 'exact') == 0.0
    assert found.idle


def test_a_price_falls_when_tasks_cease_to_come() -> None:
    found = make()
    come(found, (SHORT, 8.0, ''))
    before = found.price(60.0, '', 'exact')
    assert found.price(60.0 + 2.0 * WINDOW_S, '', 'exact') < 0.7 * before
    assert found.price(60.0 + 14.0 * WINDOW_S, '', 'exact') == 0.0


def test_a_noisy_client_pays_by_itself() -> None:
    found = make()
    come(found, (SHORT, 8.0, 'noisy'), (LONG, 0.05, 'quiet'))
    assert found.price(60.0, 'noisy', 'exact') > 0.5
    assert found.price(60.0, 'quiet', 'exact') < 1.0 / 8.0


def test_robots_of_another_skill_set_have_a_price_of_their_own() -> None:
    found = make()
    come(found, (SHORT, 8.0, ''))
    found.take(60.0, 'other', 'r9')
    assert found.price(60.0, '', 'other') == 0.0
