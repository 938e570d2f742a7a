"""The engine core of one server, driven by the server's tokens instead of steps of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.engines.core import EngineCore
from timely_llm_ros.scheduling import Phase

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.core import CoreOptions, Generation, Output
    from timely_llm_ros.engines.engine import EngineEvent, EngineState
    from timely_llm_ros.engines.openai.sequences import ServerSequences

UNKNOWN_STEP_S = 0.02
"""Step time of a server of which no token has come yet, where no other's is known either."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A generation on its way from one server to another."""

    generation: Generation
    phase: Phase
    due_s: float
    remaining_tokens: float | None


class ServerCore:
    """The generations of one server: who runs there next is decided here, by the same policies.

    Tokens come for one generation at a time, so its busy time is counted from its own tokens.

    Args:
        sequences: The generations' token ids, which are those of all servers.
        options: How generations are scheduled, and how much KV the server is taken to keep.
    """

    def __init__(self, sequences: ServerSequences, options: CoreOptions) -> None:
        self._core = EngineCore(sequences, options)
        self._generations = self._core.generations

    def apply(self, command: Command) -> None:
        """Do what a command asks for; one that names no generation of this server is ignored."""
        self._generations.apply(command)

    def take_events(self) -> list[EngineEvent]:
        """Return the events since the last call, oldest first."""
        return self._generations.take_events()

    def state(self, now_s: float) -> EngineState:
        """Return a snapshot."""
        return self._generations.state(now_s)

    def choose(self, now_s: float) -> list[str]:
        """Choose who is to be served from now on and return their ids."""
        self._core.plan(now_s)
        return self.running

    @property
    def running(self) -> list[str]:
        """The ids of those that are to be served now."""
        return self._generations.running

    @property
    def waiting(self) -> int:
        """How many compete for the server and are not served now."""
        return self._generations.waiting

    def due_s(self, generation: Generation) -> float:
        """Return when a generation's next segment is due (s)."""
        return self._generations.due_s(generation)

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

        Args:
            generation: Whose.
            output: The token.
            elapsed_s: Since its previous token or the request (s).
            begins: Whether it is the request's first.
            now_s: The time (s).
        """
        generations = self._generations
        running = max(1, generations.table.count(Phase.RUNNING))
        if begins:
            generations.step_times.observe_prefill(running, 1, elapsed_s)
        else:
            generations.step_s = elapsed_s
            generations.step_times.observe(running, elapsed_s)
        generation.segment_s += elapsed_s
        generation.total_s += elapsed_s
        generations.take(generation, output, now_s)
        if generation.ended:
            generations.changed = True
        else:
            generations.count((generation,))

    def find(self, generation_id: str) -> Generation | None:
        """Return a generation; None where it is not here."""
        return self._generations.get(generation_id)

    def is_running(self, generation_id: str) -> bool:
        """Tell whether a generation is to be served now."""
        return self._generations.table.phase(generation_id) is Phase.RUNNING

    def fail(self, generation_id: str, error: str) -> None:
        """End a generation with an error."""
        generation = self.find(generation_id)
        if generation is not None:
            self._generations.end(generation, 'error', error)

    def run_out(self, generation_id: str) -> None:
        """End a generation whose context is full."""
        generation = self.find(generation_id)
        if generation is not None:
            self._generations.end(generation, 'length')

    def limit_context(self, tokens: int) -> None:
        """Set the most tokens that one context may have on this server."""
        self._generations.context_limit = min(tokens, self._core.kv.capacity)

    def everyone(self) -> list[Generation]:
        """Return every generation that is here."""
        return list(self._generations)

    def release(self, generation: Generation) -> Handover:
        """Let a generation go, all that is known of it kept."""
        generations, name = self._generations, generation.generation_id
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
        generations, name, old = self._generations, generation.generation_id, generation.context
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
        return self.waiting + self._generations.table.count(Phase.RUNNING)

    def forget_times(self) -> None:
        """Forget how fast the server was: one that comes back may be another machine.

        Otherwise a server last seen slow, as one is that dies under load, would never be tried.
        """
        self._generations.step_times.forget()

    @property
    def single_step_s(self) -> float | None:
        """Expected step time of one generation alone (s); None before the first token."""
        return self._generations.step_times.expected_s(1)

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
        step_s = self._generations.step_times.expected_s(batch) or unknown_step_s
        ahead = max(0, here + 1 - max_running)
        queue_s = ahead * left_tokens * step_s / max_running
        return queue_s + self._generations.step_times.prefill_s + tokens * step_s

    @property
    def left_tokens(self) -> tuple[int, int]:
        """How many tokens the generations here have got in all, and how many generations it is."""
        return sum(item.tokens for item in self._generations), len(self._generations)
