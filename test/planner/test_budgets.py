"""Time budgets in the planner, on the simulated engine and in virtual time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.budget.task_budget import BudgetOptions, EvictionChoice
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import SimulatedDriver, SimulatedOptions
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.engines.simulated.step_time import StepTimeModel
from timely_llm_ros.engines.tokens.model_files import PREDICTORS, SHIPPED_MODEL, find_model
from timely_llm_ros.errors import (
    BudgetOverrunError,
    ConfigurationError,
    ModelLoadError,
    TaskRefusedError,
)
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import PlannerConfig, Task, TaskAccepted, TaskResult
from timely_llm_ros.planner.budgets import ENOUGH, StepShare
from timely_llm_ros.planner.planner import Planner
from timely_llm_ros.prediction.lengths.length_forecast import (
    EmpiricalLengths,
    Sample,
    find_predictor,
)
from timely_llm_ros.sample_tasks.generator import sample_task
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import build_prompt
from timely_llm_ros.skills.scene import Scene, SceneObject, trim_scene
from timely_llm_ros.utility import NORMAL
from timely_llm_ros.virtual_time import run_virtual

TELLO = find_skill_set('tello')
STEPS = StepTimeModel(
    decode_s=0.01, batch_factor=0.1, kv_token_s=5e-5, prefill_token_s=1e-4, prefill_s=0.02
)
ALPHA_MAX = 0.9


def scene(objects: int) -> Scene:
    return Scene(tuple(SceneObject(f'cup_{n}', 'cup', x_m=float(n % 90)) for n in range(objects)))


def plan_of(tokens: int) -> tuple[str, ...]:
    """A plan of exactly so many tokens, the last of which ends it."""
    return (*[''] * (tokens - 2), 'land;', '')


@dataclass(frozen=True)
class Fixed:
    """A predictor that always says the same."""

    length: int
    worst: int

    def predict(self, fixed: str, body: str) -> Fixed:
        return self

    def predicted(self, max_tokens: int) -> int:
        return min(self.length, max_tokens)

    def quantile(self, share: float) -> int:
        return self.worst


def serve(
    tasks: list[Task], lengths: dict[str, int], predictor: Any, *, evicts: bool = True,
    after_s: float = 0.0, decides: EvictionChoice = 'worst_case', forwarded: float = 0.0,
) -> tuple[dict[str, TaskResult | TaskRefusedError], list[Any]]:  # fmt: skip
    """Run tasks, one robot each, and return results or refusals, and the planner's events."""

    async def main() -> tuple[dict[str, TaskResult | TaskRefusedError], list[Any]]:
        clock, events = LoopClock(), list[Any]()
        engine = SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda request: plan_of(lengths[request.generation_id]),
                step_time=STEPS, mode='stream', eviction='snapkv' if evicts else None,
                forwarded=forwarded,
            )
        )  # fmt: skip
        robots = {task.robot for task in tasks}
        executors = {
            robot: SegmentExecutor(SimulatedDriver(TELLO, SimulatedOptions(seed=1)), TELLO, clock)
            for robot in sorted(robots)
        }
        planner = Planner(
            engine=engine,
            robots={n: LocalRobotLink(e, clock, latency_s=0.0) for n, e in executors.items()},
            skill_sets={'tello': TELLO},
            clock=clock,
            on_event=events.append,
            config=PlannerConfig(budgets=BudgetOptions(max_evicted=ALPHA_MAX, eviction=decides)),
            predictor=predictor,
        )
        for executor in executors.values():
            await executor.start()
        await planner.start()
        found: dict[str, TaskResult | TaskRefusedError] = {}
        handles = []
        for task in tasks:
            try:
                handles.append(planner.submit(planner.prepare(task)))
            except TaskRefusedError as err:
                found[task.task_id] = err
            await asyncio.sleep(after_s)
        for handle in handles:
            found[handle.task.task_id] = await handle.result()
        await planner.close()
        return found, events

    return run_virtual(main())


def task(name: str, objects: int, budget_s: float | None, **options: Any) -> Task:
    return Task(
        name, f'drone_{name}', 'tello', 'look at cup 3', scene(objects), NORMAL,
        time_budget_s=budget_s, **options,
    )  # fmt: skip


