"""Serves workloads for the experiments and shows how far it is.

Experiments of one call share runs of the same system on the same draw. Nothing is kept on disk:
every call computes all that it shows.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.timelyllm.comparison import Summary, mean, summarise
from benchmarks.workloads import (
    WORKLOADS,
    ServedTask,
    System,
    check_all_succeeded,
    compose,
    run_workload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

T = TypeVar('T')


@dataclass(frozen=True, slots=True)
class Found:
    """How a system fared on a workload: means over all draws.

    Attributes:
        system: The system.
        groups: By group of tasks.
        kinds: By kind of task.
    """

    system: System
    groups: Summary
    kinds: Summary


@dataclass(frozen=True, slots=True)
class Best:
    """A way to serve at its own best largest batch."""

    label: str
    cap: int | None
    found: Found

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.label if self.cap is None else f'{self.label}, batch {self.cap}'


class Runs:
    """Runs of one call.

    Args:
        seeds: Which draws of every workload.
        hardware: Name of the preset that says how long engine steps take.
        console: Where progress is shown.
    """

    def __init__(self, seeds: Sequence[int], hardware: str, console: Console) -> None:
        self.seeds, self.hardware = seeds, hardware
        self._console = console
        self._done: dict[tuple[System, str, int], tuple[Summary, Summary]] = {}
        self._progress: Progress | None = None

    @contextmanager
    def experiment(self, title: str) -> Iterator[None]:
        """Show the progress of what runs inside."""
        columns = (
            TextColumn('{task.description}'),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as self._progress:
            self._console.print(f'[bold]{title}')
            yield
        self._progress = None

    def each(self, label: str, run: Callable[[int], T]) -> list[T]:
        """Return what ``run`` gives for every seed."""
        if self._progress is None:
            return [run(seed) for seed in self.seeds]
        bar = self._progress.add_task(label, total=len(self.seeds))
        results = []
        for seed in self.seeds:
            results.append(run(seed))
            self._progress.advance(bar)
        self._progress.remove_task(bar)
        return results

    def serve(self, system: System, workload: str) -> Found:
        """Return the means over all draws of a workload, each run at most once per call."""

        def run(seed: int) -> tuple[Summary, Summary]:
            key = system, workload, seed
            if key not in self._done:
                self._done[key] = self._run(system, workload, seed)
            return self._done[key]

        done = self.each(f'{workload}: {system.name}', run)
        return Found(system, mean([item[0] for item in done]), mean([item[1] for item in done]))

    def best(
        self, label: str, make: Callable[[int], System], caps: Sequence[int], workload: str
    ) -> Best:
        """Return a way to serve at that largest batch which gives most utility on a workload."""
        found = {cap: self.serve(make(cap), workload) for cap in caps}
        cap = max(caps, key=lambda cap: found[cap].groups.utility)
        return Best(label, cap, found[cap])

    def _run(self, system: System, workload: str, seed: int) -> tuple[Summary, Summary]:
        drawn = compose(WORKLOADS[workload], seed)
        records = run_workload(drawn, system, hardware=self.hardware)
        check_all_succeeded(records)
        utilities = {record.task.kind: drawn.groups[record.task.group] for record in records}
        return summarise(records, drawn.groups), summarise(
            [_by_kind(record) for record in records], dict(sorted(utilities.items()))
        )


def _by_kind(record: ServedTask) -> ServedTask:
    return replace(record, task=replace(record.task, group=record.task.kind))
