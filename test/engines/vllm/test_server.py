"""Two real vLLM servers, started by ``timely-llm serve``: one is killed under load."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.engines.budget_runs import AMPLE_S, check_budgets, serve_budgets
from support.engines.server_runs import Run, config_of, request, undisturbed
from support.process_table import is_running, tree, wait_gone
from support.serve_program import KEY, START_LIMIT_S, ServeProgram, serving

from timely_llm_ros.engines.openai.engine import OpenAIEngine
from timely_llm_ros.engines.openai.options import API_KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timely_llm_ros.engines.openai.server import Server

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(
        importlib.util.find_spec('vllm') is None, reason='vLLM does not run on this machine'
    ),
]

GENERATIONS = range(24)
MORE = range(24, 30)


@pytest.fixture(scope='module')
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServeProgram]]:
    # What the first leaves when it is killed comes to the plug-in.
    with serving(tmp_path_factory.mktemp('serve'), (False, True)) as started:
        yield started


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, KEY)


def server_of(run: Run, program: ServeProgram) -> Server:
    return next(server for server in run.engine._servers if server.url == program.url)


def is_busy(run: Run, program: ServeProgram) -> bool:
    return bool(server_of(run, program).core.generations.running)


async def test_a_server_killed_under_load_loses_nothing_and_is_used_again(
    programs: list[ServeProgram], tmp_path: Path
) -> None:
    victim, other = programs
    expected = await undisturbed(other.url, [*GENERATIONS, *MORE], max_tokens=200)
    assert {plan[0] for plan in expected.values()} == {'stop'}
    options = {'max_running': 3, 'silence_s': 60.0, 'give_up_s': 600.0}
    async with Run([victim.url, other.url], options) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        processes = tree(victim.process.pid)
        assert len(processes) >= 3
        for number in GENERATIONS:
            run.engine.submit(request(number, max_tokens=200))
        await run.until(lambda: len(run.segments) > 5 and is_busy(run, victim))
        os.kill(processes[1], signal.SIGKILL)
        unfinished = len(GENERATIONS) - len(run.ended)
        assert unfinished > 5
        await run.all_ended(GENERATIONS)
        assert {n: run.plan(n) for n in GENERATIONS} == {n: expected[n] for n in GENERATIONS}
        await run.first_server_is(well=False)
        assert run.state is not None
        assert victim.url in run.state.servers[0].error
        assert run.other == []

        assert await asyncio.to_thread(victim.process.wait, 60) == 1
        assert 'vLLM ended with status' in victim.log.read_text()
        await asyncio.to_thread(wait_gone, processes)
        programs[0] = ServeProgram(tmp_path / 'again.log', victim.port)
        async with asyncio.timeout(START_LIMIT_S):
            while not server_of(run, victim).well:
                await asyncio.sleep(0.1)
        for number in MORE:
            run.engine.submit(request(number, max_tokens=200))
        await run.until(lambda: is_busy(run, victim))
        await run.all_ended(MORE)
        assert {n: run.plan(n) for n in MORE} == {n: expected[n] for n in MORE}


async def test_a_task_with_a_time_budget_ends_within_it(programs: list[ServeProgram]) -> None:
    engine = OpenAIEngine(config_of([programs[1].url], max_running=2, measure=True))
    check_budgets(*await serve_budgets(engine, [AMPLE_S, AMPLE_S]))


def test_interrupt_ends_every_process_and_shows_no_key(programs: list[ServeProgram]) -> None:
    program = programs[1]
    processes = tree(program.process.pid)
    arguments = b''.join(
        Path(f'/proc/{pid}/cmdline').read_bytes() for pid in processes if is_running(pid)
    )
    assert KEY.encode() not in arguments
    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(60) == 130
    wait_gone(processes)
    log = program.log.read_text(errors='replace')
    # Python would say so of a program that was imported before it runs.
    assert 'RuntimeWarning' not in log
    assert 'timely-llm serve: stopping' in log
    assert KEY not in log
