"""One segment executor on virtual time, with a driver that writes down what it is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.execution import (
    ExecutorLimits,
    SegmentExecutor,
    SegmentOutcome,
    SegmentProgress,
)
from timely_llm_ros.skills import Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.testing import EXACT_SCENE, EXACT_SKILLS, Note, RecordingDriver
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DEFAULT_LIMITS = ExecutorLimits()


class Bench:
    """One executor with its driver; ``run`` starts a segment."""

    def __init__(self, limits: ExecutorLimits = DEFAULT_LIMITS) -> None:
        self.journal: list[Note] = []
        self.progress: list[tuple[float, SegmentProgress]] = []
        self.driver = RecordingDriver(EXACT_SKILLS, 'r1', self._write_down)
        self.executor = SegmentExecutor(self.driver, EXACT_SKILLS, LoopClock(), limits)

    async def start(self) -> None:
        """Connect; what comes after is noted."""
        await self.executor.start()
        self.journal.clear()

    def run(
        self, text: str, index: int = 0, plan: str = 'p', *, awaits_value: bool = False
    ) -> asyncio.Task[SegmentOutcome]:
        statements = parse(text, EXACT_SKILLS, EXACT_SCENE)
        segment = Segment(index, text, statements, 1, awaits_value=awaits_value)
        loop = asyncio.get_running_loop()
        return loop.create_task(self.executor.execute(plan, segment, EXACT_SCENE, self._note))

    def _write_down(self, note: Note) -> None:
        self.journal.append(note)

    def _note(self, progress: SegmentProgress) -> None:
        self.progress.append((asyncio.get_running_loop().time(), progress))

    @property
    def notes(self) -> list[tuple[float, str, str]]:
        return [(round(note.at_s, 6), note.event, note.call) for note in self.journal]

    @property
    def calls(self) -> list[str]:
        return [note.call for note in self.journal if note.event == 'start']


def on_bench(body: Callable[[Bench], Awaitable[None]], **limits: Any) -> Bench:
    async def main() -> Bench:
        bench = Bench(ExecutorLimits(**limits))
        await bench.start()
        await body(bench)
        await bench.executor.close()
        return bench

    return run_virtual(main())
