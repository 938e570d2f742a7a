"""Time budgets with the openai engine: predicted from what its server was measured to take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.engines.completion_server import CompletionServer
from support.engines.server_runs import config_of

from timely_llm_ros.budget.task_budget import BudgetOptions
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import SimulatedDriver, SimulatedOptions
from timely_llm_ros.engines.openai import served_times
from timely_llm_ros.engines.openai.engine import OpenAIEngine
from timely_llm_ros.engines.tokens.prompt_size import PromptSize
from timely_llm_ros.errors import TaskRefusedError
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import PlannerConfig, Task, TaskAccepted
from timely_llm_ros.planner.planner import Planner
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import build_prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.usefixtures('quick_retries')

TELLO = find_skill_set('tello')
SCENE = Scene(tuple(SceneObject(f'cup_{n}', 'cup', x_m=float(n)) for n in range(24)))


class Fleet:
    """A planner with one drone, and what it said."""

    def __init__(self, url: str) -> None:
        clock = LoopClock()
        self.engine = OpenAIEngine(config_of([url], max_running=2, measure=True))
        self.executor = SegmentExecutor(
            SimulatedDriver(TELLO, SimulatedOptions(seed=1)), TELLO, clock
        )
        self.accepted: list[TaskAccepted] = []
        self.planner = Planner(
            engine=self.engine,
            robots={'drone': LocalRobotLink(self.executor, clock, latency_s=0.0)},
            skill_sets={'tello': TELLO},
            clock=clock,
            on_event=self._on_event,
            config=PlannerConfig(budgets=BudgetOptions(), max_running=2),
        )

    def _on_event(self, event: Any) -> None:
        if isinstance(event, TaskAccepted):
            self.accepted.append(event)

    def task(self, name: str, budget_s: float) -> Task:
        return Task(name, 'drone', 'tello', 'look at cup_3', SCENE, NORMAL, time_budget_s=budget_s)


@pytest.fixture
async def fleet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    monkeypatch.setattr(served_times, 'ROUNDS', 1)
    server = await CompletionServer(step_s=0.001).start()
    made = Fleet(server.url)
    await made.executor.start()
    info = await made.planner.start()
    assert info.times is not None
    assert PromptSize(info)(build_prompt(TELLO, SCENE, 'x')) > 100
    yield made
    await made.planner.close()
    await server.stop()


async def test_an_accepted_task_has_its_prediction_and_what_is_done_for_it(fleet: Fleet) -> None:
    fleet.planner.submit(fleet.planner.prepare(fleet.task('ample', 3600.0)))
    (accepted,) = fleet.accepted
    assert accepted.budgeted is not None
    budget = accepted.budgeted.budget
    assert 0 < budget.expected_s <= budget.worst_s < 3600.0
    assert 1 < budget.predicted_length <= budget.max_tokens
    assert 'no eviction: prompt whole, at most' in accepted.budgeted.text


async def test_an_impossible_budget_is_refused_at_once(fleet: Fleet) -> None:
    with pytest.raises(TaskRefusedError, match=r'time budget 1e-05 s: expected at least the est'):
        fleet.planner.submit(fleet.planner.prepare(fleet.task('hopeless', 1e-5)))
    assert fleet.accepted == []


async def test_a_tight_budget_trims_the_scene_and_limits_the_plan(fleet: Fleet) -> None:
    fleet.planner.submit(fleet.planner.prepare(fleet.task('ample', 3600.0)))
    (ample,) = fleet.accepted
    assert ample.budgeted is not None
    whole = ample.budgeted.budget
    times = whole.worst_times
    tight_s = times.total_time_s(whole.prompt_tokens, whole.predicted_length + 1)
    task = fleet.task('tight', tight_s)
    found = fleet.planner.prepare(task).budgeted
    assert found is not None
    assert found.budget.feasible
    assert found.budget.max_tokens < whole.max_tokens
    assert found.budget.worst_s <= tight_s
