"""How near our own way comes to what no schedule can exceed on the simulated engine.

Everything that helps is granted to a schedule: it knows what will come, the engine is free when
the tasks of a few bursts come, and nothing else is served until they have their first segments;
other tasks that came with them only add to what is chosen from (to begin one of those first would
cost its prompt, which is more). What is left is searched exactly: see ``best_value.py``.

When a task reaches the planner depends on when a robot is free, hence on how tasks before it were
served. So a bound is that of one run: of any order of serving the tasks when they reached it. What
a task lost while it waited for its robot no order gives back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.common import Target
from benchmarks.timelyllm.comparison import lookahead, summarise
from benchmarks.timelyllm.figures.best_value import Burst, best_value, clusters
from benchmarks.timelyllm.figures.experiment import Experiment, Result, Table
from benchmarks.workloads import (
    NETWORK_S,
    WORKLOADS,
    ServedTask,
    check_all_succeeded,
    compose,
    run_workload,
)
from timely_llm_ros.engines.simulated import StepTimeModel, find_hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from benchmarks.timelyllm.figures.runs import Runs
    from timely_llm_ros.utility import TimeUtility


def greatest_utility(
    records: Sequence[ServedTask], groups: Mapping[str, TimeUtility], times: StepTimeModel
) -> float:
    """Return the greatest mean utility of a run: urgent tasks at their best, others at their peak.

    Raises:
        ValueError: First segments of the urgent tasks differ in length.
    """
    urgent = [record for record in records if _urgent(record)]
    total = sum(groups[record.task.group].peak for record in records if not _urgent(record))
    if urgent:
        total += _best_sum(urgent, records, times, groups['urgent'].first)
    total -= sum(_least_loss(record, groups[record.task.group], times) for record in records)
    return total / len(records)


def _least_loss(record: ServedTask, utility: TimeUtility, times: StepTimeModel) -> float:
    """Return the least utility that a task loses by its wait for a robot.

    Utility falls ever more steeply, so it is least where the rest of the response is shortest.
    """
    rest_s = times.prefill_s + record.task.segments[0].tokens * times.decode_s + NETWORK_S
    return utility.first(rest_s) - utility.first(rest_s + record.queued_s)


def least_waiting_s(records: Sequence[ServedTask], times: StepTimeModel) -> float:
    """Return the least mean waiting time (s) of a run.

    Raises:
        ValueError: First segments differ in length.
    """
    queued_s = sum(record.queued_s for record in records)
    return (queued_s - _best_sum(records, records, times, _negative)) / len(records)


def _best_sum(
    counted: Sequence[ServedTask],
    records: Sequence[ServedTask],
    times: StepTimeModel,
    value: Callable[[float], float],
) -> float:
    """Return the greatest sum of values over those that count.

    Raises:
        ValueError: Their first segments differ in length.
    """
    tokens = {record.task.segments[0].tokens for record in counted}
    if len(tokens) > 1:
        raise ValueError(f'first segments of {sorted(tokens)} tokens: expected one length')
    (length,) = tokens or {0}
    everybody, moments = Counter(map(_moment, records)), Counter(map(_moment, counted))
    bursts = [Burst(at_s, count, everybody[at_s] - count) for at_s, count in moments.items()]
    return sum(best_value(group, length, times, value) for group in clusters(bursts))


def _moment(record: ServedTask) -> float:
    """Return when a task reached the planner (s)."""
    return round(record.task.at_s + record.queued_s, 6)


def _negative(response_s: float) -> float:
    return -response_s


def _urgent(record: ServedTask) -> bool:
    return record.task.group == 'urgent'


@dataclass(frozen=True, slots=True)
class Bound:
    """One draw of one workload."""

    workload: str
    seed: int
    utility: float
    greatest_utility: float
    waiting_s: float
    least_waiting_s: float | None


def run(runs: Runs) -> Result:
    """Serve every workload our own way and compare each run with its bound."""
    times = find_hardware(runs.hardware).step_time

    def one(workload: str, seed: int) -> Bound:
        drawn = compose(WORKLOADS[workload], seed)
        records = run_workload(drawn, lookahead(), hardware=runs.hardware)
        check_all_succeeded(records)
        found = summarise(records, drawn.groups)
        return Bound(
            workload,
            seed,
            found.utility,
            greatest_utility(records, drawn.groups, times),
            found.waiting_s,
            least_waiting_s(records, times) if len(drawn.groups) == 1 else None,
        )

    found = {name: runs.each(name, partial(one, name)) for name in WORKLOADS}
    means = {
        name: [mean_of([getattr(item, field) for item in items]) for field in FIELDS]
        for name, items in found.items()
    }
    rows = tuple(
        (name, *('-' if value is None else f'{value:.3f}' for value in values))
        for name, values in means.items()
    )
    targets = []
    for name, (utility, greatest, *_) in means.items():
        share = (utility or 0.0) / (greatest or 1.0)
        targets.append(Target(f'{name}: share of the greatest utility', share, '>=', 0.95))
    headers = ('workload', 'mean U', 'greatest U', 'W (s)', 'least W (s)')
    return Result(
        (Table(f'lookahead, {len(runs.seeds)} draws', headers, rows),),
        {
            'seeds': len(runs.seeds),
            'hardware': runs.hardware,
            'runs': [asdict(item) for items in found.values() for item in items],
        },
        targets,
        lambda figure: draw(figure, found),
        (6.0, 3.4),
    )


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean; None where there is nothing."""
    given = [value for value in values if value is not None]
    return sum(given) / len(given) if given else None


def draw(figure: Figure, found: dict[str, list[Bound]]) -> None:
    """Draw each run's utility over its bound."""
    axis = figure.subplots()
    for name, items in found.items():
        axis.plot(
            [item.greatest_utility for item in items],
            [item.utility for item in items],
            'o',
            label=name,
        )
    low, high = axis.get_xlim()
    axis.plot([low, high], [low, high], 'k--', linewidth=0.8)
    axis.set_xlabel('greatest mean utility of the run')
    axis.set_ylabel('mean utility')
    axis.legend(fontsize=8, frameon=False)
    figure.tight_layout()


FIELDS = ('utility', 'greatest_utility', 'waiting_s', 'least_waiting_s')

EXPERIMENT = Experiment(
    'bounds',
    'Lookahead against what no schedule exceeds',
    ('nothing: the paper gives no bound',),
    run,
)
