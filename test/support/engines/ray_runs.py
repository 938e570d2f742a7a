"""A Ray cluster of two nodes on this machine, and runs of engines with known plans."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
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
    from collections.abc import Iterator

    from timely_llm_ros.engines import EngineConfig
    from timely_llm_ros.engines.engine import ServerState

TELLO = find_skill_set('tello')


def written_plan(request: GenerationRequest) -> str:
    """A plan of several segments that asks for a value, another one for each task."""
    number = int(request.generation_id[1:])
    return (
        f'takeoff;move_up({20 + number});is_visible(cat_1);'
        f'move_forward({50 + number});move_left(40);land;'
    )


def simulated(**options: Any) -> SimulatedConfig:
    """Options of the engine in each replica."""
    step = StepTimeModel(decode_s=0.01, prefill_token_s=0.0)
    return SimulatedConfig(plan_text=written_plan, step_time=step, **options)


def request(number: int) -> GenerationRequest:
    """A request of its own."""
    scene = Scene((SceneObject('cat_1', 'cat'),))
    prompt = build_prompt(TELLO, scene, 'look for the cat')
    return GenerationRequest(f'g{number}', prompt, TELLO, scene, NORMAL, time.monotonic())


@contextmanager
def ray_cluster(nodes: int) -> Iterator[Any]:
    """Start Ray nodes as processes of this machine, and end them all."""
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix='r', dir='/tmp')  # noqa: S108  Its sockets need a short path.
    (Path(folder) / 'ray').mkdir()
    before = dict(os.environ)
    os.environ |= {
        'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
        'RAY_TMPDIR': folder,
        'RAY_AUTH_MODE': 'disabled',
        'RAY_USAGE_STATS_ENABLED': '0',
    }
    options = {'num_cpus': 1, 'object_store_memory': 80_000_000, 'include_dashboard': False}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
        ray.init(cluster.address, log_to_driver=False, logging_level='ERROR')
        yield cluster
        serve.shutdown()
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def on_ray(config: EngineConfig, app: str = 'timely-llm', replicas: int = 2) -> RayConfig:
    """Options of the engine on the cluster that this process has joined."""
    return RayConfig(given=config, ray=RayOptions(app=app, replicas=replicas, cpus=0.1))


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
