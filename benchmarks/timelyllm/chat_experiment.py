"""Serves chats with the real planner on virtual time: real text, real segmenter, real readers.

The reader is a robot whose only skill takes as long as reading the text; nothing but the skill
set tells the planner and the engine that this is a chat.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.common import running_fleet
from benchmarks.workloads import GROUP, NETWORK_S, ServedTask, chat_task
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.execution import ExecutorLimits
from timely_llm_ros.planner import PlannerConfig, Task
from timely_llm_ros.skills import FreeText, Scene, SkillSet
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.workloads import Chat, System
    from timely_llm_ros.engines.simulated import Hardware, SimulatedEngine
    from timely_llm_ros.planner import TaskResult
    from timely_llm_ros.skills import SegmentEnd

_NOTHING = Scene(())


def chatbot(segments: SegmentEnd) -> SkillSet:
    """Return the shipped chat skill set with segments that end there."""
    shipped = find_skill_set('chatbot')
    skill = shipped.free_text.skill if shipped.free_text is not None else ''
    return replace(shipped, free_text=FreeText(skill, segments))


def run_chats(
    chats: Sequence[Chat],
    system: System,
    skill_set: SkillSet,
    hardware: Hardware,
    *,
    network_s: float = NETWORK_S,
) -> tuple[ServedTask, ...]:
    """Serve chats, each to a reader of its own; return a record of each, in the given order.

    Args:
        chats: What to serve.
        system: How to serve it.
        skill_set: One for free text.
        hardware: Says how long engine steps take.
        network_s: One-way time from the engine to a reader (s).

    Raises:
        ConfigurationError: An option is not known or out of range.
    """
    engine = system.engine(
        hardware, {f'chat {number}': chat.tokens for number, chat in enumerate(chats)}
    )
    results = run_virtual(_serve(chats, engine, skill_set, network_s))
    return tuple(
        ServedTask(chat_task(chat, skill_set), f'reader {number}', 0.0, result)
        for number, (chat, result) in enumerate(zip(chats, results, strict=True))
    )


async def _serve(
    chats: Sequence[Chat], engine: SimulatedEngine, skill_set: SkillSet, network_s: float
) -> list[TaskResult]:
    clock = LoopClock()
    async with running_fleet(
        engine,
        (f'reader {number}' for number in range(len(chats))),
        skill_set,
        clock,
        network_s=network_s,
        # A reader who waits is not to be made safe.
        limits=ExecutorLimits(idle_limit_s=1e9, progress_period_s=None),
        config=PlannerConfig(max_tokens=max((len(chat.tokens) for chat in chats), default=1) + 1),
    ) as planner:
        handles = []
        for number, chat in enumerate(chats):
            if chat.at_s > clock.now():
                await clock.sleep(chat.at_s - clock.now())
            task = Task(
                f'chat {number}',
                f'reader {number}',
                skill_set.name,
                'Tell me a story.',
                _NOTHING,
                NORMAL,
                task_kind=GROUP,
            )
            handles.append(planner.submit(planner.prepare(task)))
        return list(await asyncio.gather(*(handle.result() for handle in handles)))
