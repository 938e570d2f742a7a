"""Robots' scenes that vLLM's prefix cache has before their tasks come.

A warm scene is a request of vLLM that never brings a token. When nobody else can run, a chunk of it
is computed and given up again, as a spilled generation's KV is: its blocks are free then, and vLLM
finds them until it overwrites them, those first that were not used for longest. So no generation
loses KV for a scene, and a task finds its scene as it would find any other beginning of its prompt.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.core import StepSize
from timely_llm_ros.engines.vllm.plugin.control import warm_scene
from timely_llm_ros.engines.vllm.plugin.kv_spill import KvSpill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from timely_llm_ros.engines.engine import EngineState

_LEAST_SHARE = 0.5
"""A task that finds less of its scene than this did not find it warm."""


@dataclass(slots=True, eq=False)
class WarmScene:
    """A robot's scene.

    Attributes:
        request: vLLM's.
        tokens: What is computed of it, whole blocks; its last token never is.
        blocks: So many blocks.
        fixed_tokens: Its first tokens, which the scenes of all robots of a kind begin with.
        fixed_blocks: Blocks of these alone.
        kind: The same for all scenes that share these blocks.
        missing: How many of ``tokens`` were not in the cache when it was last looked at.
    """

    request: Any
    tokens: int
    blocks: int
    fixed_tokens: int
    fixed_blocks: int
    kind: object
    missing: int


def fitting(scenes: Iterable[WarmScene], blocks: int) -> list[WarmScene]:
    """Return the scenes that so many blocks have room for, those first that come first."""
    kinds: set[object] = set()
    found = []
    for scene in scenes:
        needed = scene.blocks - (scene.fixed_blocks if scene.kind in kinds else 0)
        if needed <= blocks:
            blocks -= needed
            kinds.add(scene.kind)
            found.append(scene)
    return found


class WarmScenes(KvSpill):
    """The part of the scheduler that keeps scenes in the prefix cache."""

    _compiling: dict[str, bool]
    _competing: int | None
    running: list[Any]
    max_num_scheduled_tokens: int

    def _prepare_scenes(self, bound_s: float) -> None:
        """Begin without scenes; a step of theirs should last ``bound_s`` at most."""
        self._scenes: dict[str, WarmScene] = {}
        """By whose they are, the latest told or used last."""
        self._cold: list[WarmScene] = []
        """Those to compute, the least recently used first."""
        self._looked = True
        """Whether nothing has happened since ``_cold`` was found."""
        self._due: tuple[WarmScene, int] | None = None
        """The first of them and how many tokens of it to compute next, once that is known."""
        self._warming: tuple[Any, float] | None = None
        """The request whose chunk is under way, and since when (s)."""
        self._scene_steps = StepSize(bound_s, self.max_num_scheduled_tokens)
        self._warm_hits = self._warm_hit_tokens = 0

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule a chunk of a scene if there is nothing else."""
        due = None if self._left() or self.running or self.waiting else self._chunk_due()
        if due is None:
            scheduled = super().schedule(*args, **kwargs)
            if scheduled.num_scheduled_tokens:
                self._looked = False
            for new in scheduled.scheduled_new_reqs:
                self._count_hit(new)
            return scheduled
        (scene, tokens), self._due = due, None
        request = scene.request
        begun_s = time.monotonic()
        self._enqueue_waiting_request(request)
        with self._idle_step(tokens):
            scheduled = super().schedule(*args, **kwargs)
        if request.request_id in scheduled.num_scheduled_tokens:
            self._warming = request, begun_s
        else:
            self.waiting.remove_requests([request])
            self._cold.remove(scene)
        return scheduled

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take a step's tokens; a scene's chunk is done then."""
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if self._warming is not None:
            request, begun_s = self._warming
            tokens = scheduler_output.num_scheduled_tokens.get(request.request_id, 0)
            if tokens:
                self._scene_steps.observe(tokens, time.monotonic() - begun_s)
                self._free_chunk()
                self._warming = None
        return outputs

    def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
        """End requests; a scene is forgotten, though its blocks stay in the cache."""
        finished = super().finish_requests(request_ids, finished_status)
        for request in finished:
            scene = warm_scene(request)
            known = None if scene is None else self._scenes.get(scene[0])
            if scene is not None and known is not None and known.request is request:
                del self._scenes[scene[0]]
                self._core.generations.changed = True
        # Others may have room now.
        self._looked = False
        return finished

    # What the scheduler asks ---------------------------------------------------------------------

    def _take_scene(self, request: Any) -> bool:
        """Take a request that is a scene out of vLLM's queue; tell whether it is one."""
        found = warm_scene(request)
        if found is None:
            return False
        self.waiting.remove_requests([request])
        name, fixed_tokens = found
        blocks = (request.num_tokens - 1) // self.block_size
        fixed_blocks = min(blocks, fixed_tokens // self.block_size)
        tokens = blocks * self.block_size
        last = fixed_blocks * self.block_size // self.hash_block_size
        kind = request.block_hashes[last - 1] if last else None
        self._scenes.pop(name, None)
        if blocks:
            self._scenes[name] = WarmScene(
                request, tokens, blocks, fixed_tokens, fixed_blocks, kind, tokens + 1
            )
        self._looked, self._core.generations.changed = False, True
        return True

    def _left(self) -> int:
        """Count the generations that could run, now or once their grammar is compiled."""
        if self._competing is None:
            self._competing = self._core.competing
        return self._competing + len(self._compiling)

    def _chunk_due(self) -> tuple[WarmScene, int] | None:
        """Return which scene to compute next, and how many of its tokens; None if none.

        To be asked when no generation could run.
        """
        places = len(self._request_of) + len(self._spare())
        if self._warming is not None or places >= self.max_num_running_reqs:
            # The worker has a place for each.
            return None
        if not self._looked:
            self._look()
        while self._due is None and self._cold:
            scene = self._cold[0]
            missing = scene.tokens - self.kv_cache_manager.get_computed_blocks(scene.request)[1]
            if 0 < missing < scene.missing:
                blocks = max(1, self._scene_steps.tokens // self.block_size)
                self._due = scene, min(missing, blocks * self.block_size)
            else:
                # It is complete, or nothing comes of it.
                del self._cold[0]
            scene.missing = missing
        return self._due

    def _free_chunk(self) -> None:
        """Give up the KV of the chunk that is under way or done; the cache has its blocks."""
        request = self._warming[0] if self._warming is not None else None
        if request is not None and request.num_computed_tokens and not request.is_finished():
            self.running = [other for other in self.running if other is not request]
            self._give_up(request)

    @contextmanager
    def _idle_step(self, tokens: int) -> Iterator[None]:
        """Let vLLM's next step have so many tokens at most, whatever robots' steps have."""
        config = self.scheduler_config
        before = self.max_num_scheduled_tokens, config.enable_chunked_prefill
        self.max_num_scheduled_tokens, config.enable_chunked_prefill = tokens, True
        yield
        self.max_num_scheduled_tokens, config.enable_chunked_prefill = before

    def _with_scenes(self, state: EngineState) -> EngineState:
        """Return a state that also says which scenes are warm; their KV counts as free."""
        return replace(
            state,
            warm_scenes=sum(map(self._is_warm, self._scenes.values())),
            warm_hits=self._warm_hits,
            warm_hit_tokens=self._warm_hit_tokens,
        )

    # The parts -----------------------------------------------------------------------------------

    def _look(self) -> None:
        """Find the scenes that are not in the cache and that there is room for."""
        manager = self.kv_cache_manager
        pool = manager.block_pool
        kept = fitting(reversed(self._scenes.values()), pool.get_num_free_blocks())[::-1]
        self._cold = [scene for scene in kept if not self._is_warm(scene)]
        self._looked, self._due = True, None
        if not all(scene.missing for scene in self._cold):
            # One was overwritten. The others are not to be by what is computed of it now.
            for scene in kept:
                for blocks in manager.get_computed_blocks(scene.request)[0].blocks:
                    pool.touch(blocks)
                    pool.free_blocks(reversed(blocks))
        for scene in kept:
            scene.missing = 0
        for scene in self._cold:
            scene.missing = scene.tokens + 1

    def _is_warm(self, scene: WarmScene) -> bool:
        """Whether a scene is in the cache: the last of its blocks is overwritten first."""
        last = scene.request.block_hashes[scene.tokens // self.hash_block_size - 1]
        groups = list(range(len(self.kv_cache_config.kv_cache_groups)))
        return self.kv_cache_manager.block_pool.get_cached_block(last, groups) is not None

    def _count_hit(self, new: Any) -> None:
        """Count what a request that has just entered found of its robot's scene."""
        generation = self._core.generations.get(self._name_of.get(new.req_id, ''))
        if generation is None or generation.tokens or generation.context.computed:
            return
        name = generation.request.scene_of
        scene = self._scenes.get(name)
        if scene is None or self.requests[new.req_id].num_preemptions:
            return
        found = min(new.num_computed_tokens, scene.tokens) - scene.fixed_tokens
        if found > 0 and found >= _LEAST_SHARE * (scene.tokens - scene.fixed_tokens):
            self._warm_hits += 1
            self._warm_hit_tokens += found
            self._scenes[name] = self._scenes.pop(name)
