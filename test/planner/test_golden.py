"""The planner's own bookkeeping against the papers' worked timelines and overrun strategies."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.planner import SegmentStarted, TaskStatus
from timely_llm_ros.planner.delivery import Timeline
from timely_llm_ros.testing import Script, acts, make_fleet
from timely_llm_ros.utility import TimeUtility
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.planner import TaskResult

GOLDEN = json.loads(
    (Path(__file__).parents[1] / 'data' / 'golden_timelyllm_times.json').read_text(encoding='utf-8')
)


@pytest.mark.parametrize('case', GOLDEN['timeline'], ids=lambda c: c['inputs']['case'])
def test_timeline_of_a_planned_task(case: dict[str, Any]) -> None:
    given, expected = case['inputs'], case['expected']

    async def main() -> tuple[TaskResult, list[float]]:
        at_s = [end_s - given['arrival'] for end_s in given['gen_end']]
        fleet = await make_fleet(
            lambda _: Script(acts(*given['exec']), at_s=at_s), latency_s=given['net']
        )
        await asyncio.sleep(given['arrival'])
        result = await fleet.submit(fleet.task('t')).result()
        started = fleet.events_of('t', SegmentStarted)
        await fleet.close()
        return result, [event.at_s for event in started]

    result, starts_s = run_virtual(main())
    assert starts_s == pytest.approx(expected['start'], abs=case['tol'])
    assert result.waits_s == pytest.approx(expected['wait'], abs=case['tol'])
    assert result.response_s == pytest.approx(expected['response'], abs=case['tol'])
    assert result.waiting_s == pytest.approx(expected['total_wait'], abs=case['tol'])
    assert result.completion_s == pytest.approx(expected['completion'], abs=case['tol'])


def segment_objective(utility: TimeUtility, waits_s: Sequence[float]) -> float:
    """TimelyLLM's eq. 3 for one task: what its waits are worth together."""
    first, *later = waits_s
    expected_at_once = replace(utility, expected_response_s=0.0)
    return utility.first(first) + sum(map(expected_at_once.first, later))


@pytest.mark.parametrize('case', GOLDEN['segment_objective'])
def test_segment_objective(case: dict[str, Any]) -> None:
    given = case['inputs']
    utility = TimeUtility(given['ERT'], given['alpha'], given['beta'])
    value = segment_objective(utility, given['waits'])
    assert value == pytest.approx(case['expected'], abs=case['tol'])


@pytest.mark.parametrize('case', GOLDEN['theorem1_counterexample'])
def test_equal_objective_unequal_completion(case: dict[str, Any]) -> None:
    given, expected = case['inputs'], case['expected']
    timeline = Timeline(0.0)
    timeline.start(0, given['W'])
    timeline.end(0, given['E'])
    utility = TimeUtility(given['ERT'], given['alpha'], given['beta'])
    assert segment_objective(utility, timeline.waits_s) == pytest.approx(expected['eq3'])
    assert timeline.completion_s == pytest.approx(expected['completion'], abs=case['tol'])


@pytest.mark.parametrize('case', GOLDEN['eq3_delay_incentive'])
def test_delaying_the_first_action_raises_only_the_objective(case: dict[str, Any]) -> None:
    given, expected = case['inputs'], case['expected']
    timeline = Timeline(0.0)
    timeline.start(0, given['start0'])
    timeline.end(0, given['exec'][0])
    timeline.start(1, max(given['start0'] + given['exec'][0], given['gen_end1']))
    timeline.end(1, given['exec'][1])
    utility = TimeUtility(given['ERT'], given['alpha'], given['beta'])
    objective = segment_objective(utility, timeline.waits_s)
    assert objective == pytest.approx(expected['eq3'], abs=case['tol'])
    assert timeline.completion_s == pytest.approx(expected['completion'], abs=case['tol'])


@pytest.mark.parametrize('strategy', ['kill', 'skip_next'])
@pytest.mark.parametrize('number', range(4))
def test_periodic_jobs_that_overrun(strategy: str, number: int) -> None:
    """Jobs released every T, each with a generation that takes what the case says."""
    case = GOLDEN[f'overrun_{strategy}'][number]
    times_s, period_s = case['inputs']['t_e2e'], case['inputs']['T']

    def script(request: GenerationRequest) -> Script:
        # A little less: a job that follows a killed one begins the tolerance of the budget late.
        return Script(acts(0), at_s=[times_s[int(request.generation_id)] - 1e-5])

    async def main() -> list[bool]:
        fleet = await make_fleet(script)
        loop, handles = asyncio.get_running_loop(), []

        def release(job: int) -> None:
            task = fleet.task(str(job), time_budget_s=period_s, overrun=strategy, when_busy='queue')
            handles.append(fleet.submit(task))

        for job in range(len(times_s)):
            loop.call_at(job * period_s, release, job)
        await asyncio.sleep(period_s * len(times_s))
        results = [await handle.result() for handle in handles]
        await fleet.close()
        return [result.status is TaskStatus.SUCCEEDED for result in results]

    assert run_virtual(main()) == case['expected']['done']


# Reports out of order


def test_a_start_reported_before_the_previous_end_is_settled_with_it() -> None:
    timeline = Timeline(10.0)
    timeline.start(0, 11.0)
    timeline.start(1, 13.0)
    assert list(timeline.waits_s) == [1.0]
    timeline.end(0, 1.5)
    assert list(timeline.waits_s) == [1.0, 0.5]
    assert timeline.idle_since_s == 12.5
    timeline.end(1, 2.0)
    assert timeline.idle_since_s == 15.0
    assert timeline.completion_s == 1.5 + 3.5


def test_a_start_before_the_previous_end_counts_as_no_wait() -> None:
    timeline = Timeline(0.0)
    timeline.start(0, 1.0)
    timeline.end(0, 2.0)
    timeline.start(1, 2.9)
    timeline.end(1, 1.0)
    assert timeline.waits_s == (1.0, 0.0)
    assert timeline.start_s(1) == 3.0
    assert timeline.completion_s == timeline.waiting_s + timeline.execution_s == 4.0


def test_repeated_reports_change_nothing() -> None:
    timeline = Timeline(0.0)
    for at_s in (1.0, 2.0):
        timeline.start(0, at_s)
    for execution_s in (3.0, 4.0):
        timeline.end(0, execution_s)
    timeline.end(5, 1.0)
    assert (timeline.waits_s, timeline.execution_s) == ((1.0,), 3.0)
