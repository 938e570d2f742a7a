"""Serves many chats in virtual time with what was really predicted of a general model's answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from benchmarks.field import BoostedYoungFirst
from benchmarks.trail import PACE_S, Replayed, Way, draw_plans, serve
from timely_llm_ros.scheduling import POLICIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.trail import Spoken

LOADS = (0.7, 0.9, 1.1)
"""Arrivals per second as shares of what the places can do."""

AT = 0.9
"""The load of the targets: fcfs queues, and the queue does not grow for ever."""

SLOTS = 8
FCFS, PROMPT, TRAIL, ORACLE, TAILS = (
    'fcfs', 'sjf, prompt only', 'trail', 'srpt, oracle', 'tail-aware',
)  # fmt: skip
LENT = 'edf'
"""The name under which the tail-aware policy is served, because it is none of the package's."""

SYSTEMS: tuple[tuple[str, str, Way, float], ...] = (
    (FCFS, 'fcfs', 'none', 0.0),
    (PROMPT, 'srpt', 'prompt', 0.0),
    (TRAIL, 'srpt', 'probe', 0.8),
    (ORACLE, 'srpt', 'truth', 1.0),
    (TAILS, LENT, 'none', 0.0),
)
"""Name, policy, what it knows of lengths, and the share of an answer in which it is preempted."""

GAMMAS_PER_S = (0.03, 0.1, 0.3)
"""Of the tail-aware policy, to choose from by p99 on draws that do not judge."""


@dataclass(frozen=True, slots=True)
class Replays:
    """Many chats, served by every system at every load.

    Attributes:
        runs: Mean over draws, by system and load.
        gammas_per_s: Chosen for the tail-aware policy, by load.
        gains: Mean latency of fcfs over TRAIL's, of each draw at the load of the targets.
    """

    runs: dict[tuple[str, float], Replayed]
    gammas_per_s: dict[float, float]
    gains: list[float]

    def over(self, system: str, other: str, what: str) -> float:
        """Return how many times as long a system takes as another, at the load of the targets."""
        above, below = (getattr(self.runs[it, AT], what) for it in (system, other))
        return float(above / below)

    def rows(self) -> list[dict[str, Any]]:
        """Return the runs as rows."""
        return [
            {'system': system, 'load': load, **asdict(run)}
            for (system, load), run in self.runs.items()
        ]


def replay(known: Sequence[Spoken], count: int, draws: int) -> Replays:
    """Serve ``count`` chats drawn from the known answers, by every system and ``draws`` times."""
    runs: dict[tuple[str, float], Replayed] = {}
    gammas: dict[float, float] = {}
    gains: list[float] = []
    for load in LOADS:
        gammas[load] = min(
            GAMMAS_PER_S,
            key=lambda gamma: _serve(SYSTEMS[-1], gamma, known, count, load, draws).p99_s,
        )
        by = {
            system[0]: [
                _serve(system, gammas[load], known, count, load, seed) for seed in range(draws)
            ]
            for system in SYSTEMS
        }
        runs |= {(name, load): Replayed.mean(found) for name, found in by.items()}
        if load == AT:
            pairs = zip(by[FCFS], by[TRAIL], strict=True)
            gains = [fcfs.mean_s / trail.mean_s for fcfs, trail in pairs]
        for name in by:
            run = runs[name, load]
            print(
                f'load {load:g} {name:18} mean {run.mean_s:6.2f} s, p99 {run.p99_s:7.2f}; first '
                f'token {run.first_mean_s:6.2f} s, p99 {run.first_p99_s:7.2f}',
                flush=True,
            )
    return Replays(runs, gammas, gains)


def _serve(
    system: tuple[str, str, Way, float], gamma_per_s: float, known: Sequence[Spoken], count: int,
    load: float, seed: int,
) -> Replayed:  # fmt: skip
    _, policy, way, share = system
    per_s = load * SLOTS / (fmean(answer.length for answer in known) * PACE_S)
    boosted = BoostedYoungFirst(gamma_per_s=gamma_per_s, step_s=PACE_S)
    with patch.dict(POLICIES, {LENT: boosted}):
        return serve(
            *draw_plans(known, count, per_s, seed), policy=policy, way=way, share=share,
            slots=SLOTS, step_s=PACE_S,
        )  # fmt: skip
