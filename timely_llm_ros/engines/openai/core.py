"""The engine core of one server, which the server's tokens drive instead of steps of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.engines.core import EngineCore
from timely_llm_ros.scheduling import Phase

if TYPE_CHECKING:
    from timely_llm_ros.engines.core import CoreOptions, Generation, Output
    from timely_llm_ros.engines.engine import EndReason
    from timely_llm_ros.engines.openai.sequences import ServerSequences

UNKNOWN_STEP_S = 0.02
"""Step time of a server before its first token, where no other server's is known either."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A generation on its way from one server to another."""

    generation: Generation
    phase: Phase
    due_s: float
    remaining_tokens: float | None


class ServerCore:
    """The generations of one server; the policy decides here which of them run there.

    Tokens come for one generation at a time, so its busy time is counted from its own tokens.

    Args:
        sequences: The token ids of the generations of all servers.
        options: How generations are scheduled, and how much KV the server is taken to keep.
    """

    def __init__(self, sequences: ServerSequences, options: CoreOptions) -> None:
        self._core = EngineCore(sequences, options)
        self.generations = self._core.generations
        """The generations, for commands, events and states."""

    def choose(self, now_s: float) -> list[str]:
        """Choose who is to be served from now on and return their ids."""
        self._core.plan(now_s)
        return self.generations.running

    def take(
        self,
        generation: Generation,
        output: Output,
        *,
        elapsed_s: float,
        begins: bool,
        now_s: float,
    ) -> None:
        """Take one token of a running generation.

        ``elapsed_s`` is the time since its previous token, or since the request where the token
        ``begins`` the request's answer, and 0 where no server made it.
        """
        generations = self.generations
        running = max(1, generations.table.count(Phase.RUNNING))
        times = generations.step_times
        if begins and elapsed_s:
            times.observe_prefill(running, 1, elapsed_s)
        elif elapsed_s:
            generations.step_s = elapsed_s
            times.observe(running, elapsed_s)
        if elapsed_s:
            generations.spend((generation,), elapsed_s, (generation,) if begins else ())
        generations.take(generation, output, now_s)
        if generation.ended:
            generations.changed = True
        else:
            generations.count((generation,))

    def is_running(self, generation_id: str) -> bool:
        """Return whether a generation is to be served now."""
        return self.generations.table.phase(generation_id) is Phase.RUNNING

    def end(
        self, generation_id: str, reason: EndReason, error: str = '', *, refused: bool = False
    ) -> None:
        """End a generation, if it is here."""
        generation = self.generations.get(generation_id)
        if generation is not None:
            self.generations.end(generation, reason, error, refused=refused)

    def limit_context(self, tokens: int) -> None:
        """Set the most tokens that one context may have on this server."""
        self.generations.context_limit = min(tokens, self._core.kv.capacity)

    def release(self, generation: Generation) -> Handover:
        """Let a generation go and return all that is known of it."""
        generations, name = self.generations, generation.generation_id
        handover = Handover(
            generation,
            generations.phase(generation),
            generations.table.get(name, 'due_s'),
            generations.remaining_tokens(name),
        )
        generations.remove(generation)
        return handover

    def adopt(self, handover: Handover) -> None:
        """Go on with a generation of another server; its KV is computed anew here."""
        generation, phase = handover.generation, handover.phase
        generations, name, old = self.generations, generation.generation_id, generation.context
        generation.context = self._core.kv.open(name, old.prefix.key, old.prefix.tokens, old.tokens)
        made_tokens = generation.segment_tokens
        generations.add(generation, handover.remaining_tokens)
        generation.segment_tokens = made_tokens
        generations.table.set(name, 'generated_tokens', made_tokens)
        generations.table.set(name, 'due_s', handover.due_s)
        generations.set_phase(generation, Phase.SUSPENDED if phase is Phase.RUNNING else phase)

    @property
    def contenders(self) -> int:
        """Generations that want to be served now."""
        return self.generations.waiting + self.generations.table.count(Phase.RUNNING)

    def forget_times(self) -> None:
        """Forget how fast the server was, because one that comes back may be another machine.

        Servers that die under load are slow before, and would otherwise never be tried again.
        """
        self.generations.step_times.forget()

    def token_s(self, max_running: int, unknown_step_s: float) -> float:
        """Estimate how long a token of one more generation would take here (s).

        Args:
            max_running: Most that are served at once; those beyond take turns.
            unknown_step_s: Step time to assume before the first token (s).
        """
        wanted = self.contenders + 1
        step_s = self.generations.step_times.expected_s(min(wanted, max_running))
        return (step_s or unknown_step_s) * max(1.0, wanted / max_running)
