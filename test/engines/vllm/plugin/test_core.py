"""The part of the vLLM plug-in that needs no vLLM: choice and segments."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.freeze_server import SCENE, TELLO, Server, finish
from support.examples import examples

from timely_llm_ros.engines import Cancel, Resume, RobotIdleAt, Suspend
from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.engine import GenerationEnded
from timely_llm_ros.engines.vllm.plugin.core import New, Work
from timely_llm_ros.engines.vllm.uncut_text import UNCUT_TEXT
from timely_llm_ros.scheduling.generation import Phase
from timely_llm_ros.scheduling.options import SchedulingOptions
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.utility import NORMAL, URGENT


def test_text_that_is_no_plan_and_stop_strings_end_a_generation() -> None:
    server = Server(max_running=2, stop_strings=('User:', '###'))
    server.add('junk', 'Sure! Here is a plan: takeoff;')
    server.add('stopped', 'takeoff;land;\nUser: go on;', constrained=False)
    server.add('uncut', 'User: anything ### may come', skill_set=UNCUT_TEXT)
    while len(server.core):
        server.step()
    ended = {e.generation_id: e for e in server.events if isinstance(e, GenerationEnded)}
    assert (ended['junk'].reason, ended['junk'].tokens) == ('invalid_plan', 1)
    assert ended['stopped'].reason == 'stop'
    assert server.texts('stopped') == ['takeoff;', 'land;']
    assert (ended['uncut'].reason, ended['uncut'].tokens) == ('stop', 27)


def test_vllms_own_limit_ends_an_answer_with_what_was_written() -> None:
    server = Server()
    server.add('chat', 'One. And more', skill_set=find_skill_set('chatbot'))
    for _ in range(12):
        server.step()
    step = server.core.begin_step([Work('chat', 1, 30)], server.now_s)
    finish(server.core, step, [New('chat', [101], 'length')], server.now_s)
    server.events += server.core.generations.take_events()
    (ended,) = (e for e in server.events if isinstance(e, GenerationEnded))
    assert (ended.reason, server.texts('chat')) == ('length', ['One.', ' And more'])


def test_a_segment_ends_with_its_token_and_suspends() -> None:
    server = Server(max_running=1)
    server.add('a', 'takeoff;goto(cat_1);')
    for _ in range(len('takeoff;')):
        assert server.core.generations.table.phase('a') is not Phase.HELD
        server.step()
    assert server.texts('a') == ['takeoff;']
    assert server.core.generations.table.phase('a') is Phase.SUSPENDED
    while 'a' in server.core:
        server.step()
    assert server.texts('a') == ['takeoff;', 'goto(cat_1);']
    assert server.late == len('takeoff;goto(cat_1);')
    (ended,) = [event for event in server.events if isinstance(event, GenerationEnded)]
    assert (ended.reason, bytes(ended.token_ids)) == ('stop', b'takeoff;goto(cat_1);')


def test_the_end_of_a_segment_decides_only_where_the_robot_must_answer() -> None:
    server = Server(max_running=1)
    server.add('a', 'takeoff;is_visible(cat_1);')
    while len(server.texts('a')) < 2:
        server.step()
    assert server.late == len('takeoff;is_visible(cat_1)')
    assert server.core.generations.table.phase('a') is Phase.HELD


def test_in_a_pipeline_the_end_of_a_segment_decides_where_others_wait() -> None:
    server = Server(max_running=1)
    server.core.pipeline = True
    server.add('a', 'takeoff;hover;', URGENT)
    while not server.texts('a'):
        server.step()
    assert server.late == len('takeoff;')
    server.add('b', 'scan;')
    while not server.texts('b'):
        assert server.step() == ['b'], 'a first segment goes before a later one that is not due'
    assert server.late == len('takeoff;') + len('scan')


@pytest.mark.parametrize('interrupts', [True, False])
def test_who_was_begun_again_after_a_segment_competes_anew(interrupts: bool) -> None:
    scheduling = SchedulingOptions(interrupts=interrupts)
    server = Server(max_running=1, policy='edf', scheduling=scheduling)
    core = server.core
    server.add('a', 'takeoff;hover;')
    while len(server.left['a']) > len('hover;') + 2:
        server.step()
    # The segment's last token is taken only after the next step was begun.
    step = core.begin_step([Work('a', 1, 100)], server.now_s)
    server.add('b', 'scan;', URGENT)
    token = server.left['a'].pop(0)
    assert not core.decisive([New('a', [token])])
    finish(core, step, [New('a', [token])], server.now_s)
    again = core.begin_step([Work('a', 1, 101)], server.now_s)
    core.compete_anew(step)
    assert core.generations.table.phase('a') is Phase.SUSPENDED
    assert core.choose(server.now_s) == ['b']
    finish(core, again, [New('a', [server.left['a'].pop(0)])], server.now_s)
    core.begin_step([Work('b', 10, 10)], server.now_s)
    # In the middle of a segment there is nothing to compete for.
    core.compete_anew(again)
    assert core.generations.table.phase('b') is Phase.RUNNING


def test_someone_urgent_takes_the_place_in_the_middle_of_a_segment() -> None:
    server = Server(max_running=1, policy='utility')
    server.add('slow', 'goto(cat_1);')
    for _ in range(3):
        assert server.step() == ['slow']
    server.add('urgent', 'takeoff;', URGENT)
    assert server.step() == ['urgent']
    assert server.core.generations.table.phase('slow') is Phase.SUSPENDED
    while len(server.core):
        server.step()
    assert server.texts('slow') == ['goto(cat_1);']


def test_whoever_is_in_another_step_of_a_pipeline_runs_too() -> None:
    core = Server(max_running=2).core
    core.pipeline = True
    for name in ('a', 'b'):
        core.add(GenerationRequest(name, Prompt('', ''), TELLO, SCENE, NORMAL, 0.0), 10)
    first = core.begin_step([Work('a', 10, 10)], 0.0)
    second = core.begin_step([Work('b', 10, 10)], 0.0)
    assert (core.generations.table.phase('a'), core.generations.table.phase('b')) == (
        Phase.RUNNING,
        Phase.RUNNING,
    )
    core.generations.apply(Suspend('a'))
    finish(core, first, [New('a', [ord('t')])], 0.2)
    third = core.begin_step([], 0.2)
    assert (core.generations.table.phase('a'), core.generations.table.phase('b')) == (
        Phase.HELD,
        Phase.RUNNING,
    )
    finish(core, second, [New('b', [ord('t')])], 0.3)
    finish(core, third, [], 0.3)
    core.begin_step([], 0.4)
    assert core.generations.table.phase('b') is Phase.SUSPENDED


def test_a_value_is_awaited_and_appended() -> None:
    server = Server(max_running=2)
    server.add('a', 'is_visible(cat_1);land;')
    while not server.core.awaits_value('a'):
        server.step()
    assert server.core.competing == 0
    assert server.step() == []
    server.core.generations.apply(Resume('a', 'true'))
    assert bytes(server.appended['a']) == b'#true '
    while 'a' in server.core:
        server.step()
    assert server.texts('a') == ['is_visible(cat_1);', 'land;']


def test_a_bad_plan_ends_at_once() -> None:
    server = Server()
    server.add('a', 'goto(dog_9);land;')
    for _ in range(len('goto(dog_9);')):
        server.step()
    assert 'a' not in server.core
    (ended,) = server.events
    assert ended.reason == 'invalid_plan'
    assert 'dog_9' in ended.error


def test_text_that_is_no_plan_is_never_cut() -> None:
    server = Server()
    server.add('chat', 'one; two; #three', skill_set=UNCUT_TEXT)
    while len(server.core):
        server.step()
    (ended,) = server.events
    assert (ended.reason, bytes(ended.token_ids)) == ('stop', b'one; two; #three')


def test_who_is_due_last_is_spilled_first() -> None:
    server = Server(max_running=4)
    for name in 'abcd':
        server.add(name, 'takeoff;hover;')
    server.step()
    for name, idle_s in (('a', 3.0), ('b', 9.0), ('c', 1.0), ('d', 5.0)):
        server.core.generations.apply(RobotIdleAt(name, idle_s))
    assert server.core.victims(keep=['d']) == ['b', 'a', 'c']
    server.core.spill('b')
    assert server.core.victims(keep=()) == ['d', 'a', 'c']
    assert server.state().spilled == 1


@examples(30)
@given(st.integers(0, 10_000))
def test_whatever_happens_every_generation_ends_once_with_its_own_segments(seed: int) -> None:
    rng = random.Random(seed)
    server = Server(max_running=rng.randint(1, 4), policy=rng.choice(['utility', 'least_loss']))
    plans = ['takeoff;goto(cat_1);land;', 'hover;', 'repeat(2){hover;};land;', 'scan;land;']
    waiting = {f'g{number}': rng.choice(plans) for number in range(8)}
    plan_of = dict(waiting)
    canceled = set()
    for _ in range(2000):
        if waiting and rng.random() < 0.3:
            name, plan = waiting.popitem()
            server.add(name, plan, rng.choice([NORMAL, URGENT]))
        live = [name for name in plan_of if name in server.core]
        if live:
            name, action = rng.choice(live), rng.random()
            if action < 0.1:
                server.core.generations.apply(Suspend(name))
            elif action < 0.3:
                server.core.generations.apply(Resume(name))
            elif action < 0.31:
                server.core.generations.apply(Cancel(name))
                canceled.add(name)
        ran = server.step()
        assert len(ran) == len(set(ran))
        if not waiting and not len(server.core):
            break
    ends = [event for event in server.events if isinstance(event, GenerationEnded)]
    assert sorted(event.generation_id for event in ends) == sorted(plan_of)
    for event in ends:
        whole = plan_of[event.generation_id]
        text = ''.join(server.texts(event.generation_id))
        if event.generation_id in canceled:
            assert whole.startswith(text)
        else:
            assert (event.reason, text) == ('stop', whole)


# The contract


def test_a_prompt_that_is_partly_computed_competes_as_one_that_must_be() -> None:
    server = Server()
    server.add('a', 'land();')
    core = server.core
    assert core.choose(0.0) == ['a']
    step = core.begin_step([Work('a', 6, 6)], 0.0)
    finish(core, step, [], 0.5)
    assert core.generations.table.phase('a') is Phase.QUEUED
    assert not core.generations.step_times.known
    step = core.begin_step([Work('a', 4, 10)], 0.5)
    assert core.generations.table.phase('a') is Phase.RUNNING
    finish(core, step, [New('a', [ord('l')])], 0.75)
    step = core.begin_step([Work('a', 1, 11)], 0.75)
    finish(core, step, [New('a', [ord('a')])], 1.0)
    assert core.generations.step_times.expected_s(1) == 0.25
    assert core.generations.step_times.prefill_s == pytest.approx(0.5), 'both parts, less a step'


def test_tokens_that_must_follow_count_as_forwarded_and_their_step_as_one_of_decoding() -> None:
    server = Server(max_running=1)
    server.add('a', 'takeoff;land;')
    server.step()
    core, (generation,) = server.core, tuple(server.core.generations)
    step = core.begin_step([Work('a', 1, 11)], server.now_s)
    finish(core, step, [New('a', list(b'akeoff;la'))], server.now_s)
    server.events += core.generations.take_events()
    assert server.texts('a') == ['takeoff;']
    assert (generation.tokens, generation.forwarded, generation.brought) == (10, 8, 9)
    assert (generation.segment_tokens, generation.segment_forwarded) == (2, 2)
    step = core.begin_step([Work('a', 9, 20)], server.now_s)
    assert (step.decodes_only, step.begun) == (True, 0)
    assert generation.context.missing == 0
    # Its new segment has no token yet that the model chose, so it competes anew.
    core.compete_anew(step)
    assert core.generations.phase(generation) is Phase.SUSPENDED
    # The rest of a prompt is no such step.
    finish(core, step, [New('a', list(b'n'))], server.now_s)
    assert not core.begin_step([Work('a', 2, 21)], server.now_s).decodes_only
