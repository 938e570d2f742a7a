"""vLLM's own bookkeeping with our scheduler, driven step by step.

No model runs, so asynchronous scheduling, which vLLM only has on GPUs, is tested on any machine:
the worker computes a step after the next one has been scheduled, as vLLM's does.
"""

from __future__ import annotations

import random
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from support.engines.block_worker import BLOCK, BRANCH, JUNK, Worker

from timely_llm_ros.engines.commands import GenerationRequest, Resume, RobotIdleAt, Suspend
from timely_llm_ros.engines.engine import GenerationEnded, SegmentGenerated
from timely_llm_ros.engines.tokens.model_files import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.vllm.plugin.contract import WORKER
from timely_llm_ros.engines.vllm.plugin.request import KEY, encode_request, encode_scene
from timely_llm_ros.skills.grammar import decoding_grammar
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from timely_llm_ros.engines.engine import EngineState
    from timely_llm_ros.engines.texts.token_texts import TokenTexts
    from timely_llm_ros.utility import TimeUtility

TELLO = find_skill_set('tello')
SCENE = Scene((SceneObject('cat_1', 'cat', x_m=1.5), SceneObject('cup_2', 'cup')))
SHARED = [JUNK + 1 + n % 50 for n in range(40)]
PLANS = (
    ('takeoff;', 'goto(cat_1);', 'take_picture;', 'land;'),
    ('takeoff;', 'is_visible(cat_1);#true ', 'move_up(150);', 'hover;'),
    ('is_visible(cup_2);#false ', 'is_visible(cat_1);#true ', 'land;'),
    ('repeat(2){scan;hover;};', 'goto(cup_2);', 'land;'),
)
OTHERWISE = 'scan;'
"""What plans go on with behind a value that does not come."""


