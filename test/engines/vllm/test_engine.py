"""The embedded model on a real vLLM: plans, refusals, and an engine core that is killed."""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

from support.engines.budget_runs import AMPLE_S, check_budgets, serve_budgets
from support.engines.vllm_runs import Lent, VllmRun, forget_prefixes, free_request, mismatches

from timely_llm_ros.engines.commands import GenerationRequest, Warm
from timely_llm_ros.engines.engine import EngineFailed, EngineReady
from timely_llm_ros.engines.openai import server as openai_server
from timely_llm_ros.engines.tokens.sampling import Sampling
from timely_llm_ros.engines.vllm.config import VllmConfig
from timely_llm_ros.engines.vllm.engine import VllmEngine
from timely_llm_ros.engines.vllm.fallback import VllmWithFallback
from timely_llm_ros.engines.vllm.plugin import contract as vllm_contract
from timely_llm_ros.engines.vllm.plugin.contract import check_contract
from timely_llm_ros.engines.vllm.writer import check_seed
from timely_llm_ros.errors import ConfigurationError, EngineError, ModelLoadError, TaskRefusedError
from timely_llm_ros.sample_tasks.generator import sample_task
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import Prompt, build_prompt
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = (1, 3, 4, 5, 9, 10, 11)
ASKING = 2
"""The kind of task whose plans ask robots."""


def task_request(number: int, kind: int = 0) -> GenerationRequest:
    """A request for a plan of a task as the embedded model was trained on."""
    sample = sample_task(random.Random(number), kind or KINDS[number % len(KINDS)], 8)
    skill_set = find_skill_set(sample.skill_set)
    return GenerationRequest(
        f'task{number}',
        build_prompt(skill_set, sample.scene, sample.instruction),
        skill_set,
        sample.scene,
        URGENT if number % 3 == 0 else NORMAL,
        0.0,
        max_tokens=120,
    )


TASKS = [task_request(number) for number in range(16)]


@pytest.fixture(scope='module')
def embedded() -> Iterator[VllmRun]:
    run = VllmRun(max_running=4, max_kv_tokens=16384, measure=True)
    yield run
    run.close()


def test_the_installed_vllm_keeps_the_contract() -> None:
    assert check_contract().problems == ()


def test_it_says_what_it_runs(embedded: VllmRun) -> None:
    info = embedded.info
    assert (info.engine, info.dtype, info.kv_capacity_tokens) == ('vllm', 'float32', 16384)
    assert info.parameters > 1_000_000
    assert info.vocabulary == 2435
    assert embedded.core_pids
    assert info.times is not None
    assert [entry.batch for entry in info.times.decode] == [1, 4]
    assert 0 < info.times.at(1).total_time_s(200, 20) < 100
    assert not embedded.ended


@pytest.fixture(scope='module')
def plans(embedded: VllmRun) -> dict[str, tuple[int, ...]]:
    """What each task's plan is, undisturbed."""
    return embedded.do(embedded.alone(TASKS))


def test_torn_plans_of_the_embedded_model_are_whole(
    embedded: VllmRun, plans: dict[str, tuple[int, ...]]
) -> None:
    found = embedded.do(embedded.torn(TASKS, random.Random(1)))
    assert mismatches(found, plans) == []
    assert embedded.suspended > 4


def test_its_segments_are_the_plan(embedded: VllmRun) -> None:
    names = embedded.submit(TASKS)
    embedded.do(embedded.until(lambda: all(name in embedded.ended for name in names)))
    for request, name in zip(TASKS, names, strict=True):
        assert embedded.ended[name].reason == 'stop', embedded.ended[name]
        segments = [event.segment for event in embedded.segments[name]]
        assert [segment.index for segment in segments] == list(range(len(segments)))
        for segment in segments:
            assert parse(segment.text, request.skill_set, request.scene) == segment.statements
        for event in embedded.segments[name]:
            assert event.generation_s > 0
            assert event.kv_tokens > 100


def known(request: GenerationRequest) -> Prompt:
    """Return what the prompts of all tasks in a request's scene begin with."""
    body = request.prompt.body
    return replace(request.prompt, body=body[: body.index('task:')])


async def warm(run: VllmRun, request: GenerationRequest) -> int:
    """Empty the cache, have a request's scene warmed; return how many tokens of it are."""
    engine = cast('VllmEngine', run.engine)
    engine.warm('robot', None, request.skill_set, request.scene)
    await run.until(lambda: run.warm[0] == 0)
    await forget_prefixes(run)
    command = Warm('robot', known(request), request.skill_set, request.scene)
    engine.send(command)
    await run.until(lambda: run.warm[0] == 1)
    assert engine._writer is not None
    fixed, _ = engine._writer._tokens(request)
    return len(engine._writer.scene(command)[0]) - len(fixed)


