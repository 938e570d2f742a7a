"""Every job with every share of its prompt evicted: generated and timed a few times, on the real
model.

What an approach then chooses is looked up, so that all of them are judged on the same plans and
the same measured times, at as many budgets as one likes, and differences between approaches are
none of the machine's.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from timely_llm_ros.budget import FixedEviction

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from benchmarks.timebill.jobs import Job, Outcome, Server
    from timely_llm_ros.prediction.lengths import LengthDistribution

Item = TypeVar('Item')


class Predictor(Protocol):
    """Says how long an answer to a prompt will be."""

    def predict(self, fixed: str, body: str) -> LengthDistribution: ...


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a job with one share evicted.

    Attributes:
        total_s: From its arrival to its end (s), the median of its visits.
        length: Tokens generated, the end included.
        f1: Of its plan's calls.
        exact: Whether its plan is exactly right.
        visits_s: The same time as measured, once for each visit (s).
    """

    total_s: float
    length: int
    f1: float
    exact: bool
    visits_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A job, and what comes of it by the share that is evicted.

    Attributes:
        number: The job's.
        forecast: What was expected of its length.
        prompt_tokens: N_x.
        cached_tokens: How many of them every such job shares.
        prefill_s: From its arrival until its prompt is computed (s), when a budget decides.
        tried: One for each share of the grid.
    """

    number: int
    forecast: LengthDistribution
    prompt_tokens: int
    cached_tokens: int
    prefill_s: float
    tried: tuple[Tried, ...]


def record(
    server: Server,
    jobs: Sequence[Job],
    grid: Sequence[float],
    rng: random.Random,
    rlp: Predictor,
    *,
    times: int,
) -> tuple[list[Recorded], float]:
    """Do every job with every share, in random order, so that slow spells fall on all of them.

    Each is visited so many ``times`` and takes the median: else a busy moment of the machine, which
    is none of an approach's doing, decides which of two that chose alike is in time. Plans are the
    same at every visit. A prompt's time does not depend on the share that is evicted afterwards, so
    it is the median of all of its measurements; evicting takes what prompts took longer than those
    that kept all, in proportion to their tokens.

    Returns:
        The jobs, and the time that evicting takes for each token of a prompt (s).
    """
    visits = [(job.number, place) for job in jobs for place in range(len(grid))] * times
    rng.shuffle(visits)
    by_number = {job.number: job for job in jobs}
    found: dict[tuple[int, int], list[Outcome]] = {}
    for visit in progress(visits, 'jobs with each share'):
        rule = FixedEviction(grid[visit[1]])
        found.setdefault(visit, []).append(server.serve(by_number[visit[0]], rule))

    def prefill(job: Job, place: int) -> float:
        return statistics.median(it.prefill_s for it in found[job.number, place])

    evicting_token_s = max(
        0.0,
        statistics.median(
            (statistics.median(prefill(job, it) for it in range(1, len(grid))) - prefill(job, 0))
            / server.prompt_tokens(job)
            for job in jobs
        ),
    )
    rows = []
    for job in jobs:
        outcomes = [found[job.number, place] for place in range(len(grid))]
        prompt, cached = server.prompt_tokens(job), server.fixed_tokens(job)
        evicting_s = evicting_token_s * prompt
        prefill_s = statistics.median(
            outcome.prefill_s - evicting_s * (share > 0)
            for share, visited in zip(grid, outcomes, strict=True)
            for outcome in visited
        )
        tried = tuple(
            Tried(
                prefill_s
                + evicting_s * (share > 0)
                + statistics.median(it.total_s - it.prefill_s for it in visited),
                visited[0].length,
                visited[0].f1,
                visited[0].exact,
                tuple(it.total_s for it in visited),
            )
            for share, visited in zip(grid, outcomes, strict=True)
        )
        forecast = rlp.predict(job.prompt.fixed, job.prompt.body)
        rows.append(Recorded(job.number, forecast, prompt, cached, prefill_s, tried))
    return rows, evicting_token_s


def progress(items: Sequence[Item], name: str) -> Iterator[Item]:
    """Yield the items and say now and then how many are done."""
    every = max(1, len(items) // 10)
    for number, item in enumerate(items):
        if number % every == 0:
            print(f'{name}: {number}/{len(items)}', file=sys.stderr, flush=True)
        yield item