class Bench:
    """A scheduler, its worker and what comes of them."""

    def __init__(
        self,
        texts: TokenTexts,
        *,
        asynchronous: bool,
        blocks: int,
        slots: int = 64,
        stages: int = 1,
        max_running: int = 3,
        forwards: bool = False,
        drafts: bool = False,
        adapters: int = 0,
    ) -> None:
        import torch
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.kv_cache_interface import (
            FullAttentionSpec,
            KVCacheConfig,
            KVCacheGroupSpec,
        )
        from vllm.v1.structured_output import StructuredOutputManager

        from timely_llm_ros.engines.vllm.plugin.scheduler import (
            TimelyAsyncScheduler,
            TimelyScheduler,
        )

        config = EngineArgs(
            model=find_model(SHIPPED_MODEL),
            max_num_seqs=slots,
            max_num_batched_tokens=256,
            max_model_len=min(512, (blocks - 1) * BLOCK),
            block_size=BLOCK,
            enforce_eager=True,
            kv_cache_memory_bytes=1 << 28,
            structured_outputs_config={'backend': 'guidance'},
            enable_lora=adapters > 0,
            max_loras=1,
            worker_extension_cls=WORKER if forwards else '',
            additional_config={
                KEY: {
                    'max_running': max_running,
                    'skill_sets': ['tello'],
                    'policy': 'utility',
                    'scheduling': {'admission': 'feasible', 'interrupts': True},
                    'micro_batches': stages,
                }
            },
        ).create_engine_config()
        config.cache_config.num_gpu_blocks = blocks
        kind = TimelyAsyncScheduler if asynchronous else TimelyScheduler
        self.scheduler = kind(
            config,
            KVCacheConfig(
                num_blocks=blocks,
                kv_cache_tensors=[],
                kv_cache_groups=[
                    KVCacheGroupSpec(
                        ['layer'],
                        FullAttentionSpec(
                            block_size=BLOCK, num_kv_heads=1, head_size=32, dtype=torch.float32
                        ),
                    )
                ],
            ),
            StructuredOutputManager(config),
            block_size=BLOCK,
            hash_block_size=BLOCK,
        )
        self.scheduler._report = cast('Any', self)
        self._texts, self._forwards, self._adapters = texts, forwards, adapters
        self.temperature = 0.0 if drafts else 1.0
        # How long a step of this worker takes says nothing.
        cast('Any', self.scheduler._core.draft_costs).worth = lambda *_: True
        self._depth = max(2 if asynchronous else 1, stages)
        self._whole: dict[str, list[int]] = {}
        self._sampled: dict[str, set[int]] = {}
        self.worker = Worker(self._whole, self._sampled, [*texts.encode(OTHERWISE), *texts.end_ids])
        self._queue: deque[tuple[Any, Any]] = deque()
        self.steps: list[dict[str, int]] = []
        self.sampled = 0
        self.plans: dict[str, tuple[str, ...]] = {}
        self._scene_of: dict[str, str] = {}
        self._scenes = 0
        self.segments: dict[str, list[str]] = {}
        self.ended: dict[str, GenerationEnded] = {}
        self.awaiting: list[str] = []
        self.said: list[RobotIdleAt] = []
        self.state: EngineState | None = None
        self.spilled = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def heard(self) -> Iterator[RobotIdleAt]:
        """Yield what robots say."""
        while self.said:
            yield self.said.pop(0)

    def send(self, messages: list[Any]) -> None:
        """Take what the scheduler reports."""
        for event in messages:
            if isinstance(event, GenerationEnded):
                assert event.generation_id not in self.ended
                self.ended[event.generation_id] = event
            elif isinstance(event, SegmentGenerated):
                self.segments.setdefault(event.generation_id, []).append(event.segment.text)
                if event.segment.awaits_value:
                    self.awaiting.append(event.generation_id)
            else:
                self.state, self.spilled = event.state, event.state.spilled

    def add(
        self,
        name: str,
        plan: tuple[str, ...],
        rng: random.Random,
        *,
        prompt_tokens: int = 0,
        utility: TimeUtility | None = None,
        seed: int | None = None,
        scene: list[int] | None = None,
        scene_of: str = '',
    ) -> None:
        own = prompt_tokens or rng.randint(5, 60)
        prompt = (scene or SHARED) + [rng.randrange(100, 2000) for _ in range(own)]
        whole = list(prompt)
        sampled: set[int] = set()
        for part in plan:
            text, mark, value = part.partition('#')
            ids = self._texts.encode(text)
            sampled.update(range(len(whole), len(whole) + len(ids)))
            whole += ids
            if mark:
                whole += self._texts.encode(mark + value)
        sampled.add(len(whole))
        (end, *_) = self._texts.end_ids
        self._whole[name], self._sampled[name] = [*whole, end], sampled
        self.plans[name] = plan
        if utility is None:
            utility = URGENT if rng.random() < 0.3 else NORMAL
        generation = GenerationRequest(
            name, Prompt('', ''), TELLO, SCENE, utility, time.monotonic(), 200, scene_of=scene_of
        )
        extra = encode_request(generation, time.monotonic(), named=True)
        self._submit(name, prompt, extra, seed)

    def tell_scene(self, robot: str, scene: list[int]) -> str:
        """Tell a robot's scene, which begins with ``SHARED``, in place of the one before."""
        self.forget_scene(robot)
        self._scenes += 1
        name = self._scene_of[robot] = f'scene {self._scenes} of {robot}'
        self._submit(name, scene, encode_scene(robot, len(SHARED)))
        return name

    def warmed(self, place: int) -> int:
        """Return how many tokens of scenes a step computes."""
        return sum(n for name, n in self.steps[place].items() if name.startswith('scene '))

    def ahead(self, place: int) -> list[str]:
        """Return the branches that a step is for."""
        return [name for name in self.steps[place] if BRANCH in name]

    def forget_scene(self, robot: str) -> None:
        from vllm.v1.request import RequestStatus

        name = self._scene_of.pop(robot, '')
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def _submit(
        self, name: str, prompt: list[int], extra: dict[str, Any] | None, seed: int | None = None
    ) -> None:
        from vllm.lora.request import LoRARequest
        from vllm.sampling_params import SamplingParams, StructuredOutputsParams
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.request import Request

        init_none_hash(sha256)
        (end, *_) = self._texts.end_ids
        grammar = None
        if self._forwards and extra is not None and 'warm' not in extra:
            rules = self._texts.rules(decoding_grammar(TELLO, SCENE, observations=True))
            grammar = StructuredOutputsParams(grammar=rules)
            grammar._backend = 'guidance'
        parameters = SamplingParams(
            structured_outputs=grammar,
            max_tokens=200 if seed is None else 40,
            stop_token_ids=[end],
            seed=seed,
            temperature=self.temperature,
            extra_args=None if extra is None else {KEY: extra},
        )
        hasher = get_request_block_hasher(BLOCK, sha256)
        adapter = len(self.plans) % (self._adapters + 1)
        lora = LoRARequest(f'a{adapter}', adapter, f'a{adapter}') if adapter else None
        request = Request(name, prompt, parameters, None, block_hasher=hasher, lora_request=lora)
        self.scheduler.structured_output_manager.grammar_init(request)
        self.scheduler.add_request(request)

    def add_other(self, name: str, tokens: int, rng: random.Random) -> None:
        """Add a request of somebody who knows nothing of robots."""
        whole = [rng.randrange(100, 2000) for _ in range(rng.randint(5, 90))]
        prompt = len(whole)
        (end, *_) = self._texts.end_ids
        whole += [rng.randrange(100, 2000) for _ in range(tokens)]
        self._whole[name], self._sampled[name] = [*whole, end], set(range(prompt, len(whole) + 1))
        self.plans[name] = ()
        self._submit(name, whole[:prompt], None)

    def step(self) -> bool:
        """Schedule a step and, where the pipeline is full, take the oldest one's tokens."""
        scheduler = self.scheduler
        if scheduler.has_requests():
            output = scheduler.schedule()
            self.steps.append(dict(output.num_scheduled_tokens))
            if self.warmed(-1):
                # A scene is computed by itself, where no generation could run.
                assert len(self.steps[-1]) == 1
                assert not scheduler._core.competing
            if self.ahead(-1):
                assert self.ahead(-1) == list(self.steps[-1])
                assert not scheduler._core.competing
            if output.num_scheduled_tokens:
                scheduler.get_grammar_bitmask(output)
            self.meanwhile()
            result = self.worker.execute(output)
            self.sampled += sum(map(len, result.sampled_token_ids))
            self._queue.append((output, result))
        elif not self._queue:
            return False
        if len(self._queue) >= self._depth or not scheduler.has_requests():
            scheduler.update_from_output(*self._queue.popleft())
        return True

    def answer(self) -> None:
        """Give one robot's value."""
        name = self.awaiting.pop(0)
        place = len(self.segments[name]) - 1
        value = self.plans[name][place].partition('#')[2].strip()
        self.scheduler.control(Resume(name, value))

    def check(self, canceled: set[str]) -> None:
        """Everyone has ended with its whole plan, and nothing is left behind."""
        assert sorted(self.ended) == sorted(self.plans)
        for name, plan in self.plans.items():
            whole = [part.partition('#')[0] for part in plan]
            segments = self.segments.get(name, [])
            if name in canceled and self.ended[name].reason == 'canceled':
                assert segments == whole[: len(segments)]
            else:
                assert self.ended[name].reason == 'stop', self.ended[name]
                assert segments == whole
        scheduler = self.scheduler
        assert not scheduler.requests
        assert not scheduler.running
        assert not scheduler._outside
        assert not scheduler._request_of
        assert not scheduler._name_of
        assert not scheduler._expected
        assert not scheduler._branches
        assert not scheduler._unwritten
        assert not scheduler._forwarded
        assert not scheduler._core._texts._streams
        assert not scheduler._drafts._plans
        assert scheduler.kv_cache_manager.usage == 0.0


