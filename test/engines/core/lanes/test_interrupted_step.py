"""The background's steps give way to robots in the middle, and nobody's tokens show it."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('torch')

from hypothesis import given
from hypothesis import strategies as st
from support.engines.core_bench import Bench, request
from support.engines.torch_runs import Run, alone, free_request, plan_request
from support.examples import examples

from timely_llm_ros.engines.commands import Cancel, Resume, RobotIdleAt, Submit, Suspend, Warm
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.tokens.sampling import Sampling
from timely_llm_ros.engines.torch.compute.model import LoadedModel, load_model
from timely_llm_ros.engines.torch.wire import Stop, frame
from timely_llm_ros.engines.torch.worker import Link, _robot_waits
from timely_llm_ros.scheduling.options import SchedulingOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core.step import Output, StepPlan

pytestmark = pytest.mark.engines
GENERATIONS = 10
PARTS = 4
"""Of a pass of the model's two layers; it can be stopped after each but the last."""


@pytest.fixture(scope='module')
def loaded(chaotic_model: Path) -> LoadedModel:
    loaded = load_model(str(chaotic_model), max_kv_tokens=8192)
    assert loaded.fused is not None
    return loaded


@pytest.fixture(scope='module')
def expected(loaded: LoadedModel) -> dict[str, tuple[int, ...]]:
    return {
        f'g{n}': alone(loaded, free_request(n, max_tokens=24), free=True)
        for n in range(GENERATIONS)
    }


def stop_after(parts: int) -> Callable[[], bool]:
    """Return what stops a pass after so many parts; 0 for never."""
    left = [parts]

    def stop() -> bool:
        left[0] -= 1
        return left[0] == 0

    return stop


def new_run(loaded: LoadedModel, room: int, chunk: int = 16) -> Run:
    scheduling = SchedulingOptions(background_batch=4, background_chunk=chunk)
    options = {'max_running': 3, 'max_kv_tokens': room, 'scheduling': scheduling}
    return Run(loaded, free=True, options=options, kind=LanedCore)


def free_of(number: int, *, background: bool) -> GenerationRequest:
    return replace(free_request(number, max_tokens=24), background=background)


def close(run: Run) -> None:
    """Nothing but prefixes may be held when all generations have ended."""
    assert not run.backend._sequences
    for key in list(run.backend._prefixes):
        run.backend.drop_prefix(key)
    assert run.loaded.pool.used == 0


