"""Chats and robots on one planner and one engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import SimulatedDriver
from timely_llm_ros.engines import EngineInfo
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.errors import ConfigurationError, InvalidTaskError, PlanError
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import (
    PlannerConfig,
    SegmentReady,
    SegmentStarted,
    Task,
    TaskResult,
    TaskStatus,
)
from timely_llm_ros.planner.planner import Planner
from timely_llm_ros.planner.prompts import read_prompts
from timely_llm_ros.planner.task_prompts import TaskPrompts
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.utility import NORMAL, URGENT
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.planner import PlannerEvent

SKILL_SETS = {name: find_skill_set(name) for name in ('tello', 'chatbot')}
STORY = 'Once there was a king. ' + 'He had a long name that nobody knew. ' * 4 + '\n\nThe end.'
TEXTS = {'fly': 'takeoff;move_up(50);land;', 'chat': STORY, 'bad': 'Good so far. Then \x1b[2J.'}


def serve(
    names: tuple[str, ...], *, max_tokens: int = 512, **options: Any
) -> tuple[list[PlannerEvent], list[TaskResult]]:
    async def main() -> tuple[list[PlannerEvent], list[TaskResult]]:
        clock, events = LoopClock(), list[Any]()
        engine = SimulatedEngine(
            SimulatedConfig(
                plan_text=lambda request: TEXTS[request.generation_id.split('-')[0]], **options
            )
        )
        skill_set_of = {name: 'tello' if name.startswith('fly') else 'chatbot' for name in names}
        executors = {
            name: SegmentExecutor(
                SimulatedDriver(SKILL_SETS[skill_set]), SKILL_SETS[skill_set], clock
            )
            for name, skill_set in skill_set_of.items()
        }
        planner = Planner(
            engine=engine,
            robots={n: LocalRobotLink(e, clock, latency_s=0.008) for n, e in executors.items()},
            skill_sets=SKILL_SETS,
            clock=clock,
            on_event=events.append,
            config=PlannerConfig(max_tokens=max_tokens),
        )
        for executor in executors.values():
            await executor.start()
        await planner.start()
        handles = [
            planner.submit(
                planner.prepare(
                    Task(
                        name,
                        name,
                        skill_set,
                        'whatever it says',
                        Scene(()),
                        URGENT if skill_set == 'tello' else NORMAL,
                    )
                )
            )
            for name, skill_set in skill_set_of.items()
        ]
        results = [await handle.result() for handle in handles]
        await planner.close()
        for executor in executors.values():
            await executor.close()
        return events, results

    return run_virtual(main())


def texts_of(events: list[PlannerEvent], task_id: str) -> list[str]:
    ready = [e for e in events if isinstance(e, SegmentReady) and e.task_id == task_id]
    return [event.segment.text for event in ready]


@pytest.mark.parametrize('mode', ['segmented', 'stream', 'whole_plan'])
def test_readers_and_drones_share_one_planner(mode: str) -> None:
    names = ('chat-1', 'fly-1', 'chat-2')
    events, results = serve(names, mode=mode)
    assert [result.status for result in results] == [TaskStatus.SUCCEEDED] * 3
    parts = 1 if mode == 'whole_plan' else 6
    assert [result.segments for result in results] == [parts, 1 if parts == 1 else 3, parts]
    for name in ('chat-1', 'chat-2'):
        assert ''.join(texts_of(events, name)) == STORY
    words = len(STORY.split())
    assert results[0].execution_s == pytest.approx(words / 5)


@pytest.mark.parametrize('mode', ['segmented', 'whole_plan'])
def test_an_answer_that_is_cut_off_is_read_as_far_as_it_goes(mode: str) -> None:
    events, (result, flight) = serve(('chat-1', 'fly-1'), max_tokens=18, mode=mode)
    assert result.status is TaskStatus.SUCCEEDED
    told = ''.join(texts_of(events, 'chat-1'))
    assert STORY.startswith(told)
    assert not told.endswith('.')
    assert result.tokens == 18
    assert flight.status is TaskStatus.SUCCEEDED
    _, (short,) = serve(('fly-1',), max_tokens=5, mode=mode)
    assert short.ending.code == PlanError.code
    assert 'no end after 5 tokens' in short.ending.message


def test_a_reader_is_busy_while_the_next_sentence_is_written() -> None:
    events, (result,) = serve(('chat-1',))
    starts = [event for event in events if isinstance(event, SegmentStarted)]
    assert [event.index for event in starts] == list(range(6))
    first, *later = result.waits_s
    assert first > 0
    assert sum(later) == pytest.approx(0.0, abs=1e-6)


def test_what_a_reader_must_not_get_ends_the_chat() -> None:
    events, (result,) = serve(('bad-1',))
    assert texts_of(events, 'bad-1') == ['Good so far.']
    assert result.ending.code == PlanError.code
    assert 'control characters' in result.ending.message


async def test_a_question_that_the_context_has_no_room_for_is_refused() -> None:
    prompts = TaskPrompts()
    info = EngineInfo('torch', find_model(''), 1, 'float32', 1, 1000, 0.0, context_tokens=1000)
    await prompts.load('terse', info, SKILL_SETS)
    words = 'find the red cup ' * 200
    assert prompts.build(SKILL_SETS['chatbot'], Scene(), words).body.endswith('Answer:\n')
    with pytest.raises(InvalidTaskError, match='expected fewer than 1000'):
        prompts.build(SKILL_SETS['chatbot'], Scene(), words * 2)


def test_a_file_of_prompts_has_messages() -> None:
    line = (
        '{"id": "a", "skill_set": "chatbot", "messages": [{"role": "user", "content": "hi"}, '
        '{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "how?"}]}'
    )
    (prompt,) = read_prompts([line], 'prompts')
    assert (prompt.instruction, [it.content for it in prompt.history]) == ('how?', ['hi', 'Hello.'])
    for wrong in ('"messages": 3', '"messages": [3]', '"messages": [], "instruction": "x"'):
        with pytest.raises(ConfigurationError, match='prompts, line 1: messages'):
            list(read_prompts([f'{{"id": "a", "skill_set": "chatbot", {wrong}}}'], 'prompts'))
