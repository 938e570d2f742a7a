"""The ways in which the suites' tasks are served, and how they compare."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.timelyllm import LOOKAHEAD, PAPER, Summary, mean, summarise
from benchmarks.workloads import System, check_all_succeeded, run_workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from timely_llm_ros.evaluation import Workload

CAPS = (4, 6, 8, 12, 16, 24, 32)
OURS = 'least_loss, lookahead'
AT_MOST = ', at most '
"""Joins a way's name and its largest batch."""

OTHERS = ('fcfs', 'edf', 'utility')


def systems(caps: Iterable[int] = CAPS) -> list[System]:
    """Return what is compared: ours, and each other policy at each largest batch.

    The others are scheduled as TimelyLLM describes it. The policy ``utility`` also has our options
    in their place, which make no difference to ``fcfs`` and ``edf``.
    """
    ours = replace(LOOKAHEAD, admission='fixed')
    ways = [(policy, policy, PAPER) for policy in OTHERS]
    ways.append(('utility', 'utility, our options', ours))
    return [System(OURS, policy='least_loss', max_running=32, scheduling=LOOKAHEAD)] + [
        System(f'{name}{AT_MOST}{cap}', policy=policy, max_running=cap, scheduling=options)
        for policy, name, options in ways
        for cap in caps
    ]


def serve(system: System, workloads: Iterable[Workload], hardware: str) -> Summary:
    """Return how a system serves several draws, each weighing the same."""
    found = []
    for workload in workloads:
        records = run_workload(workload, system, hardware=hardware)
        check_all_succeeded(records)
        found.append(summarise(records, workload.groups))
    return mean(found)


def best_of(utilities: Mapping[str, float]) -> list[str]:
    """Return each way's system at the largest batch with which it earns most."""
    best: dict[str, str] = {}
    for name, utility in utilities.items():
        way = name.partition(AT_MOST)[0]
        if way not in best or utility > utilities[best[way]]:
            best[way] = name
    return list(best.values())
