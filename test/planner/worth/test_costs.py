"""What a plan is expected to cost, by what clients call its task."""

from __future__ import annotations

from timely_llm_ros.planner.worth import Kind, PlanCosts
from timely_llm_ros.utility import NORMAL, URGENT


def learn(costs: PlanCosts, kind: Kind, cost_s: float, plans: int = 3) -> None:
    for _ in range(plans):
        costs.observe_first(kind, first_s=0.1, cost_s=0.05)
        costs.observe_plan(kind, cost_s)


def plan_cost_s(costs: PlanCosts, utility_label: tuple[object, str]) -> float:
    utility, label = utility_label
    cost = costs.find(Kind('exact', NORMAL if utility is NORMAL else URGENT, label))
    assert cost is not None
    return cost.plan_cost_s


def test_tasks_of_another_label_may_cost_something_else() -> None:
    costs = PlanCosts()
    learn(costs, Kind('exact', NORMAL, 'long'), 0.4)
    learn(costs, Kind('exact', NORMAL, 'short'), 0.1)
    assert plan_cost_s(costs, (NORMAL, 'long')) == 0.4
    assert plan_cost_s(costs, (NORMAL, 'short')) == 0.1


def test_a_label_that_is_new_counts_as_all_of_its_utility_and_that_as_all_of_its_skill_set() -> (
    None
):
    costs = PlanCosts()
    learn(costs, Kind('exact', NORMAL, 'long'), 0.4)
    learn(costs, Kind('exact', NORMAL, 'new'), 9.0, plans=2)
    both = plan_cost_s(costs, (NORMAL, ''))
    assert 0.4 < both < 9.0
    assert plan_cost_s(costs, (NORMAL, 'new')) == both
    assert plan_cost_s(costs, (URGENT, '')) == both
    assert costs.find(Kind('other', NORMAL)) is None


def test_any_number_of_labels_takes_a_bounded_part_of_memory() -> None:
    costs = PlanCosts()
    for number in range(2000):
        learn(costs, Kind('exact', NORMAL, f'task {number}'), 0.4, plans=1)
    assert plan_cost_s(costs, (NORMAL, 'task 1999')) == plan_cost_s(costs, (NORMAL, ''))
