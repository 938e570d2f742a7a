"""A robot's fallback plan where no engine answers, on virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.scripted import engine_of
from support.examples import examples

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.engines import EngineStateChanged, GenerationEnded
from timely_llm_ros.engines.engine import EngineState, GenerationState, ServerState
from timely_llm_ros.errors import (
    EngineError,
    ExecutionError,
    NotApprovedError,
    SkillSetError,
    TaskCanceledError,
)
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor, read_envelope
from timely_llm_ros.planner import PlannerConfig, SegmentReady, TaskEnded
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.skills import SkillSet, fallback_segments
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set
from timely_llm_ros.testing import (
    EXACT_SKILLS,
    RecordingDriver,
    Script,
    ScriptedEngine,
    acts,
    in_fleet,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from timely_llm_ros.planner import TaskResult
    from timely_llm_ros.testing import Fleet

SKILLS = replace(EXACT_SKILLS, fallback={'any': 'act(200);halt;', 'dodge': 'act(300);'})
CONFIG = PlannerConfig(fallback_after_s=2.0)
WELL = ServerState('http://b', True, '', 1, 1, 0.0, 0)
LOST = ServerState('http://a', False, 'gone', 0, 0, 0.0, 1)


class Mute(ScriptedEngine):
    """Takes everything and answers nothing, as a process that hangs."""

    def begin(self, request: object) -> None:
        """Take a request."""


def fly(
    body: Callable[[Fleet], Awaitable[None]],
    engine: ScriptedEngine | None = None,
    config: PlannerConfig = CONFIG,
    skill_set: SkillSet = SKILLS,
) -> Fleet:
    return in_fleet(body, engine=engine, config=config, skill_set=skill_set)


def test_an_engine_that_dies_leaves_the_robot_to_its_fallback_plan() -> None:
    results: list[TaskResult] = []

    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t', instruction='1 1 1'))
        await asyncio.sleep(0.5)
        engine_of(fleet).fail('killed')
        results.append(await handle.result())

    fleet = fly(body, ScriptedEngine(lambda _: Script(acts(1, 1, 1), every_s=0.4)))
    # What the robot had is finished, then the fallback plan follows.
    done = [call for event, call in fleet.notes() if event == 'end']
    assert done == ['act(1000)', 'act(200)', 'halt']
    assert results[0].ending.code == EngineError.code
    assert results[0].ending.message == (
        "engine failed: killed; its robot did the fallback plan 'act(200);halt;'"
    )
    assert results[0].segments == 3
    assert results[0].response_s == pytest.approx(0.4)
    ready = [one for one in fleet.events_of('t') if isinstance(one, SegmentReady)]
    assert [one.fallback for one in ready] == ['', *['engine failed: killed'] * 2]
    assert [one.segment.index for one in ready] == [0, 1, 2]


def test_an_engine_that_hangs_is_given_its_time_and_earns_nothing() -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t', task_kind='dodge'))
        await asyncio.sleep(1.99)
        assert fleet.notes() == []
        result = await handle.result()
        assert result.ending.message.startswith('no engine answered for 2 s; ')
        # The first action was no answer to the task.
        assert (result.response_s, result.utility, result.tokens) == (None, 0.0, 0)

    fleet = fly(body, Mute())
    assert [call for event, call in fleet.notes() if event == 'end'] == ['act(300)']
    assert engine_of(fleet).canceled == ['t']


def test_tasks_that_come_while_there_is_no_engine_get_it_too_and_later_ones_plans() -> None:
    async def body(fleet: Fleet) -> None:
        engine_of(fleet).fail('killed')
        result = await fleet.submit(fleet.task('a', instruction='1')).result()
        assert (result.ending.code, result.segments) == (EngineError.code, 2)
        engine_of(fleet).recover()
        result = await fleet.submit(fleet.task('b', instruction='1')).result()
        assert result.ending.succeeded

    fly(body)


def test_an_engine_that_is_back_in_time_is_used() -> None:
    async def body(fleet: Fleet) -> None:
        engine_of(fleet).fail('killed')
        handle = fleet.submit(fleet.task('a', instruction='1'))
        await asyncio.sleep(1.5)
        engine_of(fleet).recover()
        assert (await handle.result()).ending.succeeded

    assert ('end', 'act(200)') not in fly(body).notes()


def test_a_long_wait_for_a_value_or_for_others_is_no_silence() -> None:
    async def body(fleet: Fleet) -> None:
        # Its robot holds the plan up for 9 s; the other one waits for an engine that is busy.
        held = fleet.submit(fleet.task('a', robot='r1', instruction='look'))
        waits = fleet.submit(fleet.task('b', robot='r2', instruction='late'))
        for _ in range(50):
            await asyncio.sleep(0.1)
            engine_of(fleet).emit(EngineStateChanged(state()))
        assert (await waits.result()).ending.succeeded
        assert (await held.result()).ending.succeeded

    def script(request: object) -> Script:
        if 'look' in request.prompt.body.split('task:')[1]:  # type: ignore[attr-defined]
            return Script('act(9000);look(cup_1);act(100);')
        return Script(acts(1), every_s=4.5)

    fly(body, ScriptedEngine(script))


def state(*servers: ServerState, kv_tokens: int = 0) -> EngineState:
    one = GenerationState('b', Phase.RUNNING, 0.0, 0.0, 0, kv_tokens)
    return EngineState(1, 0, 0, 0, kv_tokens, 0, 0.0, (one,), servers=servers)


@pytest.mark.parametrize(('every_s', 'done'), [(None, 'act(200)'), (0.1, 'act(1000)')])
def test_of_an_engine_with_servers_only_tokens_are_an_answer(
    every_s: float | None, done: str
) -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('a'))
        for number in range(50):
            await asyncio.sleep(0.1)
            # What is chosen has its prompt at once, whether or not a server begins with it.
            tokens = 0 if not number else 80 + number * (every_s is not None)
            engine_of(fleet).emit(EngineStateChanged(state(WELL, kv_tokens=tokens)))
            # That others are cancelled meanwhile is the planner's own doing.
            engine_of(fleet).emit(GenerationEnded(f'c{number}', 'canceled', '', 0, 0.0))
        await handle.result()

    fleet = fly(body, ScriptedEngine(lambda _: Script(acts(1), every_s=4.5)))
    assert next(call for event, call in fleet.notes() if event == 'end') == done


@pytest.mark.parametrize(('refused', 'done'), [(False, ['act(200)', 'halt']), (True, [])])
def test_a_generation_that_the_engine_gives_up_gets_it_and_a_refused_one_does_not(
    *, refused: bool, done: list[str]
) -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t'))
        await asyncio.sleep(0.5)
        engine_of(fleet).emit(GenerationEnded('t', 'error', 'HTTP 500', 0, 0.0, refused=refused))
        result = await handle.result()
        assert result.ending.code == EngineError.code
        assert result.ending.message.startswith('HTTP 500')

    fleet = fly(body, Mute())
    assert [call for event, call in fleet.notes() if event == 'end'] == done


def test_after_a_value_the_engine_has_all_of_its_time() -> None:
    async def body(fleet: Fleet) -> None:
        # Its robot has looked after 1.7 s of the 2 s after the first look at the silence.
        engine = engine_of(fleet)
        handle = fleet.submit(fleet.task('t', instruction='x'))
        assert (await handle.result()).ending.succeeded
        assert len(engine.resumed) == 1

    fly(body, ScriptedEngine(lambda _: Script('act(2500);look(cup_1);act(100);', every_s=1.5)))


def test_word_of_servers_of_which_none_is_well_is_no_answer() -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('a'))
        for _ in range(30):
            await asyncio.sleep(0.1)
            engine_of(fleet).emit(EngineStateChanged(state(LOST)))
        assert (await handle.result()).segments == 2

    fly(body, Mute())


@pytest.mark.parametrize(
    ('config', 'skill_set'), [(PlannerConfig(), SKILLS), (CONFIG, EXACT_SKILLS)]
)
def test_without_the_parameter_or_a_plan_the_task_ends_as_ever(
    config: PlannerConfig, skill_set: SkillSet
) -> None:
    async def body(fleet: Fleet) -> None:
        handle = fleet.submit(fleet.task('t', instruction='1'))
        await asyncio.sleep(0.01)
        engine_of(fleet).fail('killed')
        assert (await handle.result()).ending.message == 'engine failed: killed'

    notes = fly(body, config=config, skill_set=skill_set).notes()
    assert {event for event, _ in notes} <= {'safe'}


def test_a_fallback_plan_waits_for_approval_as_any_plan() -> None:
    risky = replace(EXACT_SKILLS.skills['act'], risk='high')
    skills = replace(SKILLS, skills={**SKILLS.skills, 'act': risky})
    config = replace(CONFIG, approval_above='medium', approval_limit_s=3.0)

    async def body(fleet: Fleet) -> None:
        result = await fleet.submit(fleet.task('t')).result()
        assert result.ending.code == NotApprovedError.code

    assert {event for event, _ in fly(body, Mute(), config, skills).notes()} <= {'safe'}


def test_a_fallback_plan_stays_in_the_envelope_as_any_plan() -> None:
    tello = replace(find_skill_set('tello'), fallback={'any': 'takeoff;move_forward(400);land;'})

    async def body(fleet: Fleet) -> None:
        clock = LoopClock()
        driver = RecordingDriver(tello, 'd', fleet.log.append)
        room = read_envelope({'workspace': {'x': [-2, 2], 'y': [-2, 2], 'z': [0, 3]}})
        executor = SegmentExecutor(driver, tello, clock, envelope=room)
        await executor.start()
        fleet.skill_sets['tello'], fleet.executors['d'] = tello, executor
        fleet.links['d'] = LocalRobotLink(executor, clock)
        result = await fleet.submit(fleet.task('t', robot='d', skill_set='tello')).result()
        assert result.ending.code == ExecutionError.code
        assert 'workspace' in result.ending.message

    notes = fly(body, Mute()).notes('d')
    assert [call for event, call in notes if event == 'start'] == ['takeoff']


TIMES = st.floats(0.0, 4.0, allow_nan=False)


@examples(60)
@given(fail_s=TIMES, cancel_s=TIMES | st.none(), back_s=TIMES, every_s=st.floats(0.05, 1.5))
def test_whenever_the_engine_dies_the_task_ends_once_and_the_robot_does_whole_plans_in_order(
    fail_s: float, cancel_s: float | None, back_s: float, every_s: float
) -> None:
    codes: list[int] = []

    async def body(fleet: Fleet) -> None:
        loop = asyncio.get_running_loop()
        handle = fleet.submit(fleet.task('t', instruction='x'))
        loop.call_later(fail_s, engine_of(fleet).fail, 'killed')
        loop.call_later(fail_s + back_s, engine_of(fleet).recover)
        if cancel_s is not None:
            loop.call_later(cancel_s, handle.cancel)
        codes.append((await handle.result()).ending.code)

    fleet = fly(body, ScriptedEngine(lambda _: Script(acts(1, 1), every_s=every_s)))
    assert len(fleet.events_of('t', TaskEnded)) == 1
    done = [call for event, call in fleet.notes() if event == 'end']
    generated = done.count('act(1000)')
    match codes[0]:
        case EngineError.code:
            assert done == ['act(1000)'] * generated + ['act(200)', 'halt']
        case TaskCanceledError.code:
            whole = ['act(1000)'] * generated + ['act(200)', 'halt']
            assert done == whole[: len(done)]
        case code:
            assert (code, done) == (0, ['act(1000)'] * 2)


@pytest.mark.parametrize(
    ('name', 'plan'),
    [
        ('tello', 'hover;land;'),
        ('rover', 'stop;land;'),
        ('arm', 'stop;home;'),
        ('nav2', 'stop;'),
        ('ros2_control', 'stop;'),
        ('chatbot', 'I cannot answer at the moment, please ask again later.'),
    ],
)
def test_what_ships_has_fallback_plans(name: str, plan: str) -> None:
    segments = fallback_segments(find_skill_set(name), 'anything', 3)
    assert ''.join(segment.text for segment in segments) == plan
    assert [segment.index for segment in segments] == list(range(3, 3 + len(segments)))


@pytest.mark.parametrize(
    ('plans', 'problem'),
    [
        ("{any: 'explode;'}", 'explode'),
        ("{any: 'halt'}", 'expected the statement to end with ";"'),
        ("{any: 'look(cup_1);'}", 'cup_1'),
        ("{any: ' '}", 'expected'),
        ('{}', '0 plans: expected 1 to 64'),
        ("{land: 'repeat(11){halt;};'}", '11'),
    ],
)
def test_a_fallback_plan_that_no_model_may_write_is_refused(plans: str, problem: str) -> None:
    text = (
        'name: x\ndescription: x\nsafe_action: halt\nfallback: ' + plans + '\nskills:\n'
        '  halt: {description: stop, duration: {model: constant, seconds: 0}}\n'
        '  look: {description: look, blocking: true, returns: bool, '
        'arguments: {target: {kind: object}}, duration: {model: constant, seconds: 1}}\n'
    )
    with pytest.raises(SkillSetError) as caught:
        parse_skill_set(text, 'x.yaml')
    assert problem in str(caught.value)
    assert caught.value.key.startswith('fallback')
