from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from benchmarks.timelyllm.comparison import (
    PAPER,
    compare,
    lookahead,
    mean,
    paper,
    paper_admission,
    run_seed,
    stream,
    table,
    whole_plan,
)
from benchmarks.workloads import WORKLOADS, WorkloadSpec, compose
from benchmarks.workloads.experiment import System, check_all_succeeded, run_workload
from timely_llm_ros.evaluation.workload import SegmentShape, Workload, WorkloadTask
from timely_llm_ros.planner.events import PlannerEvent, SegmentStarted, TaskAccepted, TaskEnded
from timely_llm_ros.scheduling.options import SchedulingOptions
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from timely_llm_ros.scheduling.options import Admission
    from timely_llm_ros.scheduling.scheduler import ServingMode

SYSTEMS = [
    whole_plan(12),
    stream(12),
    paper('utility', 6),
    paper('fcfs', 6),
    paper('edf', 6),
    paper_admission('printed'),
    paper_admission('feasible'),
    System('ours'),
    lookahead(),
]
SMALL = WorkloadSpec('small', 0.5, 8, tuple(range(1, 12)), 9, 30.0)


def one_task(*segments: tuple[int, float]) -> Workload:
    shapes = tuple(SegmentShape(tokens, execution_s) for tokens, execution_s in segments)
    task = WorkloadTask(2.0, 'look', 'normal', shapes)
    return Workload('one', 1, {'normal': NORMAL}, (task,))


def test_one_task_takes_exactly_what_the_step_times_add_up_to() -> None:
    (record,) = run_workload(one_task((5, 1.0), (4, 0.05), (6, 2.0)), paper('utility', 6))
    chosen_s = 0.000405 + 0.000202
    # The shared prefix is free here, but a step of its own comes before the first.
    first_s = 0.030 + chosen_s + 5 * 0.0216 + 0.008
    third_ready_s = first_s + 2 * (0.0005 + chosen_s) + 10 * 0.0216
    result = record.result
    assert result.response_s == pytest.approx(first_s)
    assert result.execution_s == pytest.approx(3.05)
    # The second and third segment are ready long before the first has been executed.
    assert third_ready_s < first_s + 1.0
    assert result.waits_s == pytest.approx((first_s, 0.0, 0.0))
    assert result.tokens == 15
    assert result.segments == 3


def test_a_response_counts_from_when_the_task_came_and_not_from_when_a_robot_was_free() -> None:
    (task,) = one_task((5, 3.0)).tasks
    workload = Workload('two', 1, {'normal': NORMAL}, (task, task))
    first, second = run_workload(workload, paper('utility', 6))
    done_s = (first.result.response_s or 0.0) + 3.0
    assert second.queued_s == pytest.approx(done_s, abs=0.02)
    assert second.result.response_s == pytest.approx(second.queued_s + 0.1466, abs=0.001)
    assert second.result.utility == pytest.approx(NORMAL.first(second.queued_s + 0.1466), abs=0.01)
    _, without = run_workload(workload, paper('utility', 6), from_free_robot=True)
    assert without.result.response_s == pytest.approx(0.1466, abs=0.001)


def test_whole_plan_waits_for_the_last_token() -> None:
    (record,) = run_workload(one_task((5, 1.0), (4, 1.0)), whole_plan(6))
    waiting_s = 0.030 + 0.000405 + 0.000202 + 9 * 0.0216 + 0.008
    assert record.result.response_s == pytest.approx(waiting_s)
    assert record.result.waiting_s == pytest.approx(waiting_s)


@pytest.mark.parametrize('system', SYSTEMS, ids=lambda system: system.name)
def test_nothing_is_lost_and_nobody_waits_less_than_nothing(system: System) -> None:
    workload = compose(SMALL, 4)
    events: list[PlannerEvent] = []
    records = run_workload(workload, system, on_event=events.append)
    check_all_succeeded(records)
    assert [record.task for record in records] == list(workload.tasks)
    for record in records:
        result = record.result
        assert result.tokens == record.task.tokens
        whole = system.mode == 'whole_plan'
        assert result.segments == (1 if whole else len(record.task.segments))
        assert result.execution_s == pytest.approx(record.task.execution_s)
        assert min(result.waits_s) >= 0
        assert record.queued_s >= 0
    accepted = [event.task_id for event in events if isinstance(event, TaskAccepted)]
    ended = [event.task_id for event in events if isinstance(event, TaskEnded)]
    assert sorted(accepted) == sorted(ended)
    assert len(set(accepted)) == len(accepted)


@pytest.mark.parametrize('system', SYSTEMS[:3], ids=lambda system: system.name)
def test_the_same_seed_gives_the_same_events(system: System) -> None:
    logs: list[list[PlannerEvent]] = [[], []]
    for log in logs:
        run_workload(compose(SMALL, 2), system, on_event=log.append)
    assert repr(logs[0]) == repr(logs[1])