def test_a_warm_scene_changes_no_plan_and_is_not_computed_again(embedded: VllmRun) -> None:
    assert embedded.info.warms
    requests = [task_request(number) for number in range(40, 46)]
    expected = embedded.do(embedded.alone(requests))

    async def warmed() -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for request in requests:
            tokens = await warm(embedded, request)
            _, hits, saved = embedded.warm
            found |= await embedded.alone([replace(request, scene_of='robot')])
            await embedded.until(lambda hits=hits: embedded.warm[1] == hits + 1)
            # All but the last block, which the task shares with nobody, and the last token.
            assert tokens - 2 * 32 < embedded.warm[2] - saved <= tokens
        return found

    assert embedded.do(warmed()) == expected
    assert embedded.tokens_in_kv == 0


def test_what_is_written_ahead_of_values_changes_no_plan(embedded: VllmRun) -> None:
    """A scene is computed once nothing is left to write ahead, so a warm one says that all is."""
    asking = [task_request(number, ASKING) for number in range(4)]
    expected = embedded.do(embedded.alone(asking))
    scenes = iter(range(60, 100))

    async def unhurried() -> dict[str, tuple[int, ...]]:
        engine = cast('VllmEngine', embedded.engine)
        found: dict[str, tuple[int, ...]] = {}
        for request in asking:
            (name,) = embedded.submit([request])
            while name not in embedded.ended:
                await embedded.until(lambda name=name: embedded.asked or name in embedded.ended)
                if not embedded.asked:
                    break
                event = embedded.asked.pop()
                other = task_request(next(scenes))
                engine.warm('robot', None, other.skill_set, other.scene)
                await embedded.until(lambda: embedded.warm[0] == 0)
                engine.send(Warm('robot', known(other), other.skill_set, other.scene))
                await embedded.until(lambda: embedded.warm[0] == 1)
                before = embedded.ahead[0]
                embedded.answer(event)
                await embedded.until(lambda before=before: embedded.ahead[0] > before)
            found[request.generation_id] = embedded.ended[name].token_ids
        return found

    embedded.patient = True
    try:
        found = embedded.do(unhurried())
    finally:
        embedded.patient = False
    assert found == expected
    assert embedded.ahead[1] > 0
    assert embedded.tokens_in_kv == 0


@pytest.mark.parametrize(
    ('changes', 'expected'),
    [
        ({'forced_token_ids': (1, 2)}, 'forced_token_ids: expected None'),
        ({'background': True}, 'a background generation: expected an engine'),
        ({'prompt': Prompt('x', '')}, "prompt body '': expected at least one token"),
        ({'prompt': Prompt('', 'plan ' * 9000)}, 'expected fewer than 8192, the limit'),
        ({'max_tokens': 0}, 'max_tokens'),
    ],
)
def test_what_cannot_be_served_says_why(
    embedded: VllmRun, changes: dict[str, Any], expected: str
) -> None:
    (name,) = embedded.submit([replace(TASKS[0], **changes)])
    embedded.do(embedded.until(lambda: name in embedded.ended))
    assert embedded.ended[name].reason == 'error'
    assert expected in embedded.ended[name].error


def test_a_cancel_never_overtakes_its_request(embedded: VllmRun) -> None:
    async def at_once() -> list[str]:
        names = list(embedded.submit([free_request(number) for number in range(6)]))
        for name in names:
            embedded.engine.cancel(name)
        await embedded.until(lambda: all(name in embedded.ended for name in names))
        return names

    names = embedded.do(at_once())
    assert {embedded.ended[name].reason for name in names} == {'canceled'}


def test_a_task_with_a_time_budget_ends_within_it(embedded: VllmRun) -> None:
    accepted, ended = embedded.do(serve_budgets(Lent(embedded), [AMPLE_S, AMPLE_S]))
    check_budgets(accepted, ended)
    with pytest.raises(TaskRefusedError, match=r'time budget 1e-06 s: expected at least the est'):
        embedded.do(serve_budgets(Lent(embedded), [1e-6]))


