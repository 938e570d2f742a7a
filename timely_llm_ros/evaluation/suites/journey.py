"""A plan's way from a model's tokens to a robot's actions, by the code that runs on real fleets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import SimulatedDriver, SimulatedOptions
from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine
from timely_llm_ros.execution import ExecutorLimits, LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import Planner, PlannerConfig, Task
from timely_llm_ros.skills import Prompt
from timely_llm_ros.skills.grammar import decoding_grammar
from timely_llm_ros.utility import NORMAL
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.engines.texts import TokenTexts
    from timely_llm_ros.evaluation.suites.suite import SuiteTask
    from timely_llm_ros.planner import TaskResult
    from timely_llm_ros.skills import Call, Scene, SkillSet

_NOBODY_WATCHES = ExecutorLimits(progress_period_s=None)


@dataclass(frozen=True, slots=True)
class Journey:
    """What became of a plan.

    Attributes:
        calls: What the robot did to its end, in order.
        result: What the planner reports; its message says what was refused.
    """

    calls: tuple[Call, ...]
    result: TaskResult


def travel(task: SuiteTask, skill_set: SkillSet, tokens: Sequence[str], seed: int = 0) -> Journey:
    """Plan a task with a model that writes these tokens, on a simulated robot in virtual time.

    The planner cuts, checks and sends segments; the robot's executor checks them once more and runs
    them, each call as long as its skill's duration says.

    Args:
        task: The task.
        skill_set: Its suite's.
        tokens: A plan, in the pieces in which a model writes it.
        seed: Of the robot's times.
    """
    return run_virtual(_travel(task, skill_set, tokens, seed))


async def _travel(
    task: SuiteTask, skill_set: SkillSet, tokens: Sequence[str], seed: int
) -> Journey:
    done: list[Call] = []

    def note(call: Call, _scene: Scene) -> None:
        done.append(call)

    clock = LoopClock()
    driver = SimulatedDriver(skill_set, SimulatedOptions(seed=seed), clock=clock, values=note)
    executor = SegmentExecutor(driver, skill_set, clock, _NOBODY_WATCHES)
    planner = Planner(
        engine=SimulatedEngine(SimulatedConfig(plan_text=lambda _: tokens)),
        robots={'robot': LocalRobotLink(executor, clock)},
        skill_sets={skill_set.name: skill_set},
        clock=clock,
        config=PlannerConfig(max_tokens=len(tokens) + 1),
    )
    await executor.start()
    await planner.start()
    try:
        wanted = Task(task.name, 'robot', skill_set.name, task.instruction, task.scene, NORMAL)
        handle = planner.submit(planner.prepare(wanted))
        result = await handle.result()
        return Journey(tuple(done), result)
    finally:
        await planner.close()
        await executor.close()


def constrained_tokens(texts: TokenTexts, task: SuiteTask, skill_set: SkillSet) -> list[int] | None:
    """Return the tokens in which a model writes a task's right plan under the decoding grammar.

    Of the tokens that the grammar allows and the plan goes on with, the longest one is next.

    Args:
        texts: The model's tokenizer.
        task: The task.
        skill_set: Its suite's.

    Returns:
        None where the grammar does not let it write the plan, or not end there.
    """
    room = len(task.gold) + _ROOM
    request = GenerationRequest(
        task.name, Prompt('', ''), skill_set, task.scene, NORMAL, 0.0, max_tokens=room
    )
    rules = decoding_grammar(skill_set, task.scene)
    state = texts.matcher(request, rules, whole_plan=False, room=room)
    rest, tokens = task.gold.encode(), list[int]()
    while rest:
        allowed = [it for it in _set_bits(state.allowed) if it not in texts.end_ids]
        fitting = [
            it for it in allowed if texts.bytes_of(it) and rest.startswith(texts.bytes_of(it))
        ]
        if not fitting:
            return None
        best = max(fitting, key=lambda it: len(texts.bytes_of(it)))
        state.take([best])
        tokens.append(best)
        rest = rest[len(texts.bytes_of(best)) :]
    return tokens if texts.end_ids.intersection(_set_bits(state.allowed)) else None


_ROOM = 64
"""Tokens that a plan has left at its end, so that nothing hurries it to one."""


def _set_bits(mask: NDArray[np.int32]) -> list[int]:
    found: list[int] = np.flatnonzero(
        np.unpackbits(mask.view(np.uint8), bitorder='little')
    ).tolist()
    return found
