"""Robots' scenes in the background's lane, and what they save in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from support.engines.core_bench import SCENE, SKILLS, Bench, request
from support.examples import examples

from timely_llm_ros.engines import Cancel, Submit, Warm
from timely_llm_ros.engines.core.kv_ledger import WATERMARK
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.engine import SegmentGenerated
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.engines.simulated.step_time import StepTimeModel
from timely_llm_ros.skills import Prompt
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.engines.engine import EngineEvent

FIXED = 'x' * 40


def warm(robot: str, text: str) -> Warm:
    return Warm(robot, Prompt(FIXED, text) if text else None, SKILLS, SCENE)


def of_robot(name: str, body: str, robot: str) -> Submit:
    return Submit(replace(request(name, fixed=FIXED, body=body), scene_of=robot))


@examples(120)
@given(
    actions=st.lists(
        st.tuples(st.sampled_from(['warm', 'task', 'background', 'cancel']), st.integers(0, 9)),
        max_size=30,
    ),
    kv=st.integers(90, 400),
    chunk=st.integers(1, 40),
)
def test_scenes_never_go_before_a_robot_and_the_bound_holds(
    actions: list[tuple[str, int]], kv: int, chunk: int
) -> None:
    bench = Bench(LanedCore, 'takeoff;goto(cat_3);land;', max_kv_tokens=kv, prefill_chunk=chunk)
    names: list[str] = []
    for number, (action, count) in enumerate(actions):
        name, robot = f'{action}{number}', f'robot{count % 3}'
        if action == 'warm':
            bench.core.apply(warm(robot, 's' * 20 * count))
        elif action == 'cancel' and names:
            bench.core.apply(Cancel(names[count % len(names)]))
        elif action == 'task':
            bench.core.apply(of_robot(name, 's' * 20 * count + f'task {number}', robot))
            names.append(name)
        elif action == 'background':
            bench.core.apply(Submit(request(name, fixed=FIXED, background=True)))
            names.append(name)
        for _ in range(count):
            waiting = bool(bench.core.state(bench.now_s).generations)
            plan = bench.step()
            assert bench.core.kv.used <= kv
            if waiting and plan is not None:
                assert not plan.background
    bench.run()
    ended = bench.all_ended()
    assert set(ended) == set(names)
    assert {event.reason for event in ended.values()} <= {'stop', 'canceled'}
    # What is left is what scenes hold and what all share.
    state = bench.core.state(bench.now_s)
    assert state.kv_tokens in (state.warm_tokens, state.warm_tokens + len(FIXED) // 4)


def test_a_task_with_another_scene_leaves_the_warm_one_alone() -> None:
    bench = Bench(LanedCore, 'land;')
    bench.core.apply(warm('robot', 's' * 400))
    bench.run()
    bench.core.apply(of_robot('g', 's' * 40 + 'other', 'robot'))
    bench.run()
    state = bench.core.state(bench.now_s)
    assert (state.warm_hits, state.warm_tokens, state.warm_scenes) == (0, 100, 1)


def test_a_scene_that_cannot_be_a_prompt_is_left_out() -> None:
    bench = Bench(LanedCore, 'land;', context_limit=50)
    bench.core.apply(warm('robot', 's' * 400))
    bench.run()
    assert bench.core.kv.used == 0


def test_a_warm_scene_shortens_the_response_in_virtual_time() -> None:
    scene = 's' * 8000

    async def first_s(*, ahead: bool) -> float:
        found = asyncio.get_running_loop().create_future()

        def on_event(event: EngineEvent) -> None:
            if isinstance(event, SegmentGenerated) and not found.done():
                found.set_result(event.token_at_s)

        step_time = StepTimeModel(prefill_token_s=0.001)
        engine = SimulatedEngine(SimulatedConfig(plan_text=lambda _: 'land;', step_time=step_time))
        info = await engine.start(on_event)
        assert info.warms
        if ahead:
            engine.warm('robot', Prompt(FIXED, scene), SKILLS, SCENE)
        await asyncio.sleep(20.0)
        started_s = asyncio.get_running_loop().time()
        engine.send(of_robot('g', scene + 'go there', 'robot'))
        ended_s: float = await found
        await engine.close()
        return ended_s - started_s

    cold_s, warm_s = (run_virtual(first_s(ahead=ahead)) for ahead in (False, True))
    assert cold_s > 2.0
    assert warm_s < 0.1


def test_idle_scenes_do_not_make_kv_scarce() -> None:
    bench = Bench(LanedCore, 'land;', max_kv_tokens=95)
    for number in range(9):
        bench.core.apply(warm(f'robot{number}', f'{number}' + 's' * 60))
    bench.run()
    kv = bench.core.kv
    assert kv.used > WATERMARK * kv.capacity
    assert kv.spare_tokens() == bench.core.state(bench.now_s).warm_tokens > 0
    assert not kv.tight
