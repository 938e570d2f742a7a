"""From a scene to a plan: what a model reads and what it writes never names what was forgotten."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timely_llm_ros.engines.simulated import SimulatedConfig, SimulatedEngine
from timely_llm_ros.errors import PlanError
from timely_llm_ros.planner import TaskStatus
from timely_llm_ros.scene import Detection, KnownScene, SceneOptions
from timely_llm_ros.skills.grammar import decoding_grammar
from timely_llm_ros.testing import EXACT_SKILLS, in_fleet

if TYPE_CHECKING:
    from timely_llm_ros.engines import GenerationRequest
    from timely_llm_ros.planner import TaskResult
    from timely_llm_ros.testing import Fleet


def test_no_prompt_no_grammar_and_no_plan_names_what_was_forgotten() -> None:
    known = KnownScene(SceneOptions(forget_s=5.0, least_sightings=1), EXACT_SKILLS.skills)
    cup, cat = (Detection(kind, 0.9, (x_m, 0.0, 0.0)) for kind, x_m in (('cup', 1.0), ('cat', 4.0)))
    asked: list[GenerationRequest] = []

    def plan_of(request: GenerationRequest) -> str:
        # Whatever its prompt says: a model that is not held to the grammar.
        asked.append(request)
        return f'look({request.generation_id});'

    async def look_at(fleet: Fleet, name: str) -> TaskResult:
        scene = known.scene(asyncio.get_running_loop().time())
        return await fleet.submit(fleet.task(name, instruction='look', scene=scene)).result()

    async def body(fleet: Fleet) -> None:
        now = asyncio.get_running_loop().time
        known.see([cup, cat], now())
        assert (await look_at(fleet, 'cat_1')).status is TaskStatus.SUCCEEDED
        await asyncio.sleep(3.0)
        known.see([cup], now())
        await asyncio.sleep(3.0)
        assert (await look_at(fleet, 'cup_1')).status is TaskStatus.SUCCEEDED
        refused = await look_at(fleet, 'cat_1')
        assert refused.ending.code == PlanError.code
        assert 'cat_1' in refused.ending.message

    fleet = in_fleet(body, engine=SimulatedEngine(SimulatedConfig(plan_text=plan_of)))
    looks = [call for event, call in fleet.notes() if event == 'start']
    assert looks == ['look(cat_1)', 'look(cup_1)']
    for request, told in zip(asked, (True, False, False), strict=True):
        grammar = decoding_grammar(request.skill_set, request.scene, observations=True)
        for text in (request.prompt.fixed + request.prompt.body, grammar):
            assert 'cup_1' in text
            assert ('cat' in text) == told