def tokens_of(given: Task) -> int:
    prompt = build_prompt(TELLO, given.scene, given.instruction)
    return -(-len(prompt.fixed) // 4) - (-len(prompt.body) // 4)


def seconds(prompt: int, length: int, evicted: float = 0.0) -> float:
    """Step by step: prefill, which makes the first token, then the others."""
    total_s = STEPS.prefill_s + STEPS.prefill_token_s * prompt
    total_s += STEPS.decode_s + STEPS.kv_token_s * prompt
    for step in range(1, length):
        total_s += STEPS.decode_s + STEPS.kv_token_s * ((1 - evicted) * prompt + step)
    return total_s


@examples(60)
@given(
    objects=st.integers(0, 150),
    worst=st.integers(3, 120),
    actual=st.integers(3, 200),
    budget_s=st.floats(0.05, 8.0),
)
def test_refused_or_within_the_budget(
    objects: int, worst: int, actual: int, budget_s: float
) -> None:
    asked = task('a', objects, budget_s)
    prompt = tokens_of(asked)
    found, _ = serve([asked], {'a': actual}, Fixed(3, worst))
    result = found['a']
    least_s = seconds(prompt, worst, ALPHA_MAX)
    if abs(least_s - budget_s) < 1e-6:
        return
    if isinstance(result, TaskRefusedError):
        assert least_s > budget_s
        assert f'{least_s:.3f} s' in str(result)
        return
    assert least_s <= budget_s
    assert result.budget is not None
    assert result.budget.feasible
    # Killed at the budget or ended before it, whatever the plan's real length.
    assert result.generation_s <= budget_s + 1e-5
    assert 0 <= result.eviction_ratio <= ALPHA_MAX
    # Rounding to whole tokens may cost a token's time per step at alpha_max.
    if actual <= worst and least_s + STEPS.kv_token_s * worst <= budget_s:
        assert result.ending.code == 0
        assert result.tokens == actual - 1
    if result.ending.code:
        assert result.ending.code == BudgetOverrunError.code
        assert actual > worst or least_s + STEPS.kv_token_s * worst > budget_s


def test_evicts_just_enough() -> None:
    asked = task('a', 100, None)
    prompt = tokens_of(asked)
    half_s = seconds(prompt, 60, 0.5)
    found, events = serve([task('a', 100, half_s)], {'a': 60}, Fixed(20, 60))
    result = found['a']
    assert isinstance(result, TaskResult)
    assert result.eviction_ratio == pytest.approx(0.5, abs=1.5 / prompt)
    assert result.generation_s <= half_s
    assert result.generation_s == pytest.approx(half_s, abs=60 * STEPS.kv_token_s)
    (accepted,) = [event for event in events if isinstance(event, TaskAccepted)]
    assert accepted.budgeted is not None
    budget = accepted.budgeted.budget
    assert budget.evicted == pytest.approx(0.5, abs=1e-6)
    assert budget.expected_s == pytest.approx(seconds(prompt, 20))
    assert '50% of the KV to evict' in accepted.budgeted.text


def test_the_score_to_expect_decides_unless_told_otherwise() -> None:
    assert BudgetOptions().eviction == 'score'
    asked = task('a', 100, None)
    prompt = tokens_of(asked)
    expected = {}
    for decides in get_args(EvictionChoice):
        budget_s = seconds(prompt, 60, 0.5)
        found, _ = serve([task('a', 100, budget_s)], {'a': 20}, Fixed(20, 60), decides=decides)
        result = found['a']
        assert isinstance(result, TaskResult)
        assert result.ending.code == 0
        expected[decides] = result.eviction_ratio
        ample, _ = serve([task('a', 100, 60.0)], {'a': 20}, Fixed(20, 60), decides=decides)
        whole = ample['a']
        assert isinstance(whole, TaskResult)
        assert whole.eviction_ratio == 0
    assert expected['worst_case'] == expected['most'] == pytest.approx(0.5, abs=1.5 / prompt)
    # Of plans of prompts that lost half, a fifth is longer: more goes, so that they end too.
    assert 0.5 <= expected['score'] <= ALPHA_MAX


def test_without_a_budget_nothing_is_evicted() -> None:
    found, _ = serve([task('a', 100, None)], {'a': 30}, Fixed(20, 60))
    result = found['a']
    assert isinstance(result, TaskResult)
    assert (result.eviction_ratio, result.budget) == (0.0, None)


def test_what_queueing_took_counts_after_prefill() -> None:
    """A second task delays the first tokens of the first one, which then gives up more."""
    alone, _ = serve([task('a', 100, 6.5)], {'a': 60}, Fixed(20, 60))
    lengths = {'a': 60, 'b': 60}
    both, _ = serve([task('b', 149, None), task('a', 100, 6.5)], lengths, Fixed(20, 60))
    first, second = alone['a'], both['a']
    assert isinstance(first, TaskResult)
    assert isinstance(second, TaskResult)
    assert second.eviction_ratio > first.eviction_ratio


def test_an_impossible_task_names_its_estimate() -> None:
    found, events = serve([task('a', 30, 0.05)], {}, Fixed(20, 60))
    assert isinstance(found['a'], TaskRefusedError)
    assert 'time budget 0.05 s: expected at least the estimated' in str(found['a'])
    assert not events


@pytest.mark.parametrize(('budget_s', 'objects'), [(30.0, 100), (2.5, 100), (1.9, 50), (1.1, 25)])
def test_engines_without_eviction_get_less_to_do(budget_s: float, objects: int) -> None:
    found, events = serve([task('a', 100, budget_s)], {'a': 25}, Fixed(30, 60), evicts=False)
    result = found['a']
    assert isinstance(result, TaskResult), result
    assert result.ending.code == 0
    assert result.generation_s <= budget_s
    (accepted,) = [event for event in events if isinstance(event, TaskAccepted)]
    budgeted = accepted.budgeted
    assert budgeted is not None
    assert len(budgeted.scene.objects) == objects
    assert 'no eviction: prompt' in budgeted.text
    prompt = budgeted.budget.prompt_tokens
    assert prompt == tokens_of(task('a', 100, None)) or objects < 100
    fitting = [length for length in range(1, 513) if seconds(prompt, length) <= budget_s]
    assert budgeted.budget.max_tokens == max(fitting)


def test_a_plan_cut_off_by_its_budget_says_so() -> None:
    found, _ = serve([task('a', 100, 1.9)], {'a': 90}, Fixed(30, 60), evicts=False)
    result = found['a']
    assert isinstance(result, TaskResult)
    assert result.ending.code == BudgetOverrunError.code
    assert 'for a time budget of 1.9 s' in result.ending.message
    assert result.generation_s <= 1.9


def test_skip_next_runs_on_and_skips_only_its_own_robot() -> None:
    late = task('a', 50, 0.9, overrun='skip_next')
    tasks = [
        late,
        Task('b', late.robot, 'tello', 'look', scene(3), NORMAL, when_busy='queue'),
        task('c', 3, None),
    ]
    found, _ = serve(tasks, {'a': 150, 'b': 5, 'c': 150}, Fixed(5, 10))
    first, second, other = (found[name] for name in 'abc')
    assert isinstance(first, TaskResult)
    assert isinstance(second, TaskResult)
    assert isinstance(other, TaskResult)
    assert (first.ending.code, first.tokens) == (0, 149)
    assert first.generation_s > 0.9
    assert second.ending.code == TaskRefusedError.code
    assert 'skipped' in second.ending.message
    assert other.ending.code == 0


def test_trimmed_scenes_keep_what_the_task_names() -> None:
    whole = Scene((
        SceneObject('cup_1', 'cup', x_m=9.0),
        SceneObject('cat_1', 'cat', x_m=1.0),
        SceneObject('book_1', 'book', attribute='red', x_m=5.0),
        SceneObject('ball_1', 'ball', x_m=2.0),
    ))  # fmt: skip
    kept = trim_scene(whole, 'bring me the red book and all cups', 3)
    assert [item.name for item in kept.objects] == ['cup_1', 'cat_1', 'book_1']


@pytest.mark.parametrize('forwarded', [0.0, 0.6])
def test_times_are_of_the_steps_that_plans_turn_out_to_take(forwarded: float) -> None:
    names = [f't{number}' for number in range(ENOUGH + 1)]
    found, events = serve(
        [task(name, 20, 60.0) for name in names],
        dict.fromkeys(names, 80),
        Fixed(80, 80),
        after_s=10.0,
        forwarded=forwarded,
    )
    expected: list[float] = []
    took: list[float] = []
    for event in events:
        if isinstance(event, TaskAccepted):
            assert event.budgeted is not None
            result = found[event.task_id]
            assert isinstance(result, TaskResult)
            assert result.tokens == 79
            expected.append(event.budgeted.budget.expected_s)
            took.append(result.generation_s)
            assert event.budgeted.budget.worst_s >= 0.99 * result.generation_s
    prompt = tokens_of(task('t0', 20, None))
    # Until enough is known, each token counts as a step.
    assert expected[:-1] == pytest.approx([seconds(prompt, 80)] * ENOUGH)
    assert expected[-1] == pytest.approx(took[-1], rel=0.03)
    assert (took[-1] < 0.6 * expected[0]) is (forwarded > 0)


def test_a_skill_sets_share_of_steps() -> None:
    share = StepShare()
    for number in range(ENOUGH):
        assert not share.known
        share.observe(0.5 if number % 2 else 0.4)
    assert share.known
    assert share.mean == pytest.approx(0.45)
    assert share.most == pytest.approx(0.5, abs=0.01)
    share.observe(1.0)
    assert share.most == 1.0
    for _ in range(300):
        share.observe(0.4)
    assert share.mean == pytest.approx(0.4)
    assert 0.4 < share.most < 0.45


def test_lengths_are_learned_by_kind_of_prompt() -> None:
    lengths = EmpiricalLengths()
    fixed = 'robot: new_robot\nfly up\n'
    assert lengths.predict(fixed, 'scene:\n').predicted(512) > 0
    for length in range(1, 100):
        lengths.observe(fixed, 'scene:\n', length)
    forecast = lengths.predict(fixed, 'scene:\n')
    assert forecast.predicted(512) == 50
    assert forecast.quantile(0.95) == 95
    assert forecast.quantile(0.995) is None
    assert Sample(()).predicted(77) == 77
    with pytest.raises(ConfigurationError, match='expected between 0 and 1'):
        forecast.quantile(1.0)
    with pytest.raises(ConfigurationError, match="'bert': expected one of"):
        find_predictor('bert', '')


def test_the_response_length_predictor_reads_what_is_asked(tmp_path: Path) -> None:
    predictor = find_predictor('rlp', Path(find_model(SHIPPED_MODEL)) / PREDICTORS)
    rng = random.Random(0)
    said = []
    for kind in (1, 10):  # plans of one call, and of a loop with a condition
        many = [sample_task(rng, kind, 8, wordings='held_out') for _ in range(6)]
        prompts = [build_prompt(find_skill_set(t.skill_set), t.scene, t.instruction) for t in many]
        said.append(fmean(predictor.predict(it.fixed, it.body).predicted(512) for it in prompts))
    assert said[0] < said[1]
    asked = task('a', 5, 60.0)
    found, _ = serve([asked], {'a': 20}, predictor)
    result = found['a']
    assert isinstance(result, TaskResult)
    assert result.budget is not None
    prompt = build_prompt(TELLO, asked.scene, asked.instruction)
    expected = predictor.predict(prompt.fixed, prompt.body)
    assert result.budget.predicted_length == expected.predicted(512)
    assert result.budget.worst_length == expected.quantile(0.95)
    with pytest.raises(ModelLoadError, match=r'expected rlp\.json'):
        find_predictor('rlp', tmp_path)


@pytest.mark.parametrize(
    'options', [{'max_evicted': 1.0}, {'pessimism': 0.5}, {'coverage': 0.0}, {'eviction': 'luck'}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match='expected'):
        BudgetOptions(**options)
