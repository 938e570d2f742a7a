"""The openai engine against servers that have chats and nothing more."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.engines.chat_server import ChatServer
from support.engines.completion_server import CompletionServer
from support.engines.server_runs import Run, request

from timely_llm_ros.engines.openai.chat_sequences import GO_ON
from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from support.engines.chat_server import Messages

    from timely_llm_ros.engines.commands import GenerationRequest

pytestmark = pytest.mark.usefixtures('quick_retries')

CHATBOT, TELLO = find_skill_set('chatbot'), find_skill_set('tello')
PROMPTS = load_prompts('auto', '', messages=True)
PLAN = 'takeoff; move_up(50);\nlog("up, there");is_visible( cat_N );#true goto(cat_N);land;'
ANSWER = 'One. Two of N!\n\nThree in "N". And the last'


def written(messages: Messages) -> str:
    """What the model writes: the rest of what it was to write from the beginning."""
    if messages[0]['role'] != 'system':
        return 'yes'
    # Tasks are told apart by their number, which the question has.
    asked = next(it['content'] for it in reversed(messages) if 'number ' in it['content'])
    whole = ANSWER if 'answer' in asked else PLAN
    whole = whole.replace('N', asked.partition('number ')[2].split()[0])
    said = messages[-2]['content'] if messages[-1]['content'] == GO_ON else ''
    assert whole.startswith(said), said
    return whole[len(said) :]


def task(number: int, **options: Any) -> GenerationRequest:
    skill_set = options.pop('skill_set', TELLO)
    made = request(number, skill_set=skill_set, **{'max_tokens': 200, **options})
    what = 'answer' if skill_set is CHATBOT else 'look'
    prompt = PROMPTS.build(skill_set, made.scene, f'{what}: number {number + 1} please')
    return replace(made, prompt=prompt)


def plan_of(run: Run, number: int) -> list[str]:
    return [event.segment.text for event in run.segments.get(f'g{number}', [])]


def expected(number: int) -> list[str]:
    name = f'cat_{number + 1}'
    return [
        'takeoff;', 'move_up(50);', 'log("up, there");', f'is_visible({name});', f'goto({name});',
        'land;',
    ]  # fmt: skip


CHAT = {'api': 'chat'}


@pytest.mark.parametrize('pieces', [r'\w+|\s+|.', r'.{1,7}', r'.+'])
@pytest.mark.parametrize('mode', ['segmented', 'stream'])
async def test_plans_come_segment_by_segment(pieces: str, mode: str) -> None:
    async with (
        ChatServer(written, pieces=pieces) as server,
        Run([server.url], {**CHAT, 'max_running': 2, 'mode': mode}) as run,
    ):
        for number in range(5):
            run.engine.submit(task(number))
        await run.all_ended(range(5))
        for number in range(5):
            assert plan_of(run, number) == expected(number), run.ended[f'g{number}'].error
            assert run.ended[f'g{number}'].reason == 'stop'
        assert server.most_running <= 3
        assert len(server.requests) >= 1 + 2 * 5
        assert {body['model'] for body in server.requests} == {'talker'}
        assert '/health' not in server.paths
        # Whoever is asked on is told what it wrote, the robot's answer included.
        more = [it['messages'] for it in server.requests if it['messages'][-1]['content'] == GO_ON]
        assert any(messages[-2]['content'].endswith('#true ') for messages in more)


async def test_answers_are_cut_into_sentences() -> None:
    async with ChatServer(written) as server, Run([server.url], CHAT) as run:
        run.engine.submit(task(3, skill_set=CHATBOT))
        await run.all_ended([3])
        assert plan_of(run, 3) == ['One.', ' Two of 4!', '\n\nThree in "4".', ' And the last']
        assert run.ended['g3'].reason == 'stop'


async def test_text_is_checked_as_strictly() -> None:
    for text, error in (
        ('Sure! takeoff;land;', "'S': expected a statement"),
        ('takeoff;goto(dog_9);', "'dog_9': expected the name of an object"),
        ('takeoff;goto(cat_1', 'expected the statement to end'),
        ('takeoff;is_visible(cat_1);#true land;', ''),
    ):
        async with (
            ChatServer(lambda messages, text=text: text) as server,  # type: ignore[misc]
            Run([server.url], {**CHAT, 'mode': 'stream'}) as run,
        ):
            run.answers = False
            run.engine.submit(task(0))
            if not error:
                await run.until(lambda: len(run.segments.get('g0', [])) == 2)
                run.engine.cancel('g0')
            await run.all_ended([0])
            assert error in run.ended['g0'].error
            assert plan_of(run, 0)[:1] == (['takeoff;'] if text.startswith('takeoff') else [])


@pytest.mark.parametrize('most', [6, 9, 16])
async def test_a_plan_that_the_server_cuts_off_is_brought_to_its_end(most: int) -> None:
    async with ChatServer(written) as server, Run([server.url], CHAT) as run:
        for number in range(3):
            run.engine.submit(task(number, max_tokens=most))
        run.engine.submit(task(3, max_tokens=4, skill_set=CHATBOT))
        await run.all_ended(range(4))
        for number in range(3):
            assert run.ended[f'g{number}'].reason == 'stop', run.ended[f'g{number}']
            assert plan_of(run, number)[0] == 'takeoff;'
        assert run.ended['g3'].reason == 'length'
        assert ''.join(plan_of(run, 3)) == 'One. Two'


async def test_loops_that_ask_for_too_much_are_not_begun() -> None:
    async with (
        ChatServer(lambda _: 'repeat(10){repeat(10){repeat(10){move_up(50);};};};') as server,
        Run([server.url], CHAT) as run,
    ):
        run.engine.submit(task(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'stop'
        assert len(plan_of(run, 0)) == 1


async def test_what_a_server_does_not_take_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    refused = ('max_tokens', 'temperature')
    async with (
        ChatServer(written, refuses=refused, models=None) as server,
        Run([server.url], {**CHAT, 'model': 'some-model'}) as run,
    ):
        run.engine.submit(task(0))
        await run.all_ended([0])
        assert plan_of(run, 0) == expected(0)
        assert server.requests[-1]['model'] == 'some-model'
        assert 'max_completion_tokens' in server.requests[-1]
    assert 'takes no temperature' in caplog.text


async def test_what_is_lost_is_said_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    async with ChatServer(written) as server:
        with caplog.at_level(logging.WARNING):
            async with Run([server.url], {**CHAT, 'measure': True}) as run:
                assert (run.info.model, run.info.times, run.info.messages) == ('talker', None, True)
    for lost in ('not held to a grammar', 'may change it', 'counted by pieces', 'clock alone'):
        assert lost in caplog.text


async def test_a_stream_that_breaks_goes_on_from_its_text() -> None:
    async with ChatServer(written, cut=4) as server, Run([server.url], CHAT) as run:
        run.engine.submit(task(0))
        await run.all_ended([0])
        assert plan_of(run, 0) == expected(0)
        more = [it['messages'] for it in server.requests if it['messages'][-1]['content'] == GO_ON]
        assert more[0][-2] == {'role': 'assistant', 'content': 'takeoff; move_up'}


async def test_servers_that_cannot_serve_say_why() -> None:
    async with ChatServer(written, api_key='right') as server:
        with pytest.raises(ModelLoadError, match='API key'):
            async with Run([server.url], CHAT):
                pass
    async with ChatServer(written, models=('a', 'b')) as server:
        with pytest.raises(ModelLoadError, match='expected one model; see server_model'):
            async with Run([server.url], CHAT):
                pass
        with pytest.raises(ModelLoadError, match=r'answered 404.*server_api'):
            async with Run([server.url], {'start_limit_s': 0.2}):
                pass
    async with ChatServer(written, refuses=('messages',)) as server:
        with pytest.raises(ModelLoadError, match='unsupported'):
            async with Run([server.url], CHAT):
                pass
    server_of_completions = await CompletionServer().start()
    with pytest.raises(ModelLoadError, match='no /v1/chat/completions'):
        async with Run([server_of_completions.url], CHAT):
            pass
    await server_of_completions.stop()
