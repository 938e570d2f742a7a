"""Robots' scenes whose KV is computed before a task comes.

A warm scene is a context of the background's lane that never brings a token. A robot's task takes
its KV over, as far as the two begin with the same tokens, and gives it back at its end. So nothing
is copied, nothing is held twice, and a robot has at most one task at a time that could want it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.core.step import Generation
from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills import segmenter_for
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import Warm
    from timely_llm_ros.engines.core.kv_ledger import Context, KvLedger
    from timely_llm_ros.engines.core.step import LanedBackend

_LEAST_SHARE = 0.5
"""A task that has less of a warm scene in common with it does not take it over."""


class WarmScenes:
    """The warm scenes of one engine, by their names.

    ``context_limit`` is how many tokens a context may have.
    """

    def __init__(self, backend: LanedBackend, kv: KvLedger, context_limit: int) -> None:
        self._backend, self._kv, self._limit = backend, kv, context_limit
        self._scenes: dict[str, Generation] = {}
        self._unopened: dict[str, Warm] = {}
        self._user: dict[str, str] = {}
        """Which generation has a scene's KV, or computes what is in it, by the scene's name."""
        self.hits = 0
        """Tasks that found their scene warm, so far."""
        self.hit_tokens = 0
        """Tokens that these did not compute."""

    def __len__(self) -> int:
        """How many scenes are warm to their end."""
        return sum(it.context.computed > 0 == it.context.missing for it in self._scenes.values())

    @property
    def kv_tokens(self) -> int:
        """Tokens whose KV is held for scenes that no task uses now."""
        return sum(scene.context.computed for scene in self._scenes.values())

    def apply(self, command: Warm) -> None:
        """Note what a scene is from now on."""
        name = command.scene_of
        if command.prompt is not None:
            self._unopened[name] = command
        else:
            self._unopened.pop(name, None)
            self._forget(name)

    # What the background does in its time --------------------------------------------------------

    @property
    def wants_more(self) -> bool:
        """Whether there is a scene to open that no task uses."""
        return any(name not in self._user for name in self._unopened)

    def open_next(self) -> None:
        """Tokenise the scene that changed first, and keep what is computed of its beginning."""
        name = next(name for name in self._unopened if name not in self._user)
        command = self._unopened.pop(name)
        if command.prompt is None:
            return
        request = GenerationRequest(
            command.generation_id, command.prompt, command.skill_set, command.scene, NORMAL, 0.0,
            background=True,
        )  # fmt: skip
        try:
            key, prefix_tokens, tokens, kept = self._backend.warm(request)
        except EngineError:
            # A task with this scene is told why; nobody asked for this.
            self._forget(name)
            return
        scene = self._scenes.get(name)
        if scene is not None and scene.context.prefix.key == key:
            self._cut(scene.context, min(kept, scene.context.computed), free=False)
            scene.context.tokens = tokens
        else:
            if scene is not None:
                self._kv.close(scene.context)
            context = self._kv.open(request.generation_id, key, prefix_tokens, tokens)
            context.spare = True
            segmenter = segmenter_for(request.skill_set, request.scene)
            self._scenes[name] = Generation(request, context, segmenter)
        if prefix_tokens + tokens >= self._limit:
            self._forget(name)

    def unfinished(self) -> list[Generation]:
        """Return the scenes that are not warm to their end and that no task uses."""
        return [
            scene
            for name, scene in self._scenes.items()
            if scene.context.missing and name not in self._user
        ]

    def contexts(self) -> list[Context]:
        """Return what may be dropped, the least recently used first."""
        return [scene.context for scene in self._scenes.values()]

    def get(self, name: str) -> Generation | None:
        """Return a scene; None where none of that name was opened."""
        return self._scenes.get(name)

    # What tasks do -------------------------------------------------------------------------------

    def lend(self, task: Generation) -> None:
        """Give a task that has just come the KV of its robot's scene."""
        name = task.request.scene_of
        if not name or name in self._user:
            return
        self._user[name] = task.generation_id
        scene = self._scenes.get(name)
        if scene is None or not scene.context.prefix.ready:
            return
        # Its last token is computed in any case, for what follows it.
        common = min(self._common(scene.context, task.context), task.prompt_tokens - 1)
        if common < max(1.0, _LEAST_SHARE * scene.context.computed):
            return
        self._move(scene.context, task.context, common)
        task.lent = common
        self._scenes[name] = self._scenes.pop(name)
        self.hits += 1
        self.hit_tokens += common

    def take_back(self, context: Context) -> None:
        """Keep what a context that is about to be closed has of its robot's scene."""
        name = next((it for it, user in self._user.items() if user == context.name), None)
        if name is None:
            return
        del self._user[name]
        scene = self._scenes.get(name)
        if scene is None or context.evicted:
            return
        common = min(self._common(context, scene.context), scene.context.tokens)
        if common <= scene.context.computed:
            return
        self._kv.drop(scene.context)
        self._backend.drop(scene.generation_id)
        self._move(context, scene.context, common)

    def _common(self, giver: Context, taker: Context) -> int:
        """Return how many tokens of its own a context could take over from another's KV."""
        if not giver.computed or giver.prefix is not taker.prefix:
            return 0
        return min(self._backend.common(giver.name, taker.name), giver.computed)

    def _move(self, giver: Context, taker: Context, tokens: int) -> None:
        self._cut(giver, tokens)
        self._kv.move(giver, taker)
        self._backend.move(giver.name, taker.name)

    def _cut(self, context: Context, tokens: int, *, free: bool = True) -> None:
        """Keep the first ``tokens`` of a context; ``free`` where the backend has not done so."""
        surplus = context.computed - tokens
        if surplus:
            self._kv.take_back(context, surplus)
            if free:
                self._backend.take_back(context.name, surplus)

    def _forget(self, name: str) -> None:
        scene = self._scenes.pop(name, None)
        if scene is not None:
            self._kv.close(scene.context)
            self._backend.close(scene.generation_id)
