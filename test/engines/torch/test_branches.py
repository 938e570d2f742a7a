"""What is written ahead of a value must show in the time only, never in the tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip('torch')

from hypothesis import given
from hypothesis import strategies as st
from support.engines.torch_runs import FIXED_PARTS, Run, alone
from support.examples import examples

from timely_llm_ros.budget import FixedEviction
from timely_llm_ros.engines import (
    Cancel,
    GenerationEnded,
    Resume,
    RobotIdleAt,
    SegmentGenerated,
    Submit,
    Suspend,
)
from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.core.options import CoreOptions
from timely_llm_ros.engines.tokens import Sampling
from timely_llm_ros.engines.torch.compute.backend import TorchBackend
from timely_llm_ros.engines.torch.compute.eviction import find_method
from timely_llm_ros.engines.torch.compute.model import LoadedModel, load_model
from timely_llm_ros.engines.torch.lengths import WorkerLengths
from timely_llm_ros.engines.torch.wire import Stop
from timely_llm_ros.engines.torch.worker import serve
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Prompt
from timely_llm_ros.testing.exact_skills import EXACT_SCENE, EXACT_SKILLS
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from timely_llm_ros.budget import EvictionRule
    from timely_llm_ros.engines.core.step import Output, StepPlan
    from timely_llm_ros.engines.torch.worker import Link

pytestmark = pytest.mark.engines

TASKS = 6
WAYS: dict[str, dict[str, Any]] = {
    'greedy': {},
    'drawn': {'sampling': Sampling(temperature=1.5, top_p=0.95, seed=5)},
    'one by one': {'fast_forward': False},
}


@pytest.fixture(scope='module')
def loaded(chaotic_model: Path) -> LoadedModel:
    return load_model(str(chaotic_model), max_kv_tokens=4096)


def task(number: int, eviction: EvictionRule | None = None) -> GenerationRequest:
    """A task whose plan asks its robot now and then."""
    prompt = Prompt(FIXED_PARTS[0], f'task: do number {number}\nplan:\n')
    return GenerationRequest(
        f'g{number}', prompt, EXACT_SKILLS, EXACT_SCENE, NORMAL, 0.0, 60, eviction=eviction
    )


@pytest.fixture(scope='module')
def expected(loaded: LoadedModel) -> dict[str, dict[str, tuple[int, ...]]]:
    """The plans, from a core that writes nothing ahead."""
    return {
        way: {f'g{n}': alone(loaded, task(n), free=False, **options) for n in range(TASKS)}
        for way, options in WAYS.items()
    }


def close(run: Run) -> None:
    """Nothing but prefixes may be held when all generations have ended."""
    prefixes = sum(len(prefix.slots) for prefix in run.backend._prefixes.values())
    assert run.loaded.pool.used == run.core.kv.used == prefixes
    assert not run.backend._sequences
    for key in run.backend.prefixes:
        run.backend.drop_prefix(key)
    assert run.loaded.pool.used == 0


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(['task', 'task', 'answer', 'answer', 'suspend', 'cancel', 'due', 'steps']),
        st.integers(0, 9),
    ),
    max_size=25,
)


@examples(12)
@given(
    actions=ACTIONS,
    room=st.sampled_from([170, 220, 4096]),
    way=st.sampled_from(list(WAYS)),
    drafts=st.booleans(),
    stops=st.randoms(use_true_random=False),
)
def test_any_order_of_values_writes_the_same_plans(
    loaded: LoadedModel,
    expected: dict[str, dict[str, tuple[int, ...]]],
    actions: list[tuple[str, int]],
    room: int,
    way: str,
    drafts: bool,
    stops: random.Random,
) -> None:
    """``Run.step`` checks after each step that pool and account agree and the bound is kept."""
    options = {'max_running': 4, 'max_kv_tokens': room, 'drafts': drafts, **WAYS[way]}
    run = Run(loaded, kind=LanedCore, options=options)
    sent: list[str] = []
    canceled, suspended = set[str](), list[str]()
    for action, number in actions:
        name = f'g{number % TASKS}'
        live = name in sent and name not in run.ended
        if action == 'task' and name not in sent:
            run.core.apply(Submit(task(number % TASKS)))
            sent.append(name)
        elif action == 'answer' and run.awaiting:
            run.answer()
        elif action == 'suspend' and live:
            run.core.apply(Suspend(name))
            suspended.append(name)
        elif action == 'cancel' and live:
            run.core.apply(Cancel(name))
            canceled.add(name)
        elif action == 'due' and live:
            run.core.apply(RobotIdleAt(name, run.now_s + number))
        for _ in range(number):
            run.step(lambda: stops.random() < 0.2)
    for name in suspended:
        run.core.apply(Resume(name))
    run.finish()
    assert set(run.ended) == set(sent)
    for name, ended in run.ended.items():
        if name in canceled and ended.reason == 'canceled':
            assert ended.token_ids == expected[way][name][: len(ended.token_ids)]
        else:
            assert ended.token_ids == expected[way][name], ended
    assert run.core.state(0.0).ahead_kv_tokens == 0
    close(run)


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('parts', [0, 1, 2, 9])
@pytest.mark.parametrize('end', ['value', 'cancel', 'drop'])
def test_kv_that_is_computed_again_amid_its_interruptions_writes_the_same_plan(
    loaded: LoadedModel,
    expected: dict[str, dict[str, tuple[int, ...]]],
    way: str,
    parts: int,
    end: str,
) -> None:
    """Its last part is interrupted, and then the plan goes on, ends or loses it again."""
    scheduling = SchedulingOptions(background_chunk=8)
    run = Run(
        loaded,
        kind=LanedCore,
        options={'scheduling': scheduling, 'max_kv_tokens': 240, **WAYS[way]},
    )
    run.core.apply(Submit(task(0)))
    while not run.awaiting:
        run.step()
    (plan,) = run.core._robots.generations  # type: ignore[union-attr]
    prompt = Prompt(FIXED_PARTS[0], 'much ' * 39)

    def lose_to(name: str) -> None:
        run.core.apply(Submit(replace(task(1), generation_id=name, prompt=prompt)))
        run.step()
        assert plan.context.computed == 0
        run.core.apply(Cancel(name))

    lose_to('one')
    for _ in range(parts):
        run.step()
    run.step(lambda: True)
    assert run.core.state(0.0).interrupted == (parts < 9)
    if end == 'value':
        run.answer()
    elif end == 'cancel':
        run.core.apply(Cancel('g0'))
    elif end == 'drop':
        lose_to('other')
    run.finish()
    if end != 'cancel':
        assert run.ended['g0'].token_ids == expected[way]['g0']
    close(run)


@pytest.mark.parametrize('way', WAYS)
def test_a_value_that_takes_long_finds_its_segment_written(
    loaded: LoadedModel, expected: dict[str, dict[str, tuple[int, ...]]], way: str
) -> None:
    run = Run(loaded, kind=LanedCore, options={**WAYS[way]})
    for number in range(TASKS):
        run.core.apply(Submit(task(number)))
    written = 0
    while run.step() or run.awaiting:
        if run.awaiting and not run.step():
            name = run.awaiting[0]
            known = len(run.segments[name])
            run.answer()
            told_s = run.now_s
            run.step()
            if name not in run.ended or len(run.segments[name]) > known:
                written += 1
                assert run.segments[name][known].token_at_s == told_s
    assert written
    assert {name: ended.token_ids for name, ended in run.ended.items()} == expected[way]
    state = run.core.state(0.0)
    assert state.ahead_tokens > 0 < state.ahead_dropped_tokens
    close(run)


def test_nothing_is_written_on_top_of_a_prompt_that_parts_were_evicted_from(
    loaded: LoadedModel,
) -> None:
    options = {'eviction': find_method('streaming')}
    asked = task(0, FixedEviction(0.5))
    run = Run(loaded, kind=LanedCore, options=dict(options))
    run.core.apply(Submit(asked))
    run.finish()
    assert run.core.state(0.0).ahead_tokens == 0
    close(run)
    assert run.ended['g0'].token_ids == alone(loaded, asked, free=False, **options)


class ScriptedLink:
    """The worker's end of a socket, whose other end answers a value once the worker is idle."""

    closed = False

    def __init__(self, core: LanedCore, log: list[str]) -> None:
        self._core, self._log = core, log
        self._sent: list[Any] = []

    def receive(self, timeout_s: float | None) -> list[Any]:
        asked = [it for it in self._sent if isinstance(it, SegmentGenerated)]
        if not self._log:
            self._log.append('task')
            return [Submit(task(0))]
        # A worker that would wait has nothing left to do, not even ahead of the value.
        if timeout_s != 0.0 and asked and asked[-1].segment.awaits_value:
            self._log.append('value')
            self._sent.clear()
            return [Resume('g0', 'true')]
        return [Stop()] if any(isinstance(it, GenerationEnded) for it in self._sent) else []

    def peek(self) -> list[Any]:
        return []

    def send(self, messages: list[Any]) -> None:
        self._sent += messages
        segments = [it for it in messages if isinstance(it, SegmentGenerated)]
        self._log += ['segment'] * len(segments)


def test_a_worker_sends_what_is_written_before_its_next_step(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, log = TorchBackend(loaded), list[str]()
    core = LanedCore(backend, CoreOptions(max_kv_tokens=loaded.pool.capacity))
    execute = backend.execute

    def logged(plan: StepPlan) -> list[Output]:
        log.append('step')
        return execute(plan)

    monkeypatch.setattr(backend, 'execute', logged)
    serve(cast('Link', ScriptedLink(core, log)), core, backend, WorkerLengths(core, None, None))
    values = [place for place, entry in enumerate(log) if entry == 'value']
    assert values
    assert {log[place + 1] for place in values} == {'segment'}
    for key in backend.prefixes:
        backend.drop_prefix(key)
