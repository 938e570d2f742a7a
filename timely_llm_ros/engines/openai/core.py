"""The engine core as it is driven by a server's tokens instead of steps of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.engines.core import EngineCore
from timely_llm_ros.scheduling import Phase

if TYPE_CHECKING:
    from timely_llm_ros.engines.core import Generation, Output

UNKNOWN_STEP_S = 0.02
"""Step time of a server of which no token has come yet, where no other's is known either."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A generation on its way from one server to another."""

    generation: Generation
    phase: Phase
    due_s: float
    remaining_tokens: float | None


class ServerCore(EngineCore):
    """The generations of one server: who runs there next is decided here, by the same policies.

    Tokens come for one generation at a time, so its busy time is counted from its own tokens.
    """

    def take(
        self, generation_id: str, output: Output, *, elapsed_s: float, begins: bool, now_s: float
    ) -> None:
        """Take one token of a running generation.

        Args:
            generation_id: Whose.
            output: The token.
            elapsed_s: Since its previous token or the request (s).
            begins: Whether it is the request's first.
            now_s: The time (s).
        """
        generation = self._generations[generation_id]
        running = max(1, self._table.count(Phase.RUNNING))
        if begins:
            self._step_times.observe_prefill(running, 1, elapsed_s)
        else:
            self._step_s = elapsed_s
            self._step_times.observe(running, elapsed_s)
        generation.segment_s += elapsed_s
        generation.total_s += elapsed_s
        self._take(generation, output, now_s)
        self._changed = True
        if not generation.ended:
            self._outlook.step((generation,), len(self._running))

    def find(self, generation_id: str) -> Generation | None:
        """Return a generation; None where it is not here."""
        return self._generations.get(generation_id)

    def is_running(self, generation_id: str) -> bool:
        """Tell whether a generation is to be served now."""
        return self._table.phase(generation_id) is Phase.RUNNING

    def fail(self, generation_id: str, error: str) -> None:
        """End a generation with an error."""
        generation = self._generations.get(generation_id)
        if generation is not None:
            self._end(generation, 'error', error)

    def run_out(self, generation_id: str) -> None:
        """End a generation whose context is full."""
        generation = self._generations.get(generation_id)
        if generation is not None:
            self._end(generation, 'length', '')

    def limit_context(self, tokens: int) -> None:
        """Set the most tokens that one context may have on this server."""
        self._context_limit = min(tokens, self._kv.capacity)

    def names(self) -> list[str]:
        """Return every generation that is here."""
        return list(self._generations)

    def release(self, generation_id: str) -> Handover:
        """Let a generation go, all that is known of it kept."""
        generation = self._generations.pop(generation_id)
        table = self._table
        handover = Handover(
            generation,
            table.phase(generation_id),
            table.get(generation_id, 'due_s'),
            self._lengths.remaining(generation_id),
        )
        self._lengths.end(generation, complete=False)
        table.remove(generation_id)
        self._kv.close(generation.context)
        if generation in self._running:
            self._running.remove(generation)
        self._changed = True
        return handover

    def adopt(self, handover: Handover) -> None:
        """Go on with a generation of another server; its KV is computed anew here."""
        generation, phase = handover.generation, handover.phase
        name, request, old = generation.generation_id, generation.request, generation.context
        generation.context = self._kv.open(name, old.prefix.key, old.prefix.tokens, old.tokens)
        self._generations[name] = generation
        self._table.add(name, request.utility, request.arrival_s)
        self._lengths.begin(generation, request.predicted_tokens)
        if handover.remaining_tokens is not None:
            self._lengths.refine({name: handover.remaining_tokens})
        made_tokens, made_s = generation.segment_tokens, generation.segment_s
        self._outlook.begin_segment(generation, len(self._running))
        generation.segment_tokens, generation.segment_s = made_tokens, made_s
        self._table.set(name, 'generated_tokens', made_tokens)
        self._table.set(name, 'due_s', handover.due_s)
        self._set_phase(generation, Phase.SUSPENDED if phase is Phase.RUNNING else phase)

    @property
    def contenders(self) -> int:
        """Generations that want to be served now."""
        return self.waiting + self._table.count(Phase.RUNNING)

    def forget_times(self) -> None:
        """Forget how fast the server was: one that comes back may be another machine.

        Otherwise a server last seen slow, as one is that dies under load, would never be tried.
        """
        self._step_times.forget()

    @property
    def single_step_s(self) -> float | None:
        """Expected step time of one generation alone (s); None before the first token."""
        return self._step_times.expected_s(1)

    def wait_s(
        self,
        max_running: int,
        tokens: float,
        left_tokens: float,
        unknown_step_s: float = UNKNOWN_STEP_S,
    ) -> float:
        """Estimate when one more generation would be complete here (s from now).

        Args:
            max_running: Most that are served at once.
            tokens: Expected length of a generation.
            left_tokens: Expected tokens that those here still have to get, on average.
            unknown_step_s: Step time to assume before the first token (s).
        """
        here = self.contenders
        batch = min(here + 1, max_running)
        step_s = self._step_times.expected_s(batch) or unknown_step_s
        ahead = max(0, here + 1 - max_running)
        queue_s = ahead * left_tokens * step_s / max_running
        return queue_s + self._step_times.prefill_s + tokens * step_s

    @property
    def left_tokens(self) -> tuple[int, int]:
        """How many tokens the generations here have got in all, and how many generations it is."""
        return sum(item.tokens for item in self._generations.values()), len(self._generations)
