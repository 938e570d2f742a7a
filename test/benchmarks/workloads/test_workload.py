from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from benchmarks.workloads import WORKLOADS, WorkloadSpec, compose
from benchmarks.workloads.paper_tasks import PROFILES
from benchmarks.workloads.workload_file import loads, read_workload, write_workload
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.workload import SegmentShape, Workload, WorkloadTask, dumps
from timely_llm_ros.sample_tasks.generator import KINDS
from timely_llm_ros.utility import NORMAL, URGENT

EXPECTED_TASKS = {'wid1': 292.5, 'wid2': 637.5, 'wid3': 405.0}
"""TimelyLLM, Table 3: rate * time * (1 + most tasks per event) / 2."""

MINIMAL = """
format: timely-workload
version: 1
name: mine
robots: 2
groups: {normal: [1.0, -2.0, 1.0]}
tasks:
- {at_s: 2.0, kind: look, group: normal, segments: [[5, 1.5], [4, 0]]}
- {at_s: 0.5, kind: look, group: normal, segments: [[5, 1]]}
"""


def expected_tasks(spec: WorkloadSpec) -> float:
    return spec.events_per_s * spec.duration_s * (1 + spec.most_tasks_per_event) / 2


@pytest.mark.parametrize('name', WORKLOADS)
def test_expected_tasks_are_those_of_table_3(name: str) -> None:
    assert expected_tasks(WORKLOADS[name]) == EXPECTED_TASKS[name]


@pytest.mark.parametrize('name', WORKLOADS)
def test_composed_workloads_have_as_many_tasks_as_expected(name: str) -> None:
    spec = WORKLOADS[name]
    counts = [len(compose(spec, seed).tasks) for seed in range(200)]
    error = statistics.stdev(counts) / math.sqrt(len(counts))
    assert abs(statistics.mean(counts) - expected_tasks(spec)) < 4 * error


@pytest.mark.parametrize('name', WORKLOADS)
def test_tasks_are_within_what_the_spec_and_the_profiles_say(name: str) -> None:
    spec = WORKLOADS[name]
    workload = compose(spec, 3)
    by_name = {profile.name: profile for profile in PROFILES.values()}
    times_s = [task.at_s for task in workload.tasks]
    assert times_s == sorted(times_s)
    assert times_s[-1] <= spec.duration_s
    bursts = [times_s.count(at_s) for at_s in set(times_s)]
    assert max(bursts) <= spec.most_tasks_per_event
    assert {task.kind for task in workload.tasks} == {KINDS[kind].name for kind in spec.kinds}
    for task in workload.tasks:
        profile = by_name[task.kind]
        assert profile.number in spec.kinds
        assert task.tokens == profile.tokens
        assert workload.groups[task.group] == (URGENT if profile.group == 'urgent' else NORMAL)
        for shape in task.segments:
            assert profile.shortest_s <= shape.execution_s <= profile.longest_s


def test_tokens_are_those_that_table_4_implies() -> None:
    totals_ms = [13.7 / 0.030, 24.1 / 0.026, 19.9 / 0.056, 19.9 / 0.028]
    totals_ms += [16.0 / 0.032, 13.1 / 0.037, 14.4 / 0.041, 14.8 / 0.042]
    implied = [round((total_ms - 133) / 21.7) for total_ms in totals_ms]
    assert [PROFILES[number].tokens for number in range(1, 9)] == implied
    assert {PROFILES[number].tokens for number in (9, 10, 11)} == {101}


def test_the_same_seed_gives_the_same_workload_and_another_gives_another() -> None:
    spec = WORKLOADS['wid1']
    assert compose(spec, 7) == compose(spec, 7)
    assert compose(spec, 7).tasks != compose(spec, 8).tasks


@pytest.mark.parametrize('name', WORKLOADS)
def test_a_workload_survives_its_file(name: str, tmp_path: object) -> None:
    workload = compose(WORKLOADS[name], 1)
    path = f'{tmp_path}/{name}.json'
    write_workload(workload, path)
    assert read_workload(path) == workload


def test_the_file_is_yaml_too() -> None:
    workload = compose(WorkloadSpec('small', 1.0, 2, (1, 6), 3, 5.0), 0)
    as_yaml = '# a comment makes it YAML\n' + dumps(workload)
    assert loads(as_yaml) == workload


def test_yaml_by_hand_is_sorted_by_time() -> None:
    first = WorkloadTask(0.5, 'look', 'normal', (SegmentShape(5, 1.0),))
    second = WorkloadTask(2.0, 'look', 'normal', (SegmentShape(5, 1.5), SegmentShape(4, 0.0)))
    assert loads(MINIMAL) == Workload('mine', 2, {'normal': NORMAL}, (first, second))


@pytest.mark.parametrize(
    ('old', 'new', 'says'),
    [
        ('timely-workload', 'other', "format: 'other': expected 'timely-workload'"),
        ('version: 1', 'version: 2', "version: '2': expected 1"),
        ('robots: 2', 'robots: 0', "robots: '0': expected at least 1"),
        ('robots: 2', 'robots: 1.5', "robots: '1.5': expected a whole number"),
        ('robots: 2', 'robbers: 2', 'robbers'),
        ('at_s: 2.0', 'at_s: -1', "tasks[0].at_s: '-1': expected a finite number of at least 0"),
        ('at_s: 2.0', 'at_s: .nan', 'tasks[0].at_s'),
        ('at_s: 2.0', 'at_s: yes', "tasks[0].at_s: 'True': expected a number"),
        ('group: normal, segments: [[5, 1]]', 'group: odd, segments: [[5, 1]]', 'one of normal'),
        ('[[5, 1]]', '[]', 'tasks[1].segments'),
        ('[[5, 1]]', '[[0, 1]]', "tasks[1].segments[0]: '0': expected at least 1"),
        ('[[5, 1]]', '[[5]]', "tasks[1].segments[0]: '[5]': expected [tokens, execution_s]"),
        ('-2.0', '2.0', 'groups.normal: utility slope 2.0'),
        ('[1.0, -2.0, 1.0]', '[1.0]', 'groups.normal'),
        ('kind: look, group: normal, segments: [[5, 1]]', 'kind: look', 'tasks[1]'),
        ('tasks:', 'tasks: {', 'expected YAML or JSON'),
    ],
)
def test_what_is_wrong_with_a_file_is_said(old: str, new: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loads(MINIMAL.replace(old, new), source='my.yaml')
    assert str(caught.value).startswith('my.yaml: ')
    assert says in str(caught.value)


@pytest.mark.parametrize('text', ['', '[]', '3', '{"a": '])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match='expected'):
        loads(text)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r'/nowhere/w\.json'):
        read_workload('/nowhere/w.json')


@pytest.mark.parametrize(
    'bad',
    [
        {'events_per_s': 0.0},
        {'duration_s': math.inf},
        {'most_tasks_per_event': -1},
        {'robots': 0},
        {'kinds': ()},
        {'kinds': (1, 12)},
    ],
)
def test_a_spec_out_of_range_is_refused(bad: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        'name': 'x',
        'events_per_s': 1.0,
        'most_tasks_per_event': 2,
        'kinds': (1,),
        'robots': 1,
        'duration_s': 1.0,
    }
    with pytest.raises(ConfigurationError, match='expected'):
        WorkloadSpec(**{**good, **bad})
