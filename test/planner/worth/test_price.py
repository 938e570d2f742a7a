"""What a second of the engine must earn, and how clients share it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.planner.worth import Kind, PlanCosts, Prices, fair_shares
from timely_llm_ros.planner.worth.price import MARGINAL, WINDOW_S
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility


def prices(**weights: float) -> Prices:
    costs = PlanCosts()
    for utility, cost_s in ((URGENT, 0.05), (NORMAL, 0.1)):
        for _ in range(3):
            costs.observe_first(Kind('exact', utility), first_s=0.1, cost_s=0.05)
            costs.observe_plan(Kind('exact', utility), cost_s)
    return Prices(costs, lambda client: weights.get(client, 1.0))


def ask(found: Prices, *streams: tuple[TimeUtility, float, str]) -> None:
    """Ask for so many tasks per second of each kind and client for a minute."""
    tasks = [
        (number / per_s, client, Kind('exact', utility))
        for utility, per_s, client in streams
        for number in range(round(60 * per_s))
    ]
    for at_s, client, kind in sorted(tasks, key=lambda task: task[0]):
        found.note(at_s, client, kind)


def test_engine_time_is_free_while_all_fits() -> None:
    found = prices()
    ask(found, (NORMAL, 8.0, ''))
    assert found.demand(60.0) == pytest.approx(0.8, abs=0.05)
    assert found.price(60.0, '') == 0.0


def test_what_is_asked_for_is_known_before_a_window_is_over_and_a_burst_alone_is_no_rate() -> None:
    found = prices()
    for number in range(45):
        found.note(number / 15.0, '', Kind('exact', NORMAL))
    assert found.demand(3.0) < 1.0
    assert found.price(3.0, '') == 0.0
    for number in range(45, 180):
        found.note(number / 15.0, '', Kind('exact', NORMAL))
    assert found.demand(12.0) == pytest.approx(1.5, rel=0.2)
    assert found.price(12.0, '') > 0.0


def test_the_kind_that_just_finds_no_room_sets_the_price() -> None:
    normal, urgent = prices(), prices()
    ask(normal, (NORMAL, 15.0, ''))
    assert normal.price(60.0, '') == pytest.approx(MARGINAL * 1.0 / 0.1)
    ask(urgent, (URGENT, 30.0, ''), (NORMAL, 15.0, ''))
    assert urgent.demand(60.0) == pytest.approx(3.0, abs=0.3)
    assert urgent.price(60.0, '') == pytest.approx(MARGINAL * 2.0 / 0.05)


def test_a_price_falls_when_tasks_cease_to_come() -> None:
    found = prices()
    ask(found, (NORMAL, 30.0, ''))
    assert found.price(60.0, '') > 0
    assert found.price(60.0 + 2.0 * WINDOW_S, '') == 0.0


def test_a_noisy_client_pays_by_itself() -> None:
    found = prices()
    ask(found, (NORMAL, 40.0, 'noisy'), (NORMAL, 3.0, 'quiet'))
    assert found.price(60.0, 'noisy') > 0
    assert found.price(60.0, 'quiet') == 0.0


def test_a_client_with_more_weight_has_more_room() -> None:
    found = prices(big=3.0)
    ask(found, (NORMAL, 7.0, 'big'), (NORMAL, 7.0, 'small'))
    assert found.price(60.0, 'big') == 0.0
    assert found.price(60.0, 'small') > 0


@given(
    st.dictionaries(
        st.sampled_from('abcdef'), st.tuples(st.floats(0, 3), st.floats(0.1, 9)), min_size=1
    )
)
def test_nobody_gets_more_than_it_asks_for_and_nothing_is_left_that_somebody_wants(
    clients: dict[str, tuple[float, float]],
) -> None:
    asked = {name: one for name, (one, _) in clients.items()}
    weights = {name: weight for name, (_, weight) in clients.items()}
    shares = fair_shares(asked, weights)
    assert all(shares[name] <= asked[name] + 1e-9 for name in asked)
    assert sum(shares.values()) == pytest.approx(min(1.0, sum(asked.values())))
    # Whoever gets less than it asks for has by weight at least what any other has.
    for name in asked:
        if shares[name] < asked[name] - 1e-9:
            most = max(shares[other] / weights[other] for other in asked)
            assert shares[name] / weights[name] >= most - 1e-9
