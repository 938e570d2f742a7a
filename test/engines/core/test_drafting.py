"""Drafts are computed where they save time, within the bound on KV, and nobody's tokens show it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from support.engines.core_bench import request

from timely_llm_ros.engines import GenerationEnded, Resume, SegmentGenerated, Submit
from timely_llm_ros.engines.core import CoreOptions, EngineCore
from timely_llm_ros.engines.core.drafting import DraftCosts
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.simulated.engine import PlanTexts

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.engines.core.step import Output, StepPlan

PLAN = 'goto(cat_3);if(is_visible(cat_3)){take_picture;};is_visible(cat_3);turn_cw(90);land;'
STEP_S = 0.01


class Guessing(PlanTexts):
    """Guesses so many tokens each time; a single one comes true where its turn says so."""

    def __init__(self, sizes: list[int], true: list[bool]) -> None:
        super().__init__(lambda _: PLAN)
        self.sizes, self.true = sizes, true
        self.guesses = self.came_true = 0
        self._guessed: dict[str, int] = {}
        self._kept: dict[str, int] = {}

    def draft(self, generation_id: str, most: int, worth: Callable[[float, int], bool]) -> int:
        size = self.sizes[self.guesses % len(self.sizes)]
        if size > most or not worth(0.5, size):
            return 0
        self.guesses += 1
        self._guessed[generation_id], self._kept[generation_id] = self.guesses, 0
        return size

    def verified(self, generation_id: str) -> Output | None:
        number = self._guessed[generation_id]
        if self.sizes[(number - 1) % len(self.sizes)] > 1 or not self.true[number % len(self.true)]:
            return None
        self._kept[generation_id] = 1
        self.came_true += 1
        return self.next(generation_id)

    def settle(self, generation_id: str) -> int:
        return self._kept.pop(generation_id)


def served(
    kind: type[EngineCore] | type[LanedCore], texts: Guessing, capacity: int, *, drafts: bool
) -> tuple[list[str], int]:
    """What becomes of four generations, and how many tokens were chosen in a step of their own."""
    core = kind(
        texts,
        CoreOptions(max_kv_tokens=capacity, max_running=3),
        drafter=texts if drafts else None,
    )
    for number in range(4):
        core.apply(Submit(request(f'g{number}', fixed='f' * 20, body='b' * 20)))
    found, chosen, now_s = [], 0, 0.0
    while (plan := core.plan(now_s)) is not None:
        assert core.kv.used <= capacity
        names = [row.generation.generation_id for row in plan.rows if row.samples]
        core.complete(plan, [texts.next(name) for name in names], now_s, now_s + STEP_S)
        now_s, chosen = now_s + STEP_S, chosen + len(names)
        lane = core._robots if isinstance(core, LanedCore) else core
        contexts = [item.context for item in lane.generations]
        if isinstance(core, LanedCore):
            contexts += core._branches.contexts()
        assert all(context.missing >= 1 for context in contexts)
        prefixes = sum(prefix.computed for prefix in core.kv._prefixes.values())
        assert core.kv.used == prefixes + sum(context.held for context in contexts)
        for event in core.take_events():
            if isinstance(event, SegmentGenerated):
                found.append(f'{event.generation_id} {event.segment}')
                if event.segment.awaits_value:
                    core.apply(Resume(event.generation_id, 'true'))
            elif isinstance(event, GenerationEnded):
                ended = event.reason, event.tokens, event.token_ids, event.forwarded
                found.append(f'{event.generation_id} {ended}')
    assert lane.generations.table.ids == []
    return sorted(found), chosen


@given(
    kind=st.sampled_from([EngineCore, LanedCore]),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    true=st.lists(st.booleans(), min_size=1, max_size=5),
    capacity=st.sampled_from([45, 60, 90, 4096]),
)
def test_segments_and_ends_are_those_without(
    kind: type[EngineCore] | type[LanedCore], sizes: list[int], true: list[bool], capacity: int
) -> None:
    plain, steps = served(kind, Guessing(sizes, true), capacity, drafts=False)
    texts = Guessing(sizes, true)
    found, fewer = served(kind, texts, capacity, drafts=True)
    assert found == plain
    assert fewer == steps - texts.came_true


def test_drafts_that_come_true_save_steps() -> None:
    texts = Guessing([1], [True])
    served(EngineCore, texts, 4096, drafts=True)
    assert texts.came_true > 20
    # Behind a segment's end nothing is chosen in the same step, whatever was guessed.
    assert texts.guesses > texts.came_true


def rule(step_s: float, token_s: float) -> DraftCosts:
    """A rule that has seen steps of several sizes."""
    costs = DraftCosts()
    for tokens in (1, 2, 3, 5, 8) * 20:
        costs.observe(tokens, step_s + tokens * token_s)
    return costs


@given(
    step_s=st.floats(1e-4, 0.1),
    token_s=st.floats(1e-4, 0.1),
    batch=st.integers(1, 64),
    chance=st.floats(0.0, 1.0),
    tokens=st.integers(1, 20),
)
def test_a_draft_is_computed_only_where_it_saves_more_than_it_costs(
    step_s: float, token_s: float, batch: int, chance: float, tokens: int
) -> None:
    saves_s, costs_s = chance * step_s / batch, (1.0 - chance) * tokens * token_s
    if abs(saves_s - costs_s) > 1e-3 * (saves_s + costs_s):
        assert rule(step_s, token_s).worth(batch, chance, tokens) == (saves_s > costs_s)


def test_nothing_is_guessed_before_a_step_was_timed() -> None:
    assert not DraftCosts().worth(1, 1.0, 1)


def test_many_at_once_turn_it_off() -> None:
    worth = partial(rule(0.005, 0.0003).worth, chance=0.5, tokens=2)
    assert [worth(batch) for batch in (1, 4, 8, 16)] == [True, True, True, False]


def test_the_background_is_left_alone() -> None:
    texts = Guessing([1], [True])
    core = EngineCore(texts, CoreOptions(mode='whole_plan'), drafter=texts)
    core.apply(Submit(request(background=True)))
    plans: list[StepPlan] = []
    while (plan := core.plan(0.0)) is not None:
        plans.append(plan)
        names = [row.generation.generation_id for row in plan.rows if row.samples]
        core.complete(plan, [texts.next(name) for name in names], 0.0, STEP_S)
    assert texts.guesses == 0
    assert not any(row.drafted for plan in plans for row in plan.rows)
