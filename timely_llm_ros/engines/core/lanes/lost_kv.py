"""Plans get the KV that they lost back before their robots are back.

A plan that waits for what its robot will report needs no KV until then, so where KV is short it
loses its own first. When its robot is expected is known. Where robots leave the engine time, the KV
is computed again before that by the background's steps, or copied back where the host's memory has
it, and the plan comes back as one more row and not as a prompt. What is there again is the plan's
own from the first token on. Until the value comes it is spare, and may be dropped as any waiting
plan's: the latest return first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from timely_llm_ros.engines.core.batching import Batcher
from timely_llm_ros.scheduling import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from timely_llm_ros.engines.core.core import EngineCore
    from timely_llm_ros.engines.core.kv_ledger import Context
    from timely_llm_ros.engines.core.step import Backend, Generation, StepPlan


class LostKv:
    """The KV that robots' plans lost while they wait for a value.

    ``first_step`` is the number of the step before the first one.
    """

    def __init__(self, backend: Backend, robots: EngineCore, first_step: int) -> None:
        self._robots, self._kv = robots.generations, robots.kv
        self._batcher = Batcher(robots.kv, backend, robots.generations, 0, first_step)
        self.spill_first: Callable[[Collection[Generation]], Iterable[Context]] = lambda _: ()
        """Contexts that make room before some plans do, and what builds on those plans' KV."""

    @property
    def kv_tokens(self) -> int:
        """Tokens of KV that plans have again and that still wait."""
        return sum(plan.context.computed for plan in self._robots.lost.values())

    @property
    def first(self) -> Generation | None:
        """The plan that lacks KV and whose robot is expected back first; None where none lacks any.

        What is evicted is chosen where a prompt ends, so a prompt with that is left to the robots.
        """
        lost = self._robots.lost.values()
        lacking = (
            plan for plan in lost if (plan.lacks_kv or plan.context.hosted) and not plan.evicts
        )
        return min(lacking, key=self._robots.due_s, default=None)

    def fit(self, plan: Generation, chunk: int) -> StepPlan | None:
        """Return a step that computes up to ``chunk`` tokens of a plan's KV; None without room.

        Room is made by what is spare and by plans whose robots are expected later. The tokens that
        the plan's latest step brought are left to its next one, which brings none without them.
        """
        due_s = self._robots.due_s
        later = [
            other
            for other in self._robots
            if self._robots.phase(other) is Phase.HELD and due_s(other) > due_s(plan)
        ]
        self._batcher.prefill_chunk = chunk
        self._batcher.spill_first = lambda: self.spill_first(set(later))
        step = self._batcher.fit([plan], later, self._kv.prefixes_of_robots())
        if step is None:
            return None
        left = max(0, plan.brought - plan.context.missing)
        if left:
            self._kv.take_back(plan.context, left)
        rows = tuple(row._replace(tokens=row.tokens - left, samples=False) for row in step.rows)
        return replace(step, rows=rows)