def test_a_robot_never_does_two_tasks_at_once() -> None:
    workload = compose(WorkloadSpec('few', 1.0, 8, (1, 6), 3, 10.0), 1)
    events: list[PlannerEvent] = []
    records = run_workload(workload, System('ours'), on_event=events.append)
    busy: dict[str, str] = {}
    for event in events:
        if isinstance(event, TaskAccepted):
            assert event.robot not in busy
            busy[event.robot] = event.task_id
        elif isinstance(event, SegmentStarted):
            assert busy[event.robot] == event.task_id
        elif isinstance(event, TaskEnded):
            del busy[event.robot]
    assert max(record.queued_s for record in records) > 0


@examples(25)
@given(
    st.lists(
        st.tuples(
            st.floats(0, 3),
            st.booleans(),
            st.lists(st.tuples(st.integers(1, 9), st.floats(0, 2)), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(['segmented', 'stream', 'whole_plan']),
    st.sampled_from(['fcfs', 'edf', 'utility']),
    st.integers(1, 5),
    st.sampled_from(['feasible', 'fixed', 'printed']),
    st.booleans(),
)
def test_every_workload_is_served_whole(
    tasks: list[tuple[float, bool, list[tuple[int, float]]]],
    mode: ServingMode,
    policy: str,
    cap: int,
    admission: Admission,
    interrupts: bool,
) -> None:
    drawn = sorted(
        (
            WorkloadTask(
                at_s,
                'any',
                'urgent' if urgent else 'normal',
                tuple(SegmentShape(tokens, round(time_s, 3)) for tokens, time_s in segments),
            )
            for at_s, urgent, segments in tasks
        ),
        key=lambda task: task.at_s,
    )
    workload = Workload('any', 4, {'normal': NORMAL, 'urgent': URGENT}, tuple(drawn), 0)
    system = System(
        'any',
        mode,
        policy,
        cap,
        SchedulingOptions(admission=admission, interrupts=interrupts),
    )
    records = run_workload(workload, system)
    check_all_succeeded(records)
    for record in records:
        assert record.result.tokens == record.task.tokens
        assert record.result.execution_s == pytest.approx(record.task.execution_s, abs=1e-6)
        assert min(record.result.waits_s) >= 0
        least_s = 0.0216 * record.task.segments[0].tokens
        assert record.result.response_s is not None
        assert record.result.response_s >= least_s


def test_an_empty_workload_has_no_records() -> None:
    assert run_workload(Workload('none', 1, {'normal': NORMAL}, ()), System('ours')) == ()


def test_the_orderings_of_the_reference_simulation() -> None:
    systems = [whole_plan(12), stream(12), paper('utility', 6), paper('fcfs', 6)]
    systems.append(paper_admission('printed'))
    found = compare(systems, 'wid2', seeds=(0,), from_free_robot=True)
    utility = {name: summary.utility for name, summary in found.items()}
    best = utility['paper utility cap 6']
    assert best == max(utility.values())
    assert best > utility['stream cap 12'] > utility['whole_plan cap 12']
    assert best > utility['paper fcfs cap 6']
    assert utility['paper printed'] < utility['whole_plan cap 12']
    urgent = {name: summary.groups['urgent'].utility for name, summary in found.items()}
    assert urgent['paper utility cap 6'] > 0.3 > urgent['stream cap 12']


def test_lookahead_serves_urgent_tasks_better_than_the_paper_and_normal_ones_well() -> None:
    # What is lost in waiting for a robot is no question of order.
    systems = [paper('utility', 6), lookahead()]
    found = compare(systems, 'wid1', seeds=(1, 2), from_free_robot=True)
    theirs, ours = found['paper utility cap 6'], found['lookahead']
    assert ours.utility > theirs.utility + 0.05
    assert ours.groups['urgent'].utility > 0.85 > theirs.groups['urgent'].utility
    assert ours.groups['normal'].utility > 0.97


def test_the_mean_of_runs_and_its_table() -> None:
    runs = [run_seed(stream(12), 'wid1', 'toy', seed) for seed in (0, 1)]
    together = mean(runs)
    assert together == compare([stream(12)], 'wid1', seeds=(0, 1), processes=2)['stream cap 12']
    assert together.utility == pytest.approx((runs[0].utility + runs[1].utility) / 2)
    assert together.groups['urgent'].tasks == sum(run.groups['urgent'].tasks for run in runs)
    lines = table({'stream cap 12': together}).splitlines()
    assert len(lines) == 2
    assert f'{together.utility:.3f}' in lines[1]


def test_the_papers_scheduling_is_that_of_section_4() -> None:
    assert PAPER.profiled_generation_s == 0.09
    assert PAPER.network_s == 0.008
    with pytest.raises(ValueError, match="'printed' or 'feasible'"):
        paper_admission('guess')
    assert WORKLOADS['wid1'].robots == 25
