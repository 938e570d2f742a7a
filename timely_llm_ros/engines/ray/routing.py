"""Which replica is predicted to have a new generation's first segment soonest."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.engine import EngineInfo, EngineState

UNKNOWN_STEP_S = 0.02
"""Step time of a replica of which nothing is known (s)."""

_SEGMENT_STEPS = 6.0
"""Of a first segment. Replicas differ in the time of a step, and not in what plans they write."""

_CHARACTERS_PER_TOKEN = 4.0
_MOST_PREFIXES = 64


@dataclass(slots=True, order=True)
class _Unread:
    """A prompt to read: when its first segment is due, and how long the rest of it takes (s)."""

    due_s: float
    left_s: float = field(compare=False)


class ReplicaLoad:
    """What is known of a replica's work: its latest report, and what was sent there since."""

    def __init__(self, info: EngineInfo, places: int) -> None:
        self._places = places
        times = info.times
        self._alone = None if times is None else times.at(1)
        # Each new generation asks for several of them, of each replica.
        self._steps_s = [
            max(1e-6, times.at(batch).step_s) for batch in range(1, places + 1) if times is not None
        ]
        self._state: EngineState | None = None
        self._sent = 0
        self._unread: list[_Unread] = []
        """In the order in which they are read."""
        self._read_to_s = 0.0
        """The time up to which those that were read meanwhile are gone (s)."""
        self._prompt_s = 0.0
        """How long the latest one takes (s)."""
        self._prefixes: OrderedDict[str, None] = OrderedDict()

    def report(self, state: EngineState, now_s: float) -> None:
        """Take the replica's report; those that are queued may be other planners'."""
        self._state, self._sent = state, 0
        self._read(now_s)
        for _ in range(state.queued - len(self._unread)):
            insort(self._unread, _Unread(now_s, self._prompt_s))

    def sent(self, request: GenerationRequest, now_s: float, *, warm: bool = False) -> None:
        """Count a generation that the next report will include, and its prompt."""
        self._prompt_s = self._own_prefill_s(request, warm=warm)
        self._read(now_s)
        insort(self._unread, _Unread(_due_s(request), self._prompt_s))
        self._sent += 1
        self._prefixes[request.prompt.fixed] = None
        self._prefixes.move_to_end(request.prompt.fixed)
        if len(self._prefixes) > _MOST_PREFIXES:
            self._prefixes.popitem(last=False)

    @property
    def working(self) -> int:
        """Generations there that robots wait for: those of others seldom have a step sooner."""
        return self._sent + (self._state.waited_for if self._state else 0)

    @property
    def generations(self) -> int:
        """All that are there, those whose robots execute too."""
        state = self._state
        return self._sent + (state.running + state.suspended + state.queued if state else 0)

    def first_segment_s(
        self, request: GenerationRequest, now_s: float, *, warm: bool = False
    ) -> float:
        """Return after how long the request's first segment would be complete there (s).

        Reports come more seldom than prompts, so those that are read first are told from what was
        sent: whose segment is due later waits. ``warm`` is whether the KV of its scene is there
        already.
        """
        self._read(now_s)
        due_s = _due_s(request)
        ahead_s = sum(one.left_s for one in self._unread if one.due_s <= due_s)
        working = self.working
        batch = min(working + 1, self._places)
        # Whoever is more than fit takes turns with those who are there.
        turns = max(1.0, (working + 1) / self._places)
        decode_s = _SEGMENT_STEPS * turns * self._step_s(batch)
        return ahead_s + decode_s + self._own_prefill_s(request, warm=warm)

    def _read(self, now_s: float) -> None:
        """Forget what was read up to now."""
        time_s, self._read_to_s = now_s - self._read_to_s, now_s
        while self._unread and time_s > 0.0:
            first = self._unread[0]
            first.left_s -= time_s
            time_s = -first.left_s
            if first.left_s <= 0.0:
                del self._unread[0]

    def _own_prefill_s(self, request: GenerationRequest, *, warm: bool) -> float:
        fixed = len(request.prompt.fixed) / _CHARACTERS_PER_TOKEN
        own = len(request.prompt.body) / _CHARACTERS_PER_TOKEN
        new = 0.0 if warm else own + (0.0 if request.prompt.fixed in self._prefixes else fixed)
        prefill_s = self._prefill_s(fixed + own, new)
        state = self._state
        if state is not None and state.kv_tokens + new > state.kv_capacity_tokens:
            # Somebody's KV goes, and is computed again later.
            prefill_s *= 2
        return prefill_s

    def _step_s(self, batch: int) -> float:
        if self._steps_s:
            return self._steps_s[batch - 1]
        state = self._state
        return state.step_s if state is not None and state.step_s else UNKNOWN_STEP_S

    def _prefill_s(self, tokens: float, new: float) -> float:
        if self._alone is not None:
            return self._alone.prefill_time_s(tokens, tokens - new)
        return new / 128 * self._step_s(1)


def _due_s(request: GenerationRequest) -> float:
    return request.arrival_s + request.utility.expected_response_s
