"""Our way to serve against the rankings of other systems, on virtual time.

    .venv/bin/python -m benchmarks.field.field [--workloads wid1 others] [--loads 0.5 1 2 3]
        [--seeds 20] [--searched 2] [--bursts 15] [--only kairos ...] [--json FILE]

A load of 1 is the workload of TimelyLLM's table 3; others have so many times its bursts. The
workload ``others`` has the right plans of VirtualHome and BEHAVIOR, at a load of 1 one a second. A
draw lasts until a load of 1 has had so many bursts on average. Each task
names the robot with fewest open tasks and queues there; its utility counts from when it came. All
tasks have the floor 0, so what is worth nothing any more is dropped under every policy.

``ours`` is the node's default at batches of up to 16 and is not tuned. Every other policy stands at
its own best setting for the workload and the load, searched on other draws: a batch of 2, 4, 6, 8
or 16 or the feasible batch up to 8, then whether segments are interrupted, then whether tasks are
refused by their worth. The rankings are served once more under our admission, where they differ
from ours in nothing else. Each workload has a file of results. *In time* are tasks whose response
still earned something. Errors are standard errors of the mean over draws, those of differences of
the differences draw by draw.

The planner, the scheduler, the segmenters and the executors are the real ones.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from benchmarks.common import COUNT, POSITIVE, Target, arguments, save, standard_error
from benchmarks.field import LENT_OURS, OURS
from benchmarks.field.policies import FIELD
from benchmarks.overload import Way, greatest_goodput, serve
from benchmarks.workloads import (
    EVENTS_PER_TASK,
    ROBOTS,
    WORKLOADS,
    System,
    compose,
    compose_of_others,
    shapes_of_others,
)
from lrtrace.statistics import percentile
from timely_llm_ros.engines.simulated import find_hardware
from timely_llm_ros.planner import PlannerConfig
from timely_llm_ros.scheduling import POLICIES, Admission, SchedulingOptions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from timely_llm_ros.evaluation import Workload

OTHERS = (*FIELD, 'fcfs', 'edf', 'utility')
PLANS_OF_OTHERS = 'others'
HARDWARE = 'toy'
LARGEST_BATCH = 16
FIRST_SEARCHED_SEED = 1000
LENT = 'fcfs'
"""The name under which a policy is served that is none of ours."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a policy is served.

    Attributes:
        admission: Who runs together.
        max_running: The largest batch.
        interrupts: Whether a segment in the making may be interrupted.
        refuses: Whether tasks are refused by their worth.
    """

    admission: Admission = 'lookahead'
    max_running: int = LARGEST_BATCH
    interrupts: bool = False
    refuses: bool = True

    def __str__(self) -> str:
        words = [f'{self.admission} {self.max_running}']
        words += ['interrupts'] * self.interrupts + ['takes all'] * (not self.refuses)
        return ', '.join(words)

    def way(self, policy: str) -> Way:
        """Return how to serve with a policy."""
        scheduling = SchedulingOptions(admission=self.admission, interrupts=self.interrupts)
        system = System(policy, policy=policy, max_running=self.max_running, scheduling=scheduling)
        return Way(system, drops=True, config=PlannerConfig(refuses_by_worth=self.refuses))


BATCHES = (
    Setting('fixed', 2),
    Setting('fixed', 4),
    Setting('fixed', 6),
    Setting('fixed', 8),
    Setting('fixed', LARGEST_BATCH),
    Setting('feasible', 8),
)
"""What a policy's admission is searched among, without our own."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A workload at a load.

    Attributes:
        workload: Its name.
        load: How many times its bursts.
        duration_s: For how long tasks come (s).
    """

    workload: str
    load: float
    duration_s: float

    def draw(self, seed: int) -> Workload:
        """Draw the tasks."""
        if self.workload == PLANS_OF_OTHERS:
            return compose_of_others(shapes_of_others(), self.load, ROBOTS, self.duration_s, seed)
        spec = WORKLOADS[self.workload]
        return compose(
            replace(spec, events_per_s=self.load * spec.events_per_s, duration_s=self.duration_s),
            seed,
        )


@dataclass(frozen=True, slots=True)
class Draw:
    """What a policy made of one draw.

    Attributes:
        utility: Mean utility of all tasks; 0 for what was not served.
        in_time_per_s: Tasks per second whose response earned something.
        earned_per_s: Positive utility per second.
        responses_s: Responses of those served, of the urgent ones where there are any (s).
    """

    utility: float
    in_time_per_s: float
    earned_per_s: float
    responses_s: tuple[float, ...]


def events_per_s(workload: str) -> float:
    """Return how many bursts a workload has at a load of 1."""
    if workload == PLANS_OF_OTHERS:
        return EVENTS_PER_TASK
    return WORKLOADS[workload].events_per_s


def serve_draw(cell: Cell, seed: int, policy: str, setting: Setting) -> Draw:
    """Serve one draw."""
    workload = cell.draw(seed)
    # An engine's options know the policies that are installed, so these take the place of one.
    place = LENT if policy in FIELD else policy
    with patch.dict(POLICIES, {place: FIELD.get(policy) or POLICIES[place]}):
        outcomes = serve(workload, setting.way(place), hardware=HARDWARE)
    worth = [one.utility for one in outcomes]
    shown = 'urgent' if 'urgent' in workload.groups else 'normal'
    return Draw(
        statistics.fmean(worth) if worth else 0.0,
        sum(value > 0 for value in worth) / cell.duration_s,
        sum(max(0.0, value) for value in worth) / cell.duration_s,
        tuple(
            one.response_s
            for one in outcomes
            if one.task.group == shown and not one.code and one.response_s is not None
        ),
    )


def best_setting(cell: Cell, policy: str, seeds: Sequence[int]) -> Setting:
    """Return the setting of greatest mean utility, one choice after the other."""

    @cache
    def utility(setting: Setting) -> float:
        return statistics.fmean(serve_draw(cell, it, policy, setting).utility for it in seeds)

    best = max(BATCHES, key=utility)
    best = max((best, replace(best, interrupts=True)), key=utility)
    return max((best, replace(best, refuses=False)), key=utility)


@dataclass(frozen=True, slots=True)
class Row:
    """How a policy fared in one cell, mean over draws.

    Attributes:
        workload: The workload.
        load: Its load.
        policy: The policy.
        setting: The setting it stands at.
        utility: Mean utility of all tasks.
        in_time_per_s: Tasks in time per second.
        share: Positive utility as a share of the bound.
        p99_s: 99 % of the responses of urgent tasks served, of all where none is urgent (s).
        behind: By how much its mean utility is behind ours.
        behind_error: Standard error of that.
        fewer: By how many tasks in time per second it is behind ours.
        fewer_error: Standard error of that.
    """

    workload: str
    load: float
    policy: str
    setting: str
    utility: float
    in_time_per_s: float
    share: float
    p99_s: float
    behind: float
    behind_error: float
    fewer: float
    fewer_error: float


def measure(cell: Cell, policies: Iterable[str], seeds: range, searched: int) -> list[Row]:
    """Serve one cell with ours and with every other policy at its best setting."""
    other_seeds = range(FIRST_SEARCHED_SEED, FIRST_SEARCHED_SEED + searched)
    times = find_hardware(HARDWARE).step_time
    most = statistics.fmean(
        greatest_goodput(cell.draw(seed), times, LARGEST_BATCH) / cell.duration_s for seed in seeds
    )
    ours = [serve_draw(cell, seed, 'least_loss', Setting()) for seed in seeds]
    rows = [_row(cell, OURS, Setting(), ours, ours, most)]
    show(rows[-1])
    for policy in policies:
        setting = best_setting(cell, policy, other_seeds)
        draws = [serve_draw(cell, seed, policy, setting) for seed in seeds]
        rows.append(_row(cell, policy, setting, draws, ours, most))
        show(rows[-1])
        draws = [serve_draw(cell, seed, policy, Setting()) for seed in seeds]
        rows.append(_row(cell, policy + LENT_OURS, Setting(), draws, ours, most))
        show(rows[-1])
    return rows


def _row(
    cell: Cell,
    policy: str,
    setting: Setting,
    draws: Sequence[Draw],
    ours: Sequence[Draw],
    most: float,
) -> Row:
    pairs = list(zip(ours, draws, strict=True))
    behind = [mine.utility - theirs.utility for mine, theirs in pairs]
    fewer = [mine.in_time_per_s - theirs.in_time_per_s for mine, theirs in pairs]
    earned = statistics.fmean(draw.earned_per_s for draw in draws)
    return Row(
        cell.workload,
        cell.load,
        policy,
        str(setting),
        statistics.fmean(draw.utility for draw in draws),
        statistics.fmean(draw.in_time_per_s for draw in draws),
        earned / most if most else 1.0,
        percentile([it for draw in draws for it in draw.responses_s], 0.99),
        statistics.fmean(behind),
        standard_error(behind),
        statistics.fmean(fewer),
        standard_error(fewer),
    )


def show(row: Row) -> None:
    """Print a line of the table."""
    print(
        f'{row.workload:5} {row.load:4g} {row.policy:22} {row.utility:7.3f} '
        f'{row.behind:7.3f} ±{row.behind_error:.3f} {row.in_time_per_s:7.3f} '
        f'{row.fewer:7.3f} ±{row.fewer_error:.3f} {row.share:6.3f} {row.p99_s:6.2f}  '
        f'{row.setting}',
        flush=True,
    )


def targets(rows: Sequence[Row], bursts: float) -> list[Target]:
    """Return by how much ours is ahead, cell by cell, of whichever other is nearest to it."""
    made = []
    for (workload, load), group in itertools.groupby(rows, lambda row: (row.workload, row.load)):
        others = [row for row in group if row.policy != OURS]
        for lent, who in ((False, 'the field'), (True, 'rankings under our admission')):
            rivals = [row for row in others if row.policy.endswith(LENT_OURS) == lent]
            if not rivals:
                continue
            cell = f'{workload} for {bursts:g} bursts, load {load:g}'
            near = min(rivals, key=lambda row: row.behind)
            name = f'{cell}: mean utility ahead of {who} ({near.policy}, ±{near.behind_error:.3f})'
            made.append(Target(name, near.behind, '>=', 0.0))
            near = min(rivals, key=lambda row: row.fewer)
            name = f'{cell}: in time per s ahead of {who} ({near.policy}, ±{near.fewer_error:.3f})'
            made.append(Target(name, near.fewer, '>=', 0.0))
    return made


def read_draws(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the command line, with how much is drawn."""
    add = parser.add_argument
    add('--seeds', type=COUNT, default=20)
    add('--searched', type=COUNT, default=2, help='draws on which settings or a TTL are found')
    add('--bursts', type=POSITIVE, default=15.0, help='of a draw at load 1')
    return parser.parse_args()


