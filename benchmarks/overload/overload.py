"""What is earned when more is asked than can be served, on virtual time.

    .venv/bin/python -m benchmarks.overload.overload [--loads 0.5 1 3 5 10 20] [--seeds 20]
        [--duration 60] [--robots 150 10] [--max-running 8] [--only ours ...] [--json FILE]

A load of 1 is WID2's: 2.1 tasks per second in bursts of up to 16, three of eight urgent; fewer
robots than its 42 have so many bursts less. With 150 robots the engine is the bottleneck (preset
``toy``), with 10 the robots are. Each task names the robot with fewest open tasks and queues
there. Goodput is positive utility per second of the plans that were executed, a response counted
from when its task came; what was refused, dropped or late earns 0. ``ours`` is the node's default
with tasks that have the floor 0. Every policy is served as it is and with the same early dropping;
only ``ours`` refuses. No schedule earns more than the bound, which knows what will come and may
refuse; none that serves the tasks on the robots that they named in a run, more than that run's.

The planner, the scheduler, the segmenters and the executors are the real ones.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks.common import COUNT, POSITIVE, Target, arguments, save
from benchmarks.overload.goodput_bound import greatest_goodput
from benchmarks.overload.named_bound import greatest_named
from benchmarks.overload.serving import Way, goodput, overload, serve
from benchmarks.workloads import System
from lrtrace.statistics import percentile
from timely_llm_ros.engines.simulated import find_hardware
from timely_llm_ros.planner import PlannerConfig
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OURS = 'ours'
TAKES_ALL = PlannerConfig(refuses_by_worth=False)
FIXED = SchedulingOptions(admission='fixed')


def ways(max_running: int) -> dict[str, Way]:
    """Return the ways to serve, by name."""
    found = {}
    default = System('lookahead', policy='least_loss', max_running=max_running)
    systems = {'lookahead': default} | {
        policy: System(policy, policy=policy, max_running=max_running, scheduling=FIXED)
        for policy in ('least_loss', 'utility', 'edf', 'fcfs')
    }
    for name, system in systems.items():
        found[name] = Way(system, config=TAKES_ALL)
        found[f'{name}, drops'] = Way(system, drops=True, config=TAKES_ALL)
    found[OURS] = Way(default, drops=True)
    return found


@dataclass(frozen=True, slots=True)
class Earned:
    """What one way earned at one load, over all draws.

    Attributes:
        way: Its name.
        robots: How many the fleet has.
        load: The load, WID2's being 1.
        goodput: Positive utility per second, mean over draws.
        spread: Its standard deviation over draws.
        utility: Mean utility of all tasks; 0 for what was not served.
        tasks: How many came.
        codes: How many goals ended with which code.
        late: Tasks that were served for less than nothing.
        urgent_p50_s: Median response of the urgent tasks that were served (s).
        urgent_p99_s: The same, 99 % (s).
        kept: Share of the promised responses that were kept; None where nothing was promised.
        named: What the robots could not have earned more than with the tasks that named them
            (utility/s, mean over draws).
    """

    way: str
    robots: int
    load: float
    goodput: float
    spread: float
    utility: float
    tasks: int
    codes: dict[int, int]
    late: int
    urgent_p50_s: float
    urgent_p99_s: float
    kept: float | None
    named: float


def earned(
    name: str, way: Way, load: float, *, seeds: Sequence[int], duration_s: float, robots: int
) -> Earned:
    """Serve every draw of one load in one way."""
    goodputs, named, found, promises = [], [], [], Counter[bool]()
    times = find_hardware('toy').step_time
    for seed in seeds:
        workload = overload(load, duration_s=duration_s, robots=robots, seed=seed)
        outcomes = serve(workload, way)
        goodputs.append(goodput(outcomes, duration_s))
        tasks = [(one.robot, one.task) for one in outcomes]
        named.append(greatest_named(tasks, workload.groups, times) / duration_s)
        found += outcomes
        promises.update(kept for one in outcomes if (kept := one.kept) is not None)
    urgent = [
        one.response_s
        for one in found
        if one.task.group == 'urgent' and not one.code and one.response_s is not None
    ]
    return Earned(
        name,
        robots,
        load,
        statistics.fmean(goodputs),
        statistics.stdev(goodputs) if len(goodputs) > 1 else 0.0,
        statistics.fmean(one.utility for one in found),
        len(found),
        dict(Counter(one.code for one in found)),
        sum(one.utility < 0 for one in found),
        percentile(urgent, 0.5),
        percentile(urgent, 0.99),
        promises[True] / promises.total() if promises else None,
        statistics.fmean(named),
    )


def show(one: Earned) -> None:
    """Print a line of the table."""
    kept = '' if one.kept is None else f'{one.kept:.3f}'
    print(
        f'{one.way:18} {one.robots:6} {one.load:5g} {one.goodput:8.2f} {one.spread:6.2f} '
        f'{one.utility:8.2f} {one.tasks:6} {one.codes.get(0, 0):6} {one.late:5} '
        f'{one.urgent_p50_s:7.2f} {one.urgent_p99_s:7.2f} {kept:>6} {one.named:7.2f}',
        flush=True,
    )


@dataclass(frozen=True, slots=True)
class Bound:
    """What no schedule earns more than, mean over draws (utility/s)."""

    robots: int
    load: float
    goodput: float


def bound(
    load: float, *, seeds: Sequence[int], duration_s: float, robots: int, max_running: int
) -> Bound:
    """Bound what could be earned at one load."""
    times = find_hardware('toy').step_time
    most = [
        greatest_goodput(
            overload(load, duration_s=duration_s, robots=robots, seed=seed), times, max_running
        )
        for seed in seeds
    ]
    return Bound(robots, load, statistics.fmean(most) / duration_s)


def targets(found: Sequence[Earned], bounds: Sequence[Bound]) -> list[Target]:
    """Return what should have been found of our way, for each fleet."""
    made = []
    for robots in dict.fromkeys(one.robots for one in found):
        fleet = [one for one in found if one.robots == robots]
        most = {one.load: one.goodput for one in bounds if one.robots == robots}
        made += _targets(f'{robots} robots', fleet, most)
    return made


def _targets(fleet: str, found: Sequence[Earned], bounds: Mapping[float, float]) -> list[Target]:
    ours = {one.load: one for one in found if one.way == OURS}
    if not ours:
        return []
    made = []
    others = {
        load: max((one.goodput for one in found if one.load == load and one.way != OURS), default=0)
        for load in ours
    }
    ahead = {load: one.goodput / others[load] for load, one in ours.items() if others[load]}
    if ahead:
        load = min(ahead, key=ahead.__getitem__)
        made.append(
            Target(f'{fleet}: over the best other, least (load {load:g})', ahead[load], '>=', 1.0)
        )
    shares = {load: one.goodput / bounds[load] for load, one in ours.items() if bounds.get(load)}
    if shares:
        load = min(shares, key=shares.__getitem__)
        made.append(
            Target(f'{fleet}: of the bound, least (load {load:g})', shares[load], '>=', 0.85)
        )
    kept = [one.kept for one in ours.values() if one.kept is not None]
    if kept:
        made.append(Target(f'{fleet}: promises kept, least', min(kept), '>=', 0.85))
        made.append(Target(f'{fleet}: promises kept, most', max(kept), '<=', 0.95))
    most = max(one.goodput for one in ours.values())
    for load, share in ((10, 0.95), (20, 0.9)):
        if load in ours:
            of_most = ours[load].goodput / most
            made.append(Target(f'{fleet}, load {load}: of the most goodput', of_most, '>=', share))
    if 10 in ours and 1 in ours:
        times = ours[10].urgent_p99_s / ours[1].urgent_p99_s
        made.append(Target(f'{fleet}, load 10: urgent p99 over that at 1', times, '<=', 1.5))
    return made


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--loads', type=POSITIVE, nargs='+', default=[0.5, 1, 2, 3, 5, 10, 20])
    parser.add_argument('--seeds', type=COUNT, default=20)
    parser.add_argument('--duration', type=POSITIVE, default=60.0, help='virtual seconds')
    parser.add_argument('--robots', type=COUNT, nargs='+', default=[150, 10])
    parser.add_argument('--max-running', type=COUNT, default=8)
    parser.add_argument('--only', nargs='+', choices=ways(8), default=list(ways(8)))
    options = parser.parse_args()
    print(
        f'{"way":18} {"robots":>6} {"load":>5} {"goodput":>8} {"(sd)":>6} {"mean U":>8} '
        f'{"tasks":>6} {"done":>6} {"U<0":>5} {"p50 s":>7} {"p99 s":>7} {"kept":>6} {"named":>7}'
    )
    found, bounds = [], []
    for robots, load in itertools.product(options.robots, options.loads):
        draws = {'seeds': range(options.seeds), 'duration_s': options.duration, 'robots': robots}
        for name in options.only:
            found.append(earned(name, ways(options.max_running)[name], load, **draws))
            show(found[-1])
        bounds.append(bound(load, max_running=options.max_running, **draws))
        print(f'{"bound":18} {robots:6} {load:5g} {bounds[-1].goodput:8.2f}', flush=True)
    figures = {
        'seeds': options.seeds,
        'duration_s': options.duration,
        'max_running': options.max_running,
        'earned': [asdict(one) for one in found],
        'bounds': [asdict(one) for one in bounds],
    }
    save('overload', figures, targets(found, bounds), path=options.json)


if __name__ == '__main__':
    main()
