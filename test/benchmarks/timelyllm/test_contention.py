"""What the contention benchmark makes of workloads and runs, without an engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.timelyllm import contention
from benchmarks.timelyllm import systems as _ways
from benchmarks.workloads import WORKLOADS, compose
from timely_llm_ros.sample_tasks.generator import KINDS
from timely_llm_ros.skills import expected_execution_s
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set


def test_every_task_gets_a_sample_of_its_kind_and_a_duration_in_proportion() -> None:
    spec = replace(WORKLOADS['wid1'], kinds=contention.KINDS_SERVED, duration_s=40.0)
    workload = compose(spec, 3)
    samples = contention.draw_samples(workload, 3)
    assert [KINDS[sample.kind].name for sample in samples] == [t.kind for t in workload.tasks]
    whole = find_skill_set('tello')
    tenth = contention.scaled(whole, 0.1)
    for sample in samples:
        long_s, short_s = (
            expected_execution_s(parse(sample.plan, one, sample.scene), one, sample.scene)
            for one in (whole, tenth)
        )
        assert short_s == pytest.approx(0.1 * long_s)


def served(way: str, batch: int, utility: float, urgent: float) -> _ways.Served:
    return _ways.Served(way, batch, 9, 0, utility, urgent, 1.0, 0.1, 0.2)


def test_each_way_stands_at_its_own_best_batch() -> None:
    draws = [
        [
            served(way.name, batch, 1.0 + 0.1 * batch + way.ours + bonus * way.ours, 0.5)
            for way in _ways.WAYS
            for batch in (2, 1)
        ]
        for bonus in (0.0, 0.2)
    ]
    best = _ways.best_of(_ways.means(draws))
    assert {one.batch for one in best.values()} == {2}
    assert {one.tasks for one in best.values()} == {18}
    system, urgent, ranking, _ = _ways.targets(draws)
    assert 'ahead of other systems (whole_plan, ±0.100)' in system.name
    assert 'ahead of other rankings (segmented fcfs, ±0.100)' in ranking.name
    assert system.value == ranking.value == pytest.approx(1.1)
    assert system.ok
    assert urgent.value == 0.0


def test_of_a_single_draw_no_error_is_told() -> None:
    draw = [served(way.name, 1, 1.0, 0.5) for way in _ways.WAYS]
    assert not any('±' in target.name for target in _ways.targets([draw]))