def figures_of(
    options: argparse.Namespace, hardware: str, rows: Iterable[dict[str, Any]]
) -> dict[str, Any]:
    """Return what is written into a file of results."""
    drawn = {name: getattr(options, name) for name in ('seeds', 'searched', 'bursts')}
    return {**drawn, 'hardware': hardware, 'rows': list(rows)}


def main() -> None:
    parser = arguments(__doc__)
    every = [*WORKLOADS, PLANS_OF_OTHERS]
    parser.add_argument('--workloads', nargs='+', choices=every, default=every)
    parser.add_argument('--loads', type=POSITIVE, nargs='+', default=[0.5, 1, 2, 3])
    parser.add_argument('--only', nargs='*', choices=OTHERS, default=list(OTHERS))
    options = read_draws(parser)
    if options.json and len(options.workloads) > 1:
        parser.error(f'--json {options.json}: expected one workload, as each has a file')
    if PLANS_OF_OTHERS in options.workloads:
        shapes_of_others()  # What is missing is told before hours of work.
    print(
        f'{"work":5} {"load":>4} {"policy":22} {"mean U":>7} {"behind":>7} {"":6} {"in time/s":>7} '
        f'{"fewer":>7} {"":6} {"share":>6} {"p99 s":>6}  setting'
    )
    for workload in options.workloads:
        rows: list[Row] = []
        duration_s = options.bursts / events_per_s(workload)
        for load in options.loads:
            cell = Cell(workload, load, duration_s)
            rows += measure(cell, options.only, range(options.seeds), options.searched)
        figures = figures_of(options, HARDWARE, map(asdict, rows))
        save(f'field_{workload}', figures, targets(rows, options.bursts), path=options.json)


if __name__ == '__main__':
    main()
