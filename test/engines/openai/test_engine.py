"""The openai engine against a server on loopback that is well."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from support.engines.completion_server import CompletionServer
from support.engines.server_runs import GENERATIONS, Run, request

from timely_llm_ros.engines.openai.sequences import ServerSequences
from timely_llm_ros.engines.texts.server_texts import ServerTexts
from timely_llm_ros.engines.tokens import Sampling
from timely_llm_ros.skills import PlanLimits
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL, URGENT

CHATBOT = find_skill_set('chatbot')

pytestmark = pytest.mark.usefixtures('quick_retries')


def test_the_undisturbed_runs_are_worth_comparing_with(undisturbed_plans: dict[int, Any]) -> None:
    assert len({plan[2] for plan in undisturbed_plans.values()}) == len(GENERATIONS)
    assert sum(len(plan[3]) for plan in undisturbed_plans.values()) >= 15
    assert any(segment.awaits_value for plan in undisturbed_plans.values() for segment in plan[3])


async def test_connections_are_used_again() -> None:
    server = await CompletionServer().start()
    async with Run([server.url], {'max_running': 2}) as run:
        for number in GENERATIONS:
            run.engine.submit(request(number))
        await run.all_ended(GENERATIONS)
        assert server.most_running <= 3
        # Held at a blocking call, a request is left, and so is one whose token leaves its plan no
        # way to end; every other one ended by itself.
        left = len(GENERATIONS) + sum(
            segment.segment.awaits_value for plan in run.segments.values() for segment in plan
        )
        assert len(server.requests) > 15 + len(GENERATIONS)
        assert server.connections <= 4 + left
    await server.stop()


async def test_new_generations_go_where_they_are_complete_soonest() -> None:
    slow = await CompletionServer(step_s=0.05).start()
    quick = await CompletionServer(step_s=0.001).start()
    async with Run([slow.url, quick.url]) as run:
        await run.until(lambda: run.state and all(s.well for s in run.state.servers))
        run.engine.submit(request(0))
        run.engine.submit(request(1))
        await run.all_ended([0, 1])
        assert len(slow.requests) == len(quick.requests) == 1
        for number in range(2, 6):
            run.engine.submit(request(number))
        await run.all_ended(range(2, 6))
        assert len(slow.requests) == 1
        # Started again it may be another machine: it is tried once more.
        await slow.stop()
        await run.first_server_is(well=False)
        await slow.start()
        await run.first_server_is(well=True)
        run.engine.submit(request(6))
        await run.all_ended([6])
        assert len(slow.requests) == 2
    await slow.stop()
    await quick.stop()


async def test_cancelling_ends_the_request() -> None:
    server = await CompletionServer(step_s=0.01).start()
    async with Run([server.url]) as run:
        run.engine.submit(request(0))
        await run.until(lambda: server.running)
        run.engine.cancel('g0')
        run.engine.cancel('unknown')
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'canceled'
        await run.until(lambda: not server.running)
    await server.stop()


async def test_a_held_generation_gets_nothing_until_it_is_resumed(
    undisturbed_plans: dict[int, Any],
) -> None:
    held = next(n for n, plan in undisturbed_plans.items() if any(s.awaits_value for s in plan[3]))
    server = await CompletionServer().start()
    async with Run([server.url], answers=False) as run:
        run.engine.submit(request(held))
        await run.until(lambda: run.state and run.state.held)
        count = len(server.requests)
        run.engine.resume(f'g{held}')
        run.engine.suspend(f'g{held}')
        run.engine.robot_idle_at(f'g{held}', 1.0)
        await run.until(lambda: not server.running)
        assert len(server.requests) == count
        run.answers = True
        run.engine.resume(f'g{held}', 'true')
        await run.all_ended([held])
        assert run.plan(held) == undisturbed_plans[held]
    await server.stop()


async def test_an_adapter_is_taken_before_its_base_model() -> None:
    server = await CompletionServer(base='base', context_limit=1234).start()
    async with Run([server.url]) as run:
        assert (run.info.model, run.info.context_tokens) == ('chaos', 1234)
        run.engine.submit(request(0, max_tokens=4))
        await run.all_ended([0])
    await server.stop()


def test_a_request_names_its_skill_set_where_that_has_an_adapter() -> None:
    sequences = ServerSequences(ServerTexts('timely-planner'), Sampling(), adapters=('arm',))
    for number in (0, 2):
        sequences.open(request(number))
    tello, arm = (sequences.body(f'g{number}', stop_at_statement=True) for number in (0, 2))
    assert arm['model'] == 'arm'
    assert 'model' not in tello


async def test_a_full_context_ends_the_generation() -> None:
    server = await CompletionServer().start()
    length = len(server_prompt(0))
    server.context_limit = len(server_prompt(0, skill_set=CHATBOT)) + 12
    async with Run([server.url]) as run:
        run.engine.submit(request(0, max_tokens=400, constrained=False, skill_set=CHATBOT))
        await run.all_ended([0])
        assert (run.ended['g0'].reason, run.ended['g0'].tokens) == ('length', 12)
    server.context_limit = length + 12
    async with Run([server.url]) as run:
        # A plan within a grammar is brought to its end instead.
        run.engine.submit(request(0, max_tokens=400))
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'stop'
        assert run.ended['g0'].tokens < 12
        server.context_limit = length - 1
        await server.stop()
        await run.first_server_is(well=False)
        await server.start()
        await run.first_server_is(well=True)
        run.engine.submit(request(3))
        await run.all_ended([3])
        assert run.ended['g3'].reason == 'error'
        assert 'prompt of' in run.ended['g3'].error
    await server.stop()


@pytest.mark.parametrize('max_tokens', [12, 20, 40, 150])
async def test_constrained_plans_end_complete_and_valid(max_tokens: int) -> None:
    server = await CompletionServer().start()
    limits = PlanLimits(plan_calls=20, segment_calls=12)
    async with Run([server.url]) as run:
        for number in range(12):
            made = request(number, max_tokens=max_tokens)
            small = replace(made.skill_set, limits=limits)
            run.engine.submit(replace(made, skill_set=small))
        await run.all_ended(range(12))
        assert {run.ended[f'g{number}'].reason for number in range(12)} == {'stop'}
        assert all(ended.tokens < max_tokens for ended in run.ended.values())
        assert all(ended.tokens == len(ended.token_ids) for ended in run.ended.values())
    await server.stop()


async def test_text_that_is_no_plan_is_noticed_at_its_first_statement() -> None:
    server = await CompletionServer().start()
    async with Run([server.url]) as run:
        for number in range(8):
            run.engine.submit(request(number, max_tokens=400, constrained=False))
        await run.all_ended(range(8))
        assert {ended.reason for ended in run.ended.values()} == {'invalid_plan'}
        assert max(ended.tokens for ended in run.ended.values()) < 20
        await run.until(lambda: not server.running)
    await server.stop()


async def test_stop_strings_end_a_text() -> None:
    server = await CompletionServer().start()
    async with Run([server.url]) as run:
        run.engine.submit(request(0, max_tokens=60, constrained=False, skill_set=CHATBOT))
        await run.all_ended([0])
        whole = ''.join(event.segment.text for event in run.segments['g0'])
    stop = whole[len(whole) // 2 :][:4].replace(';', '')
    async with Run([server.url], {'stop_strings': (stop,)}) as run:
        run.engine.submit(request(0, max_tokens=60, constrained=False, skill_set=CHATBOT))
        await run.all_ended([0])
        assert run.ended['g0'].reason == 'stop'
        cut = ''.join(event.segment.text for event in run.segments['g0'])
        assert cut == whole.partition(stop)[0].rstrip()
    await server.stop()


def server_prompt(number: int, **options: Any) -> list[int]:
    from support.engines.completion_server import TEXTS

    prompt = request(number, **options).prompt
    return [*TEXTS.encode(prompt.fixed, beginning=True), *TEXTS.encode(prompt.body)]


async def test_requests_carry_the_date_at_which_their_segment_is_due() -> None:
    server = await CompletionServer().start()
    async with Run([server.url], {'priority': True}) as run:
        for number in (0, 3):
            run.engine.submit(request(number))
        sent_s = time.time()
        await run.all_ended([0, 3])
    normal, urgent = (
        next(one.body['priority'] for one in server.requests if one.session == name)
        for name in ('g0', 'g3')
    )
    assert urgent < normal
    for due_ms, utility in ((normal, NORMAL), (urgent, URGENT)):
        assert due_ms / 1000 - sent_s == pytest.approx(utility.expected_response_s, abs=0.5)
    await server.stop()


async def test_what_servers_cannot_do_is_refused() -> None:
    server = await CompletionServer().start()
    async with Run([server.url]) as run:
        run.engine.submit(request(0, forced_token_ids=(1, 2)))
        await run.all_ended([0])
        assert 'forced_token_ids' in run.ended['g0'].error
        run.engine.submit(request(1, background=True))
        await run.all_ended([1])
        assert 'background' in run.ended['g1'].error
    await server.stop()