def test_outside_the_contract_plans_are_the_same_and_a_dead_core_ends_none(
    embedded: VllmRun,
    plans: dict[str, tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """vLLM's own scheduler, a request for each segment; then its engine core is killed."""
    monkeypatch.setattr(vllm_contract, 'AFTER_LAST', vllm_contract.FIRST)
    with caplog.at_level(logging.WARNING):
        run = VllmRun(VllmWithFallback, max_running=4, max_kv_tokens=16384)
    assert "vLLM's own scheduler serves" in caplog.text
    assert 'expected >=0.32,<0.32' in caplog.text
    try:
        assert (run.info.engine, run.info.parameters) == ('vllm', embedded.info.parameters)
        found = run.do(run.torn(TASKS, random.Random(1)))
        assert mismatches(found, plans) == []

        names = run.submit(TASKS)
        run.do(run.until(lambda: any(name in run.segments for name in names)))
        # It would be started anew, which other tests see of vLLM and of servers.
        monkeypatch.setattr(openai_server, 'FIRST_RETRY_S', 3600.0)
        (pid,) = run.core_pids
        os.kill(pid, signal.SIGKILL)
        run.do(run.until(lambda: run.servers and not run.servers[0].well))
        assert 'engine core ended' in run.servers[0].error
        assert {run.ended[name].reason for name in names if name in run.ended} <= {'stop'}
        assert not run.others
    finally:
        run.close()


def test_a_killed_core_is_started_anew_and_in_bfloat16_says_the_same(embedded: VllmRun) -> None:
    # Starting takes long: what comes next is another format.
    options = replace(embedded.engine._config, dtype='bfloat16', max_running=1)
    embedded.engine._config = options

    async def kill() -> tuple[dict[str, str], str]:
        names = embedded.submit([free_request(number, max_tokens=2000) for number in range(8)])
        await embedded.until(lambda: embedded.tokens_in_kv > 0)
        (pid,) = embedded.core_pids
        os.kill(pid, signal.SIGKILL)
        await embedded.until(lambda: all(name in embedded.ended for name in names))
        (late,) = embedded.submit(TASKS[:1])
        await embedded.until(lambda: late in embedded.ended)
        return names, late

    names, late = embedded.do(kill())
    assert isinstance(embedded.others[0], EngineFailed)
    assert {embedded.ended[name].reason for name in names} == {'error'}
    assert all('engine core ended' in embedded.ended[name].error for name in names)
    assert embedded.ended[late].error == 'the engine is not running'
    embedded.do(embedded.until(lambda: isinstance(embedded.others[-1], EngineReady)))
    # In bfloat16, one generation per step, cached prompts: nothing differs but the suspensions.
    embedded.spilled = 0
    embedded.do(embedded.alone(TASKS))
    expected = embedded.do(embedded.alone(TASKS))
    assert {len(ids) > 3 for ids in expected.values()} == {True}
    assert mismatches(embedded.do(embedded.torn(TASKS, random.Random(7))), expected) == []
    assert embedded.spilled == 0


def test_a_new_engine_core_warms_what_it_is_told(embedded: VllmRun) -> None:
    assert embedded.do(warm(embedded, task_request(50))) > 0
    long = Prompt('', 'plan ' * 9000)
    embedded.engine.warm('robot', long, TASKS[0].skill_set, TASKS[0].scene)
    # A scene that is too long is none, and what comes after it is served.
    embedded.do(embedded.until(lambda: embedded.warm[0] == 0))
    embedded.do(embedded.alone(TASKS[:1]))


def test_the_engine_core_ends_with_its_engine(tmp_path: Path) -> None:
    path = str(tmp_path / 'report')
    code = (
        'import sys, threading\n'
        'from timely_llm_ros.engines.vllm.plugin.report import Report\n'
        'Report(sys.argv[1]).send(["hello"])\n'
        'threading.Event().wait()\n'
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        with subprocess.Popen([sys.executable, '-c', code, path]) as process:
            end, _ = server.accept()
            assert end.recv(1)
            end.close()
            assert process.wait(60) == 0


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        ({'mode': 'whole'}, "mode 'whole'"),
        ({'policy': 'random'}, "policy 'random'"),
        ({'dtype': 'int3'}, "dtype 'int3'"),
        ({'max_running': 0}, 'max_running 0: expected 1 to 1024'),
        ({'max_kv_tokens': 32}, 'max_kv_tokens 32: expected 256 to'),
        ({'max_kv_tokens': 256, 'block_size': 256}, 'max_kv_tokens 256: expected at least 512'),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        VllmConfig(**options)


async def test_a_seed_on_the_stages_of_a_cpu_is_refused() -> None:
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        pytest.skip('only on CPUs')
    sampling = Sampling(1.0, seed=5)
    seed = sampling(TASKS[0])['seed']
    engine = VllmEngine(VllmConfig(vllm={'pipeline_parallel_size': 2}, sampling=sampling))
    engine._prepare()
    told: list[Any] = []
    engine._supervisor._on_event = told.append
    engine._supervisor._generations.add(TASKS[0].generation_id)
    await engine._submit(cast('Any', object()), TASKS[0])
    ((reason, error),) = [(event.reason, event.error) for event in told]
    assert (reason, error[: error.index(',')]) == ('error', f'seed {seed}: expected none')


@pytest.mark.parametrize(
    ('seed', 'tokens', 'most'), [(None, 10**6, 0), (3, 100, 100), (3, 10**6, None)]
)
def test_a_seed_is_taken_where_its_prompt_stays_whole(
    seed: int | None, tokens: int, most: int | None
) -> None:
    check_seed(seed, tokens, most)


def test_a_seed_with_a_long_prompt_is_refused() -> None:
    with pytest.raises(EngineError, match=r'seed 3: expected at most 100 tokens .* not 101, on a'):
        check_seed(3, 101, 100)


async def test_a_missing_model_is_named() -> None:
    engine = VllmEngine(VllmConfig(model_path='/no/such/model'))
    with pytest.raises(ModelLoadError, match=r'/no/such/model.*: no config\.json there'):
        await engine.start(lambda _: None)
