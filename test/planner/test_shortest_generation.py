from __future__ import annotations

from timely_llm_ros.engines.engine import GenerationEnded
from timely_llm_ros.planner import Task, TaskAccepted
from timely_llm_ros.planner.shortest_generation import ShortestGeneration
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.utility import NORMAL


def task(task_id: str, skill_set: str = 'tello') -> Task:
    return Task(task_id, 'drone_1', skill_set, 'land', Scene(), NORMAL)


def accepted(item: Task) -> TaskAccepted:
    return TaskAccepted(task_id=item.task_id, robot=item.robot, at_s=0.0, task=item)


def test_the_shortest_whole_plan_of_a_skill_set_is_the_bound() -> None:
    bound = ShortestGeneration()
    assert bound.estimate_s(task('new')) is None
    for name, duration_s in (('a', 0.3), ('b', 0.2), ('c', 0.4)):
        bound.on_planner_event(accepted(task(name)))
        bound.on_engine_event(GenerationEnded(name, 'stop', '', 12, duration_s))
    assert bound.estimate_s(task('new')) == 0.2
    assert bound.estimate_s(task('new', 'arm')) is None


def test_generations_that_were_cut_short_say_nothing() -> None:
    bound = ShortestGeneration()
    bound.on_planner_event(accepted(task('a')))
    for reason in ('canceled', 'length', 'invalid_plan', 'error'):
        bound.on_engine_event(GenerationEnded('a', reason, 'x', 1, 0.001))
    assert bound.estimate_s(task('new')) is None
