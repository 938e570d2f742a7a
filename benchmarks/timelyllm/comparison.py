"""Compares systems over many draws of a workload: means and spreads, as tables."""

from __future__ import annotations

import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from benchmarks.workloads import WORKLOADS, System, check_all_succeeded, compose, run_workload
from timely_llm_ros.engines.simulated import find_hardware
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.workloads import ServedTask
    from timely_llm_ros.evaluation import Workload
    from timely_llm_ros.utility import TimeUtility

PAPER = SchedulingOptions(
    admission='fixed',
    interrupts=False,
    age_bound_s=None,
    network_s=0.008,
    profiled_generation_s=0.09,
)
"""Scheduling as TimelyLLM describes it, at a fixed largest batch."""


def whole_plan(cap: int) -> System:
    """Return vLLM as it is: first come first served, a plan is sent when it is complete."""
    return System(f'whole_plan cap {cap}', 'whole_plan', max_running=cap)


def stream(cap: int) -> System:
    """Return vLLM that sends each action at once and never suspends."""
    return System(f'stream cap {cap}', 'stream', max_running=cap)


def paper(policy: str, cap: int) -> System:
    """Return segmented serving as in the paper, with a policy and a fixed batch."""
    return System(f'paper {policy} cap {cap}', policy=policy, max_running=cap, scheduling=PAPER)


def paper_admission(admission: str, cap: int = 12) -> System:
    """Return the paper's policy with its admission rule: ``printed`` or ``feasible``."""
    match admission:
        case 'printed':
            scheduling = replace(PAPER, admission='printed')
        case 'feasible':
            scheduling = replace(PAPER, admission='feasible')
        case _:
            raise ValueError(f"admission {admission!r}: expected 'printed' or 'feasible'")
    return System(f'paper {admission}', max_running=cap, scheduling=scheduling)


def paper_cost_s(workload: Workload) -> float:
    """Return what one task costs the paper's engine (s), in the mean."""
    times = find_hardware('toy').step_time
    return statistics.fmean(
        times.prefill_s + task.tokens * times.decode_s for task in workload.tasks
    )


LOOKAHEAD = SchedulingOptions(network_s=0.008)
"""Scheduling as this project does it where it is asked to."""


def lookahead(cap: int = 32) -> System:
    """Return this project's own way: whoever loses most first, joined by whoever gains."""
    return System('lookahead', policy='least_loss', max_running=cap, scheduling=LOOKAHEAD)


def least_loss_fixed(cap: int) -> System:
    """Return the same policy at a fixed batch, without a say of who joins."""
    scheduling = replace(LOOKAHEAD, admission='fixed')
    name = f'least_loss cap {cap}'
    return System(name, policy='least_loss', max_running=cap, scheduling=scheduling)


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Means over one group's tasks.

    Attributes:
        tasks: How many there were.
        utility: Time utility of the response, as a share of its peak; may be negative.
        response_s: Response time (s).
        waiting_s: Waiting time (s).
        completion_s: Completion time (s).
    """

    tasks: int
    utility: float
    response_s: float
    waiting_s: float
    completion_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    """How one run went, or the mean of several.

    Attributes:
        groups: By group name.
        utility: Mean time utility over all tasks.
        waiting_s: Mean waiting time over all tasks (s).
        spread: Standard deviation of ``utility`` over the runs; 0 for one.
    """

    groups: Mapping[str, GroupSummary] = field(hash=False)
    utility: float
    waiting_s: float
    spread: float = 0.0


def summarise(records: Sequence[ServedTask], groups: Mapping[str, TimeUtility]) -> Summary:
    """Return the means over one run's tasks."""
    by_group = {}
    for name, utility in groups.items():
        results = [record.result for record in records if record.task.group == name]
        if results:
            by_group[name] = GroupSummary(
                len(results),
                statistics.fmean(result.utility for result in results) / utility.peak,
                statistics.fmean(result.response_s or 0.0 for result in results),
                statistics.fmean(result.waiting_s for result in results),
                statistics.fmean(result.completion_s for result in results),
            )
    return Summary(
        by_group,
        statistics.fmean(record.result.utility for record in records),
        statistics.fmean(record.result.waiting_s for record in records),
    )


