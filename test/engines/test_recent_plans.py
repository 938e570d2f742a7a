from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.engines.texts import RecentPlans, WrittenPlan
from timely_llm_ros.engines.texts.recent_plans import MOST_PLANS, MOST_RUNS

PIECES = (
    'pick', '(', 'cup_1', 'tray_2', ')', ';', 'if(is_visible(', ')){', '}', 'else{', '};', '",;("',
)  # fmt: skip
TEXTS = st.lists(st.tuples(st.sampled_from(range(len(PIECES))), st.booleans()), max_size=30)


def written(pieces: list[tuple[int, bool]], skill_set: str = 'arm') -> WrittenPlan:
    """A plan of pieces, of which the model chose some."""
    plan = WrittenPlan(skill_set)
    for piece, chosen in pieces:
        (plan.choose if chosen else plan.follow)(piece, PIECES[piece])
    return plan


def of(text: str, skill_set: str = 'arm') -> WrittenPlan:
    plan = WrittenPlan(skill_set)
    for letter in text:
        plan.choose(ord(letter), letter)
    return plan


def anything(_token: int) -> bool:
    return True


def test_plans_are_alike_whatever_their_arguments_are() -> None:
    recent = RecentPlans()
    recent.learn(of('pick(cup_1);place(tray_2);home;'))
    assert recent.next(of('pick(box_7);place(box_3);'), anything) == ((ord('h'),), 0.5)
    assert recent.next(of('pick(box_7);'), anything) == ((ord('p'),), 0.5)


def test_only_plans_of_the_same_skill_set_are() -> None:
    recent = RecentPlans()
    recent.learn(of('home;', 'other'))
    assert recent.next(of('hom'), anything) is None


def test_the_nearest_likeness_counts() -> None:
    recent = RecentPlans()
    for _ in range(5):
        recent.learn(of('a;x;'))
    recent.learn(of('b;y;'))
    assert recent.next(of('b;'), anything) == ((ord('y'),), 1 / 2)
    # Neither begins with c, so what statements begin with counts.
    assert recent.next(of('c;'), lambda it: it in b'xy') == ((ord('x'),), 5 / 7)


def test_the_beginning_is_like_no_other_place() -> None:
    recent = RecentPlans()
    recent.learn(of('a;b;b;b;'))
    assert recent.next(WrittenPlan('arm'), lambda it: it in b'ab;') == ((ord('a'),), 1 / 2)


@given(st.lists(TEXTS, max_size=8), TEXTS, st.sets(st.sampled_from(range(len(PIECES)))))
def test_what_is_found_is_allowed_and_was_written(
    plans: list[list[tuple[int, bool]]], text: list[tuple[int, bool]], allowed: set[int]
) -> None:
    recent = RecentPlans()
    known = [written(plan) for plan in plans]
    for plan in known:
        recent.learn(plan)
    found = recent.next(written(text), allowed.__contains__)
    runs = Counter(tuple(run.tokens) for plan in known for run in plan.runs)
    if found is not None:
        run, share = found
        assert run[0] in allowed
        assert 0.0 < share <= runs[run] / (1 + runs[run])
    # Everything begins a text in some plan, or nothing is known of it.
    assert found is not None or not any(
        run.tokens[0] in allowed and run.keys[-1] == written(text).keys[-1]
        for plan in known
        for run in plan.runs
    )


@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(1, 5))
def test_the_oldest_plans_are_forgotten(plans: list[list[tuple[int, bool]]], times: int) -> None:
    long, fresh = RecentPlans(), RecentPlans()
    for plan in plans * times:
        long.learn(written(plan))
    for _ in range(MOST_PLANS):
        long.learn(of('land;'))
        fresh.learn(of('land;'))
    assert long._seen == fresh._seen


def test_only_the_beginning_of_a_long_plan_is_remembered() -> None:
    assert len(of('a;' * MOST_RUNS).runs) == MOST_RUNS


@given(st.lists(st.sampled_from(['a;', 'if(b){', '}', '}else{', '};', 'c(d);']), max_size=9))
def test_a_statement_ends_outside_of_all_braces(pieces: list[str]) -> None:
    plan = WrittenPlan('arm')
    depth = 0
    for piece in pieces:
        depth += piece.count('{') - piece.count('}')
        assert plan.ends_statement(piece) == (piece[-1] == ';' and depth == 0)
        plan.go_on(piece)
