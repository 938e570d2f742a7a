"""The experiments, on workloads of a few seconds."""

from __future__ import annotations

import io
import itertools
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

pytest.importorskip('matplotlib')

from benchmarks import workloads
from benchmarks.timelyllm.comparison import lookahead, paper, summarise
from benchmarks.timelyllm.figures import EXPERIMENTS, bounds, chat, page, time_trace
from benchmarks.timelyllm.figures.best_value import Burst, best_value, clusters
from benchmarks.timelyllm.figures.runs import Runs
from benchmarks.workloads.chats import ChatSpec
from benchmarks.workloads.experiment import run_workload
from timely_llm_ros.engines.simulated.step_time import HARDWARE
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

TOY = HARDWARE['toy'].step_time
SEED = 3


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    for name, spec in workloads.WORKLOADS.items():
        monkeypatch.setitem(
            workloads.WORKLOADS,
            name,
            replace(spec, duration_s=5.0, events_per_s=0.8, most_tasks_per_event=8),
        )
    monkeypatch.setattr(chat, 'ChatSpec', lambda: ChatSpec(duration_s=6.0, paragraphs=(1, 2)))
    monkeypatch.setattr(chat, 'CAPS', (8,))
    # Any two neighbours of different groups will do in so short a draw.
    tasks = workloads.compose(workloads.WORKLOADS['wid2'], SEED).tasks
    pair = next(
        {one.group: one.kind, two.group: two.kind}
        for one, two in itertools.pairwise(tasks)
        if one.at_s == two.at_s and one.group != two.group
    )
    monkeypatch.setattr(time_trace, 'NORMAL_KIND', pair['normal'])
    monkeypatch.setattr(time_trace, 'URGENT_KIND', pair['urgent'])
    return Runs((SEED,), 'toy', Console(file=io.StringIO()))


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_an_experiment_gives_tables_a_picture_and_figures(
    name: str, runs: Runs, tmp_path: Path
) -> None:
    experiment = EXPERIMENTS[name]
    with runs.experiment(experiment.title):
        result = experiment.run(runs)
    assert result.tables
    for table in result.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.headers)}
    assert result.targets
    assert json.loads(json.dumps(result.figures))
    page.draw(result, picture := tmp_path / 'picture.png')
    assert picture.read_bytes().startswith(b'\x89PNG')
    page.write_page(experiment, result, picture=picture, path=tmp_path / 'p.html', facts='<here>')
    text = (tmp_path / 'p.html').read_text()
    assert '&lt;here&gt;' in text
    assert 'http' not in text
    assert text.count('<table>') == len(result.tables)
    page.print_tables(Console(file=io.StringIO()), result)


def test_runs_of_one_call_are_shared(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    first = runs.serve(paper('utility', 4), 'wid1')
    monkeypatch.setattr(runs, '_run', lambda *_: pytest.fail('served again'))
    assert runs.serve(paper('utility', 4), 'wid1') == first


def best_by_trying(bursts: Sequence[Burst], tokens: int, value: Callable[[float], float]) -> float:
    """Try every way to begin tasks step by step, in any order of arrival."""
    tasks = [burst for burst in bursts for _ in range(burst.count)]

    def serve(now_s: float, waiting: tuple[int, ...], left: tuple[tuple[int, int], ...]) -> float:
        ready = [task for task in waiting if tasks[task].at_s <= now_s + 1e-12]
        if not waiting and not left:
            return 0.0
        later_s = [tasks[task].at_s for task in waiting if task not in ready]
        best = -math.inf
        if later_s and not left:
            best = serve(min(later_s), waiting, left)
        for size in range(0 if left else 1, len(ready) + 1):
            for begun in itertools.combinations(ready, size):
                line = [*left, *((task, tokens) for task in begun)]
                end_s = now_s + TOY.decode_s * (1 + TOY.batch_factor * (len(line) - 1))
                end_s += TOY.prefill_s * size
                still = list(waiting)
                for task in begun:
                    burst = tasks[task]
                    among = sum(tasks[other] is burst for other in still) + burst.others
                    end_s += TOY.schedule_s + TOY.schedule_waiting_s * among
                    still.remove(task)
                gained = sum(value(end_s + 0.008 - tasks[task].at_s) for task, n in line if n == 1)
                rest = tuple((task, n - 1) for task, n in line if n > 1)
                best = max(best, gained + serve(end_s, tuple(still), rest))
        return best

    return serve(0.0, tuple(range(len(tasks))), ())


@pytest.mark.parametrize('value', [URGENT.first, NORMAL.first, lambda response_s: -response_s])
@pytest.mark.parametrize(
    'bursts',
    [
        (Burst(0.0, 1),),
        (Burst(0.0, 3, 2),),
        (Burst(0.0, 2), Burst(0.05, 1, 4)),
        (Burst(0.01, 1, 1), Burst(0.06, 1), Burst(0.3, 1)),
    ],
)
def test_the_bound_is_the_best_of_all_choices(
    bursts: tuple[Burst, ...], value: Callable[[float], float]
) -> None:
    assert best_value(bursts, 3, TOY, value) == pytest.approx(best_by_trying(bursts, 3, value))


def test_bursts_that_are_near_are_searched_together() -> None:
    bursts = [Burst(9.0, 3), Burst(0.0, 4), Burst(0.5, 5), Burst(0.9, 7), Burst(1.0, 2)]
    assert [[one.count for one in group] for group in clusters(bursts)] == [[4, 5], [7, 2], [3]]
    together = best_value((Burst(0.0, 4), Burst(0.1, 4)), 3, TOY, URGENT.first)
    assert together < 2 * best_value((Burst(0.0, 4),), 3, TOY, URGENT.first)


@pytest.mark.usefixtures('runs')
@pytest.mark.parametrize('name', ['wid1', 'wid2', 'wid3'])
def test_nothing_exceeds_its_bound(name: str) -> None:
    drawn = replace(workloads.compose(workloads.WORKLOADS[name], SEED), robots=4)
    for system in (paper('utility', 4), paper('edf', 6), lookahead()):
        records = run_workload(drawn, system)
        found = summarise(records, drawn.groups)
        assert any(record.queued_s > 0 for record in records)
        assert found.utility <= bounds.greatest_utility(records, drawn.groups, TOY)
        if name == 'wid3':
            assert found.waiting_s >= bounds.least_waiting_s(records, TOY)
        else:
            with pytest.raises(ValueError, match='one length'):
                bounds.least_waiting_s(records, TOY)
