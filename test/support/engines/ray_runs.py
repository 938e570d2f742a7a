"""Runs of engines with known plans, on Ray or alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from support.engines.engine_run import EngineRun

from timely_llm_ros.engines import (
    GenerationRequest,
    RayConfig,
    RayOptions,
    SimulatedConfig,
    create_engine,
)
from timely_llm_ros.engines.simulated import StepTimeModel
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import build_prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineConfig
    from timely_llm_ros.engines.engine import ServerState
    from timely_llm_ros.engines.simulated.config import PlanText

TELLO = find_skill_set('tello')


def written_plan(request: GenerationRequest) -> str:
    """A plan of several segments that asks for a value, another one for each task."""
    number = int(request.generation_id[1:])
    return (
        f'takeoff;move_up({20 + number});is_visible(cat_1);'
        f'move_forward({50 + number});move_left(40);land;'
    )


def asking_plan(request: GenerationRequest) -> str:
    """A plan that asks for a value at once, another one for each task."""
    return f'is_visible(cat_1);move_up({20 + int(request.generation_id[1:])});'


def simulated(
    *, plan_text: PlanText = written_plan, decode_s: float = 0.01, **options: Any
) -> SimulatedConfig:
    """Options of the engine in each replica."""
    step = StepTimeModel(decode_s=decode_s, prefill_token_s=0.0)
    return SimulatedConfig(plan_text=plan_text, step_time=step, **options)


def request(number: int) -> GenerationRequest:
    """A request of its own."""
    scene = Scene((SceneObject('cat_1', 'cat'),))
    prompt = build_prompt(TELLO, scene, 'look for the cat')
    return GenerationRequest(f'g{number}', prompt, TELLO, scene, NORMAL, time.monotonic())


def on_ray(
    config: EngineConfig, app: str = 'timely-llm', replicas: int = 2, most_replicas: int = 0
) -> RayConfig:
    """Options of the engine on the cluster that this process has joined."""
    options = RayOptions(app=app, replicas=replicas, most_replicas=most_replicas, cpus=0.1)
    return RayConfig(given=config, ray=options)


class ReplicaRun(EngineRun):
    """An engine, on replicas or alone."""

    def __init__(self, config: EngineConfig, *, answers: bool = True) -> None:
        super().__init__(create_engine(config), answers=answers)

    async def servers(self, well: int) -> None:
        """Wait until so many replicas serve, and none is leaving."""
        await self.until(
            lambda: len(self.replicas) == well and all(one.well for one in self.replicas)
        )

    @property
    def replicas(self) -> tuple[ServerState, ...]:
        """The replicas as the engine last told of them."""
        return self.state.servers if self.state else ()
