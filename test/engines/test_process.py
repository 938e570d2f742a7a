"""An engine's process is started again where it is lost, and what was lost is said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.engines.engine import EngineFailed, EngineInfo, EngineReady, GenerationEnded
from timely_llm_ros.engines.process import LAST_RESTART_S, Supervisor
from timely_llm_ros.errors import EngineError, ModelLoadError
from timely_llm_ros.processes import Backoff
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.engines.engine import EngineEvent

INFO = EngineInfo('made up', 'none', 0, 'none', 0, 0, 0.0)


class Program:
    """A process that is made up: some of its starts fail."""

    def __init__(self, *failing: int) -> None:
        self.failing = failing
        self.starts_s: list[float] = []
        self.events: list[EngineEvent] = []
        self.supervisor = Supervisor('made up', launch=self._launch, autopsy=self._autopsy)

    async def _launch(self) -> EngineInfo:
        self.starts_s.append(asyncio.get_running_loop().time())
        if len(self.starts_s) - 1 in self.failing:
            raise ModelLoadError('no room')
        self.supervisor.mark_ready()
        return INFO

    async def _autopsy(self) -> str:
        return 'it ended'

    async def start(self) -> None:
        assert await self.supervisor.start(self.events.append) is INFO


def test_pauses_double_up_to_the_last_and_begin_again() -> None:
    backoff = Backoff(0.25, 1.5)
    assert [backoff.next_s() for _ in range(5)] == [0.25, 0.5, 1.0, 1.5, 1.5]
    backoff.reset()
    assert backoff.next_s() == 0.25


def test_a_lost_process_is_started_again_and_its_generations_end() -> None:
    async def run() -> None:
        program = Program()
        await program.start()
        supervisor = program.supervisor
        assert supervisor.admit('b')
        assert supervisor.admit('a')
        supervisor.tell(GenerationEnded('b', 'stop', '', 3, 0.1))
        assert 'a' in supervisor
        assert 'b' not in supervisor
        program.events.clear()
        supervisor.lost()
        supervisor.lost()
        assert not supervisor.admit('c')
        await asyncio.sleep(1.0)
        assert program.events == [
            EngineFailed('it ended'),
            GenerationEnded('a', 'error', 'it ended', 0, 0.0),
            GenerationEnded('c', 'error', 'the engine is not running', 0, 0.0),
            EngineReady(INFO),
        ]
        assert supervisor.admit('c')
        await supervisor.close()

    run_virtual(run())


def test_starts_that_fail_are_told_and_tried_ever_more_seldom() -> None:
    async def run() -> None:
        program = Program(*range(1, 10))
        await program.start()
        program.supervisor.lost()
        await asyncio.sleep(200.0)
        gaps_s = [b - a for a, b in zip(program.starts_s, program.starts_s[1:], strict=False)]
        assert gaps_s == pytest.approx([0.25, 0.5, 1, 2, 4, 8, *4 * [LAST_RESTART_S]])
        assert program.events.count(EngineFailed('no room')) == 9
        assert program.events[-1] == EngineReady(INFO)
        program.supervisor.lost()
        await asyncio.sleep(0.3)
        assert program.events[-1] == EngineReady(INFO)
        assert len(program.starts_s) == 12
        await program.supervisor.close()

    run_virtual(run())


def test_after_the_close_nothing_is_started_or_told() -> None:
    async def run() -> None:
        program = Program()
        await program.start()
        program.supervisor.admit('a')
        program.supervisor.lost()
        await program.supervisor.close()
        program.supervisor.lost()
        program.supervisor.fail('a', 'too late')
        await asyncio.sleep(60.0)
        assert program.events == []
        assert len(program.starts_s) == 1

    run_virtual(run())


def test_it_is_started_once() -> None:
    async def run() -> None:
        program = Program()
        await program.start()
        with pytest.raises(EngineError, match='expected one call'):
            await program.start()
        await program.supervisor.close()

    run_virtual(run())


def test_a_first_start_that_fails_is_not_repeated() -> None:
    async def run() -> None:
        program = Program(0)
        with pytest.raises(ModelLoadError, match='no room'):
            await program.start()
        await asyncio.sleep(60.0)
        assert len(program.starts_s) == 1
        await program.supervisor.close()

    run_virtual(run())