def draw_scene(rng: random.Random, before: list[int], tokens: int) -> list[int]:
    """Return a scene of so many tokens that begins as another one does."""
    kept = before[: rng.randint(len(SHARED), max(len(SHARED), len(before)))]
    return (kept + [rng.randrange(100, 2000) for _ in range(tokens)])[:tokens]


def tear(bench: Bench, rng: random.Random, *, robots: Sequence[str] = ()) -> None:
    """Serve sixteen plans with random suspensions, cancels and corrections, and check them.

    Where there are ``robots``, each task is one of theirs, in the scene that was told last, and
    some come while the worker computes.
    """
    scenes, drawn = dict.fromkeys(robots, SHARED), random.Random(0)
    late: list[Callable[[], None]] = []

    def come() -> None:
        while late:
            late.pop()()

    bench.meanwhile = come
    waiting = [(f'g{number}', rng.choice(PLANS)) for number in range(16)]
    held: set[str] = set()
    canceled: set[str] = set()
    idle = 0
    while waiting or len(bench.ended) < len(bench.plans):
        action = rng.random()
        if robots and drawn.random() < 0.15:
            robot = drawn.choice(robots)
            scenes[robot] = draw_scene(drawn, scenes[robot], drawn.randint(41, 240))
            bench.tell_scene(robot, scenes[robot])
        if waiting and action < 0.2:
            robot = drawn.choice(robots) if robots else ''
            name, plan = waiting.pop()
            add = partial(bench.add, name, plan, rng, scene=scenes.get(robot), scene_of=robot)
            if robots and drawn.random() < 0.5:
                late.append(add)
            else:
                add()
        live = [name for name in bench.plans if name not in bench.ended]
        if live and action > 0.8:
            name = rng.choice(live)
            if action < 0.9:
                bench.scheduler.control(Suspend(name))
                held.add(name)
            elif action < 0.98:
                bench.said.append(RobotIdleAt(name, time.monotonic() + rng.uniform(-1, 3)))
            elif len(canceled) < 3:
                from vllm.v1.request import RequestStatus

                canceled.add(name)
                bench.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)
                bench.awaiting = [other for other in bench.awaiting if other != name]
        if held and 0.3 < action < 0.5:
            bench.scheduler.control(Resume(held.pop()))
        if bench.awaiting and 0.5 < action < 0.6:
            bench.answer()
        idle = 0 if bench.step() else idle + 1
        come()
        assert idle < 10_000
    while bench.step():
        pass
    for robot in robots:
        bench.forget_scene(robot)
    while bench.step():
        pass
    bench.check(canceled)
    assert bench.worker.checked > 1000
