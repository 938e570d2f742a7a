"""How near our own way comes to what no schedule can exceed on the simulated engine.

Everything that helps is granted to a schedule: the engine is free when tasks come, nothing else
is served until those of one moment have their first segments, a step takes no longer for a larger
batch, and choosing costs nothing. What is left is the choice when to compute which prompt: a step
takes ``decode_s`` plus ``prefill_s`` for each prompt in it, for all that are under way. A
programme over all such choices gives the best value of ``n`` tasks that come together and have
first segments of equally many tokens.

When a task reaches the planner depends on when a robot is free, hence on how tasks before it were
served. So a bound is that of one run: of any order of serving the tasks when they came in it.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

from _results import Target

from figures.experiment import Experiment, Result, Table
from lrtrace.comparison import lookahead, summarise
from lrtrace.experiment import NETWORK_S, TaskRecord, check_all_succeeded, run_workload
from lrtrace.workload import WORKLOADS, compose
from timely_llm_ros.engines.step_time import StepTimeModel, find_hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from figures.runs import Runs
    from timely_llm_ros.utility import TimeUtility


@lru_cache(maxsize=1024)
def best_value(
    count: int, tokens: int, times: StepTimeModel, value: Callable[[float], float]
) -> float:
    """Return the greatest sum of values of the response times of tasks that come together.

    Args:
        count: How many tasks.
        tokens: Tokens of each one's first segment.
        times: How long steps take; growth with the batch is ignored.
        value: What a response time (s) is worth; must not grow with it.
    """

    @cache
    def best(step: int, begun: int, under_way: tuple[int, ...]) -> float:
        """Value still to come; ``under_way[i]`` tasks have ``i + 1`` tokens left to the step."""
        if begun == count and not any(under_way):
            return 0.0
        least = 0 if any(under_way) else 1
        found = -float('inf')
        for beginning in range(least, count - begun + 1):
            end_s = (step + 1) * times.decode_s + (begun + beginning) * times.prefill_s
            line = (*under_way, beginning)
            finished = line[0]
            later = best(step + 1, begun + beginning, line[1:])
            found = max(found, (finished * value(end_s + NETWORK_S) if finished else 0.0) + later)
        return found

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
    return best(0, 0, (0,) * (tokens - 1))


def greatest_utility(
    records: Sequence[TaskRecord], groups: Mapping[str, TimeUtility], times: StepTimeModel
) -> float:
    """Return the greatest mean utility of a run: urgent tasks at their best, others at their peak.

    Raises:
        ValueError: First segments of the urgent tasks differ in length.
    """
    total = sum(groups[record.task.group].peak for record in records if not _urgent(record))
    for count, tokens in bursts([record for record in records if _urgent(record)]):
        total += best_value(count, tokens, times, groups['urgent'].first)
    return total / len(records)


def least_waiting_s(records: Sequence[TaskRecord], times: StepTimeModel) -> float:
    """Return the least mean waiting time (s) of a run.

    Raises:
        ValueError: First segments differ in length.
    """
    total = sum(best_value(count, tokens, times, _negative) for count, tokens in bursts(records))
    return -total / len(records)


def bursts(records: Sequence[TaskRecord]) -> list[tuple[int, int]]:
    """Return how many tasks came at each moment, and their first segments' tokens.

    Raises:
        ValueError: First segments differ in length.
    """
    tokens = {record.task.segments[0].tokens for record in records}
    if len(tokens) > 1:
        raise ValueError(f'first segments of {sorted(tokens)} tokens: expected one length')
    moments = Counter(round(record.task.at_s + record.queued_s, 6) for record in records)
    return [(count, *tokens) for count in moments.values()]


def _negative(response_s: float) -> float:
    return -response_s


def _urgent(record: TaskRecord) -> bool:
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