@pytest.mark.parametrize('robots', [False, True])
@pytest.mark.parametrize('parts', range(1, PARTS))
def test_every_step_is_stopped_at_this_place(
    loaded: LoadedModel, expected: dict[str, tuple[int, ...]], parts: int, robots: bool
) -> None:
    """With ``robots``, one of theirs comes into the middle of some steps."""
    run = new_run(loaded, 8192)
    background = range(GENERATIONS // 2)
    for number in background:
        run.core.apply(Submit(free_of(number, background=True)))
    coming = list(range(len(background), GENERATIONS)) if robots else []
    steps = 0
    assert isinstance(run.core, LanedCore)
    while run.step(stop_after(parts)):
        interrupted = run.core.state(0.0).interrupted
        steps += 1
        if coming and interrupted % 9 == 5:
            run.core.apply(Submit(free_of(coming.pop(), background=False)))
    assert not coming
    assert run.core.state(0.0).interrupted > steps / 5
    assert run.core.kv.spilled == 0
    assert {name: ended.token_ids for name, ended in run.ended.items()} == {
        name: ids for name, ids in expected.items() if name in run.ended
    }
    assert len(run.ended) == (GENERATIONS if robots else len(background))
    close(run)


ACTIONS = st.lists(
    st.one_of(
        st.integers(0, PARTS - 1),  # A step, stopped after so many parts.
        st.integers(0, PARTS - 1),
        st.sampled_from(['robot', 'background', 'background', 'cancel', 'suspend', 'resume']),
    ),
    max_size=80,
)


@examples(60)
@given(
    actions=ACTIONS,
    room=st.sampled_from([110, 170, 250, 8192]),
    chunk=st.integers(1, 40),
    last=st.lists(st.integers(0, PARTS - 1), min_size=1, max_size=5),
    salt=st.integers(0, 99),
)
def test_any_interruptions(
    loaded: LoadedModel,
    expected: dict[str, tuple[int, ...]],
    actions: list[int | str],
    room: int,
    chunk: int,
    last: list[int],
    salt: int,
) -> None:
    """Also while generations end or lose their KV in the middle of a step."""
    run = new_run(loaded, room, chunk)
    names: list[str] = []
    held: list[str] = []
    for place, action in enumerate(actions):
        chosen = (7 * place + salt) % max(1, len(names))
        if isinstance(action, int):
            run.step(stop_after(action))
        elif action in ('robot', 'background'):
            if len(names) < GENERATIONS:
                sent = free_of(len(names), background=action == 'background')
                run.core.apply(Submit(sent))
                names.append(sent.generation_id)
        elif action == 'cancel' and names:
            run.core.apply(Cancel(names[chosen]))
        elif action == 'suspend' and names:
            run.core.apply(Suspend(names[chosen]))
            held.append(names[chosen])
        elif action == 'resume' and held:
            run.core.apply(Resume(held.pop(chosen % len(held))))
    for name in held:
        run.core.apply(Resume(name))
    turn = 0
    while run.step(stop_after(last[turn % len(last)])):
        # Each call computes a part at least, so an end is sure however often it is stopped.
        turn += 1
        assert turn < 4000
    assert set(run.ended) == set(names)
    for name, ended in run.ended.items():
        assert ended.reason in ('length', 'stop', 'canceled'), ended
        whole = expected[name]
        if ended.reason == 'canceled':
            whole = whole[: len(ended.token_ids)]
        assert ended.token_ids == whole
    close(run)


def interrupted_run(loaded: LoadedModel) -> tuple[Run, StepPlan]:
    """Return a run whose background is in the middle of a step of four."""
    run = new_run(loaded, 8192)
    for number in range(4):
        run.core.apply(Submit(free_of(number, background=True)))
    assert isinstance(run.core, LanedCore)
    while (plan := run.core.plan(run.now_s)) is None or len(plan.rows) < 4:
        if plan is None:
            assert run.core.prepare()
        else:
            run.core.complete(plan, run.backend.execute(plan), run.now_s, run.now_s + 0.005)
    assert run.backend.advance(plan, stop_after(2)) is None
    run.core.interrupt(plan, run.now_s, run.now_s + 0.001)
    return run, plan


def test_a_step_whose_kv_robots_take_is_done_again(
    loaded: LoadedModel, expected: dict[str, tuple[int, ...]]
) -> None:
    run, _ = interrupted_run(loaded)
    assert isinstance(run.core, LanedCore)
    ledger = run.core._robots.kv
    ledger.capacity = ledger.used + 10
    run.core.apply(Submit(free_of(4, background=False)))
    run.finish()
    assert run.core.kv.spilled > 0
    assert len(run.ended) == 5
    for name, ended in run.ended.items():
        assert ended.token_ids == expected[name]
    close(run)


def test_a_step_whose_generation_ends_is_done_again_for_the_others(
    loaded: LoadedModel, expected: dict[str, tuple[int, ...]]
) -> None:
    run, plan = interrupted_run(loaded)
    # It comes again as it is, until one of its own is gone.
    assert run.core.plan(run.now_s) is plan
    before = run.core.kv.used
    contexts = {row.generation.generation_id: row.generation.context for row in plan.rows}
    computed = {name: context.computed for name, context in contexts.items()}
    run.core.apply(Cancel('g1'))
    again = run.core.plan(run.now_s)
    assert again is not None
    assert again is not plan
    left = computed.keys() - {'g1'}
    assert {row.generation.generation_id for row in again.rows} == left
    assert {name: contexts[name].computed for name in left} == {
        name: computed[name] for name in left
    }
    assert run.core.kv.used == before - computed['g1']
    run.core.complete(again, run.backend.execute(again), run.now_s, run.now_s + 0.005)
    run.finish()
    for name in left:
        assert run.ended[name].token_ids == expected[name]
    close(run)


def test_drawn_tokens(loaded: LoadedModel) -> None:
    sampling = Sampling(temperature=1.0, seed=5)
    expected = {
        f'g{n}': alone(loaded, free_request(n, max_tokens=24), free=True, sampling=sampling)
        for n in range(6)
    }
    options = {'max_running': 3, 'sampling': sampling}
    run = Run(loaded, free=True, options=options, kind=LanedCore)
    for number in range(3):
        run.core.apply(Submit(free_of(number, background=True)))
    turn = 0
    while run.step(stop_after(turn % PARTS)):
        turn += 1
        if turn in (9, 20, 33):
            run.core.apply(Submit(free_of(3 + turn // 15, background=False)))
    assert isinstance(run.core, LanedCore)
    assert run.core.state(0.0).interrupted > 5
    assert {name: ended.token_ids for name, ended in run.ended.items()} == expected
    close(run)


def test_plans_within_a_grammar(loaded: LoadedModel) -> None:
    """Their prefix, which robots may need, is never left half computed."""
    robots = {f'g{n}': alone(loaded, plan_request(n), free=False) for n in range(3)}
    run = Run(loaded, kind=LanedCore, options={'max_running': 3})
    whole = {f'g{n}': None for n in range(3, 6)}
    for number in range(3, 6):
        run.core.apply(Submit(replace(plan_request(number), background=True)))
    coming = [0, 1, 2]
    turn = 0
    while run.step(stop_after(turn % PARTS)) or run.awaiting or coming:
        turn += 1
        while run.awaiting:
            run.answer()
        if coming and turn % 7 == 6:
            run.core.apply(Submit(plan_request(coming.pop())))
    assert run.ended.keys() == robots.keys() | whole.keys()
    for name, ids in robots.items():
        assert run.ended[name].token_ids == ids
    close(run)


class PausingBench(Bench[LanedCore]):
    """A laned core on a model that pauses, without a model."""

    def __init__(self, **options: object) -> None:
        super().__init__(LanedCore, 'takeoff;land;', **options)
        self.texts.pauses = True

    def next_plan(self) -> StepPlan:
        while (plan := self.core.plan(self.now_s)) is None:
            assert self.core.prepare()
        return plan

    def outputs(self, plan: StepPlan) -> list[Output]:
        return [self.texts.next(row.generation.generation_id) for row in plan.rows if row.samples]


def test_what_can_be_interrupted_needs_no_bound() -> None:
    options = SchedulingOptions(background_batch=16, background_chunk=64, background_step_s=0.001)
    bench = PausingBench(scheduling=options)
    for number in range(40):
        bench.core.apply(Submit(request(f'b{number}', background=True, body='y' * 400)))
    sizes: dict[bool, list[int]] = {False: [], True: []}
    while bench.core.state(0.0).background:
        plan = bench.next_plan()
        if bench.core.may_interrupt(plan):
            sizes[plan.decodes_only].append(plan.tokens)
        ended_s = bench.now_s + 0.004 + 0.001 * plan.tokens
        bench.core.complete(plan, bench.outputs(plan), bench.now_s, ended_s)
        bench.now_s = ended_s
    assert max(sizes[False]) == 64
    assert max(sizes[True]) == 16


def test_a_step_that_goes_on_took_the_time_of_its_pieces() -> None:
    bench = PausingBench()
    bench.core.apply(Submit(request('b', background=True)))
    while not (plan := bench.next_plan()).decodes_only:
        bench.core.complete(plan, bench.outputs(plan), bench.now_s, bench.now_s + 0.01)
        bench.now_s += 0.01
    busy_s = bench.core.state(0.0).busy_s
    for _ in range(2):
        bench.core.interrupt(plan, bench.now_s, bench.now_s + 0.01)
        bench.core.apply(Submit(request('r')))
        robots = bench.next_plan()
        assert not robots.background
        assert not bench.core.may_interrupt(robots)
        bench.core.complete(robots, bench.outputs(robots), bench.now_s, bench.now_s + 0.04)
        bench.core.apply(Cancel('r'))
        bench.now_s += 1.0
    assert bench.next_plan() is plan
    bench.core.complete(plan, bench.outputs(plan), bench.now_s, bench.now_s + 0.02)
    state = bench.core.state(0.0)
    assert state.step_s == pytest.approx(0.04)
    assert state.interrupted == 2
    assert state.busy_s == pytest.approx(busy_s + 2 * 0.01 + 2 * 0.04 + 0.02)


def test_only_what_robots_wait_for_interrupts() -> None:
    bench = PausingBench()
    bench.core.apply(Submit(request('b', background=True)))
    bench.core.apply(Submit(request('r')))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = Link(theirs)
        quiet = [
            Submit(request('c', background=True)), RobotIdleAt('r', 1.0), Cancel('r'),
            Suspend('r'), Cancel('b'), Resume('b', None), Resume('gone', None),
        ]  # fmt: skip
        for command in quiet:
            ours.sendall(frame([command]))
            assert not _robot_waits(link, bench.core), command
        for command in (Submit(request('d')), Resume('r', 'true'), Stop()):
            data = frame([command])
            ours.sendall(data[:9])
            assert not _robot_waits(link, bench.core), command
            ours.sendall(data[9:])
            assert _robot_waits(link, bench.core), command
            # What was looked at is still to be received, once and in order.
            assert link.receive(0.0) == [*quiet, command]
            assert not _robot_waits(link, bench.core)
            quiet = []
        ours.close()
        assert not link.receive(0.0)
        assert link.closed
        assert _robot_waits(link, bench.core)


def test_a_scene_whose_last_part_was_interrupted_goes_on_before_another_takes_its_place() -> None:
    bench = PausingBench()

    def warm(text: str) -> None:
        task = request('scene', body=text)
        bench.core.apply(Warm('robot', task.prompt, task.skill_set, task.scene))

    warm('s' * 80)
    while not bench.core.may_interrupt(plan := bench.next_plan()):
        bench.core.complete(plan, [], bench.now_s, bench.now_s)
    # Its account is complete before the step is.
    assert not plan.rows[0].generation.context.missing
    bench.core.interrupt(plan, bench.now_s, bench.now_s)
    warm('s' * 40)
    assert bench.next_plan() is plan
