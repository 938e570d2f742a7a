"""A behaviour tree has a planner's robot do a task, over DDS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.ros.programs import wait_for
from support.ros.ros_client import QuietNode
from timely_llm_ros.action import PlanTask

from timely_llm_ros.ros import TaskClient

py_trees = pytest.importorskip('py_trees')

from py_trees.common import Status  # noqa: E402

from timely_llm_ros.ros.plan_task_leaf import PlanTaskLeaf  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.ros.fleet import Fleet
    from support.ros.ros_client import Client

LONG = 'repeat(10){delay(10000);};' * 6


@pytest.fixture(scope='module')
def fleet(start_fleet: Callable[..., Fleet]) -> Fleet:
    return start_fleet()


@pytest.fixture
def leaf_for(client: Client) -> Iterator[Callable[..., PlanTaskLeaf]]:
    nodes: list[QuietNode] = []

    def make(namespace: str, instruction: str, **options: Any) -> PlanTaskLeaf:
        def on_thread() -> PlanTaskLeaf:
            node = QuietNode('tree', namespace=namespace)
            nodes.append(node)
            tasks = TaskClient(node, **options)
            client.add_node(node)
            goal = PlanTask.Goal(robot='drone_1', instruction=instruction)
            return PlanTaskLeaf('tidy up', tasks, lambda: goal)

        return client.do(on_thread)

    yield make
    for node in nodes:
        client.remove_node(node)


def end_of(client: Client, leaf: PlanTaskLeaf) -> Status:
    """Tick until the leaf has ended."""

    def ended() -> bool:
        client.do(leaf.tick_once)
        return leaf.status != Status.RUNNING

    wait_for(ended, 'end of a leaf')
    return leaf.status


def test_a_leaf_runs_with_feedback_and_succeeds(
    client: Client, fleet: Fleet, leaf_for: Callable[..., PlanTaskLeaf]
) -> None:
    leaf = leaf_for(f'/{fleet.namespace}', 'takeoff;hover;')
    client.do(leaf.tick_once)
    assert leaf.status == Status.RUNNING
    assert end_of(client, leaf) == Status.SUCCESS, leaf.feedback_message
    assert leaf.result is not None
    assert leaf.result.segments == 2
    assert leaf.feedback is not None
    assert leaf.feedback.robot == 'drone_1'


def test_a_task_that_is_refused_fails_its_leaf_with_the_reason(
    client: Client, fleet: Fleet, leaf_for: Callable[..., PlanTaskLeaf]
) -> None:
    leaf = leaf_for(f'/{fleet.namespace}', 'fly_to_the_moon;')
    assert end_of(client, leaf) == Status.FAILURE
    assert leaf.result is not None
    assert f'(code {PlanTask.Result.BAD_PLAN})' in leaf.feedback_message


def test_a_tree_that_turns_away_cancels_the_task(
    client: Client, fleet: Fleet, leaf_for: Callable[..., PlanTaskLeaf]
) -> None:
    leaf = leaf_for(f'/{fleet.namespace}', LONG)
    before = fleet.started().count('delay(10000)')
    client.do(leaf.tick_once)
    fleet.wait_started('delay(10000)', times=before + 1)
    client.do(leaf.stop, Status.INVALID)
    fleet.wait_safe()


def test_a_leaf_without_a_planner_fails_within_its_limit(
    client: Client, leaf_for: Callable[..., PlanTaskLeaf]
) -> None:
    leaf = leaf_for('/nobody_plans_here', 'hover;', meet_limit_s=0.5)
    assert end_of(client, leaf) == Status.FAILURE
    assert 'not met, for 0.5 s' in leaf.feedback_message
    assert leaf.result is None


def test_late_feedback_of_a_task_that_was_left_is_not_that_of_the_next() -> None:
    heard: list[Callable[[PlanTask.Feedback], None]] = []

    class Sender:
        def send(self, _: PlanTask.Goal, on_feedback: Callable[..., None]) -> Any:
            heard.append(on_feedback)
            return None

    leaf = PlanTaskLeaf('tidy up', Sender(), PlanTask.Goal())  # type: ignore[arg-type]
    leaf.initialise()
    leaf.initialise()
    heard[0](PlanTask.Feedback(call='late'))
    assert leaf.feedback is None
    heard[1](now := PlanTask.Feedback(call='now'))
    assert [leaf.feedback] == [now]