def mean(summaries: Sequence[Summary]) -> Summary:
    """Return the mean of several runs, each weighing the same."""
    names = dict.fromkeys(name for summary in summaries for name in summary.groups)
    groups = {}
    for name in names:
        parts = [summary.groups[name] for summary in summaries if name in summary.groups]
        groups[name] = GroupSummary(
            sum(part.tasks for part in parts),
            statistics.fmean(part.utility for part in parts),
            statistics.fmean(part.response_s for part in parts),
            statistics.fmean(part.waiting_s for part in parts),
            statistics.fmean(part.completion_s for part in parts),
        )
    utilities = [summary.utility for summary in summaries]
    return Summary(
        groups,
        statistics.fmean(utilities),
        statistics.fmean(summary.waiting_s for summary in summaries),
        statistics.stdev(utilities) if len(utilities) > 1 else 0.0,
    )


def run_seed(
    system: System, workload: str, hardware: str, seed: int, *, from_free_robot: bool = False
) -> Summary:
    """Serve one draw of a workload and return its means.

    Raises:
        TimelyError: A task ended with an error.
    """
    drawn = compose(WORKLOADS[workload], seed)
    records = run_workload(drawn, system, hardware=hardware, from_free_robot=from_free_robot)
    check_all_succeeded(records)
    return summarise(records, drawn.groups)


def compare(
    systems: Iterable[System],
    workload: str,
    *,
    seeds: Sequence[int],
    hardware: str = 'toy',
    processes: int = 1,
    from_free_robot: bool = False,
) -> dict[str, Summary]:
    """Return each system's means over the seeds, by the system's name.

    Args:
        systems: What to compare; each serves the same draws.
        workload: Name of the workload.
        seeds: Which draws.
        hardware: Name of the preset that says how long engine steps take.
        processes: How many to run at a time; the results do not depend on it.
        from_free_robot: As :func:`run_workload` has it.

    Raises:
        TimelyError: A task ended with an error.
    """
    chosen = list(systems)
    jobs = list(product(chosen, seeds))
    run = partial(_run_job, workload, hardware, from_free_robot)
    if processes == 1:
        done = list(map(run, jobs))
    else:
        with ProcessPoolExecutor(processes) as pool:
            done = list(pool.map(run, jobs))
    each = len(seeds)
    return {
        system.name: mean(done[place * each : (place + 1) * each])
        for place, system in enumerate(chosen)
    }


def _run_job(
    workload: str, hardware: str, from_free_robot: bool, job: tuple[System, int]
) -> Summary:
    system, seed = job
    return run_seed(system, workload, hardware, seed, from_free_robot=from_free_robot)


def table(summaries: Mapping[str, Summary]) -> str:
    """Return a table: utility (share of the peak), response and waiting of each group."""
    names = list(dict.fromkeys(name for item in summaries.values() for name in item.groups))
    width = max(map(len, summaries), default=6)
    head = f'{"system":<{width}}'
    for name in names:
        head += f' | U {name:>8} {"R s":>7} {"W s":>7}'
    lines = [head + f' | {"mean U":>8} {"(sd)":>8}']
    for system, summary in summaries.items():
        line = f'{system:<{width}}'
        for name in names:
            part = summary.groups.get(name)
            if part is None:
                line += f' | {"-":>10} {"-":>7} {"-":>7}'
            else:
                line += f' | {part.utility:10.3f} {part.response_s:7.3f} {part.waiting_s:7.3f}'
        lines.append(line + f' | {summary.utility:8.3f} {f"({summary.spread:.3f})":>8}')
    return '\n'.join(lines)
