"""Serving requests on a pipeline: KV memory, micro-batches in flight, preemption by recomputing.

What vLLM does with pipeline parallelism, in its essentials: as many micro-batches are in flight as
the scheduler wants; a request that is in one cannot decode in another; prefill may be computed in
chunks; who finds no memory for its next token takes it from the request that came last, which
must then be computed again. Time is the pipeline's, so a run is repeatable and takes no real time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from benchmarks.micro_batch.simulated_pipeline import Pipeline
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.scheduling import TokenBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.scheduling import Budget, LinearCosts


_CONTEXT_GRAIN = 1024
"""Contexts that differ by less than so many tokens count as equal."""


class Workload(NamedTuple):
    """Equal requests that are all there at the beginning."""

    requests: int
    prompt_tokens: int
    output_tokens: int

    def __str__(self) -> str:
        return '/'.join(map(str, self))


@dataclass(slots=True, eq=False)
class Request:
    """A request on its way.

    Attributes:
        context: Tokens that must be computed before its next one comes: first its prompt's.
        to_generate: How many tokens it will yet generate.
        scheduled: Tokens of its context that are computed or in flight.
        decodes: Whether it has all but its newest token in memory.
        in_flight: Micro-batches in flight that it is in.
        blocks: Blocks of KV that it holds.
    """

    context: int
    to_generate: int
    scheduled: int = 0
    decodes: bool = False
    in_flight: int = 0
    blocks: int = 0


class Chunk(NamedTuple):
    """What a micro-batch has of one request."""

    request: Request
    tokens: int


class KvMemory:
    """Blocks of KV. Those of a preempted request are its own again if nobody took them meanwhile.

    Args:
        tokens: Capacity in tokens.
        block: Tokens of a block.
        reuse: Whether a preempted request finds its blocks again (vLLM's prefix cache).
    """

    def __init__(self, tokens: int, block: int = 16, *, reuse: bool = True) -> None:
        self._block = block
        self._reuse = reuse
        # Free, but with the KV of who was preempted; the oldest are taken first.
        self._left: dict[Request, int] = {}
        self.free = tokens // block

    def hold(self, request: Request, tokens: int) -> bool:
        """Make room for so many tokens of a request; return whether there was."""
        needed = -(-tokens // self._block) - request.blocks
        if needed > self.free:
            return False
        if needed > 0:
            self.free -= needed
            request.blocks += needed
            if self._left:
                self._take(sum(self._left.values()) - self.free)
        return True

    def begin(self, request: Request, most_tokens: int) -> int:
        """Make room for what a waiting request can compute; return how many tokens, 0 for none.

        What of its context is still there counts as computed.
        """
        found = self._left.get(request, 0)
        computed = min(found * self._block, request.context - 1)
        tokens = min(request.context - computed, most_tokens)
        if -(-(computed + tokens) // self._block) > self.free:
            return 0
        if found:
            del self._left[request]
            self.free -= found
            request.blocks = found
        self.hold(request, computed + tokens)
        request.scheduled = computed
        return tokens

    def release(self, request: Request, *, ended: bool = False) -> None:
        """Free all that a request holds."""
        self.free += request.blocks
        full = request.scheduled // self._block
        if self._reuse and full and not ended:
            self._left[request] = full
        request.blocks = 0

    def _take(self, blocks: int) -> None:
        while blocks > 0:
            oldest = next(iter(self._left))
            taken = min(blocks, self._left[oldest])
            blocks -= taken
            self._left[oldest] -= taken
            if not self._left[oldest]:
                del self._left[oldest]


class Admission(Protocol):
    """Decides what is in the next micro-batch."""

    @property
    def preempted(self) -> int:
        """How many requests lost their KV."""
        ...

    @property
    def limit(self) -> int:
        """How many micro-batches may be in flight, as of the last one composed."""
        ...

    @property
    def left(self) -> int:
        """How many requests are not finished."""
        ...

    def compose(self, in_flight: int) -> list[Chunk]:
        """Return the next micro-batch; empty where there is none to be sent now.

        Args:
            in_flight: How many are in flight.
        """
        ...

    def finished(self, request: Request) -> None:
        """Take note that a request has all its tokens."""
        ...


class GreedyAdmission:
    """The baseline: up to a fixed number of tokens, running requests first, then new ones.

    Args:
        requests: All requests, by arrival.
        memory: KV memory.
        most_tokens: The most tokens of a micro-batch.
        micro_batches: How many may be in flight.
    """

    def __init__(
        self, requests: list[Request], memory: KvMemory, most_tokens: int, micro_batches: int
    ) -> None:
        self.preempted = 0
        self._waiting = deque(requests)
        self._running: list[Request] = []
        self._memory = memory
        self._most_tokens = most_tokens
        self.limit = micro_batches

    @property
    def left(self) -> int:
        """How many requests are not finished."""
        return len(self._waiting) + len(self._running)

    def compose(self, in_flight: int) -> list[Chunk]:
        """Return the next micro-batch."""
        chunks: list[Chunk] = []
        if in_flight >= self.limit:
            return chunks
        room = self._most_tokens
        before = self.preempted
        for request in list(self._running):
            # One that was preempted for an earlier one is waiting now.
            tokens = min(request.context - request.scheduled, room) if request.blocks else 0
            if tokens and self._hold(request, request.scheduled + tokens):
                request.scheduled += tokens
                room -= tokens
                chunks.append(Chunk(request, tokens))
        while self._waiting and room and self.preempted == before:
            request = self._waiting[0]
            tokens = self._memory.begin(request, room)
            if not tokens:
                break
            self._running.append(self._waiting.popleft())
            request.scheduled += tokens
            room -= tokens
            chunks.append(Chunk(request, tokens))
        return chunks

    def finished(self, request: Request) -> None:
        """Take note that a request has all its tokens."""
        self._running.remove(request)
        self._memory.release(request, ended=True)

    def _hold(self, request: Request, tokens: int) -> bool:
        """Make room for a request, if need be by taking it from one that came later."""
        while not self._memory.hold(request, tokens):
            place = self._running.index(request)
            later = [other for other in self._running[place + 1 :] if not other.in_flight]
            if later:
                self._preempt(later[-1])
            elif any(other.in_flight for other in self._running):
                return False
            elif len(self._running) > 1:
                self._preempt(request)
                return False
            else:
                raise ConfigurationError(
                    f'KV memory: a request of {tokens} tokens does not fit by itself'
                )
        return True

    def _preempt(self, request: Request) -> None:
        self.preempted += 1
        self._memory.release(request)
        self._running.remove(request)
        self._waiting.appendleft(request)
        request.scheduled = 0
        request.decodes = False


class SpreadAdmission(GreedyAdmission):
    """Decoding and prefill spread over the micro-batches, as ``TokenBudget`` says.

    A request is admitted when its whole context fits; its memory is held from then on.

    Args:
        requests: All requests, by arrival.
        memory: KV memory.
        most_tokens: The most tokens of a micro-batch.
        count: Number of micro-batches for so many tokens of a round, whose contexts have so many.
    """

    def __init__(
        self,
        requests: list[Request],
        memory: KvMemory,
        most_tokens: int,
        count: Callable[[int, int], int],
    ) -> None:
        super().__init__(requests, memory, most_tokens, count(0, 0))
        self._budget = TokenBudget(most_tokens)
        self._count = count
        self._counts: dict[tuple[int, int], int] = {}

    def compose(self, in_flight: int) -> list[Chunk]:
        """Return the next micro-batch."""
        while self._waiting and self._memory.begin(self._waiting[0], self._waiting[0].context):
            self._running.append(self._waiting.popleft())
        decoding = prefill = context = 0
        ready: list[Request] = []
        for request in self._running:
            left = request.context - request.scheduled
            context += request.context
            if request.decodes:
                decoding += 1
            else:
                prefill += left
            if left:
                ready.append(request)
        round_tokens = decoding + prefill
        # Contexts grow with every round; the count need not be found anew for each token.
        context = -(-context // _CONTEXT_GRAIN) * _CONTEXT_GRAIN
        count = self._counts.get((round_tokens, context))
        if count is None:
            count = self._counts[round_tokens, context] = self._count(round_tokens, context)
        self.limit = count
        if in_flight >= count:
            return []
        new = prefill - self._budget.waiting
        self._budget.withdraw(max(0, -new))
        budget = self._budget.issue(count, decoding, max(0, new))
        return self._fill(ready, budget)

    def _fill(self, ready: list[Request], budget: Budget) -> list[Chunk]:
        chunks: list[Chunk] = []
        decode, prefill = budget.decode, budget.prefill
        for request in ready:
            if not request.blocks:
                # It was preempted for an earlier one and is waiting now.
                continue
            if request.decodes:
                if decode and self._hold(request, request.context):
                    request.scheduled += 1
                    decode -= 1
                    chunks.append(Chunk(request, 1))
            elif tokens := min(request.context - request.scheduled, prefill):
                request.scheduled += tokens
                prefill -= tokens
                chunks.append(Chunk(request, tokens))
        return chunks


class Served(NamedTuple):
    """What a run took."""

    completion_s: float
    """Until the last request has its last token."""
    busy_s: float
    """How long each stage computed."""
    micro_batches: int
    """How many there were."""
    tokens: int
    """Tokens in all of them."""
    preempted: int
    """How often a request had to be computed again."""
    held_s: float = 0.0
    """How long each stage but the last was held up by sending."""

    @property
    def idle_s(self) -> float:
        """How long each stage did not compute."""
        return self.completion_s - self.busy_s


def serve(
    admission: Admission, costs: LinearCosts, *, stages: int = 4, return_s: float = 0.0
) -> Served:
    """Serve all requests that an admission has and return what it took.

    A micro-batch is composed as soon as one may be in flight, also while the first stage is busy;
    one that comes back is dealt with before the next is composed.

    Raises:
        ConfigurationError: A request needs more KV memory than there is.
    """
    pipeline = Pipeline(stages, costs, return_s=return_s)
    flying: deque[tuple[float, list[Chunk]]] = deque()
    now_s = 0.0
    micro_batches = tokens = 0
    while True:
        while len(flying) < admission.limit and (chunks := admission.compose(len(flying))):
            size = context = 0
            for request, part in chunks:
                size += part
                context += request.scheduled
                request.in_flight += 1
            flying.append((pipeline.run(size, now_s, context), chunks))
            micro_batches += 1
            tokens += size
        if not flying and admission.left:
            raise ConfigurationError(
                f'KV memory: the next of {admission.left} requests does not fit by itself'
            )
        if not flying:
            return Served(
                now_s,
                pipeline.busy_s,
                micro_batches,
                tokens,
                admission.preempted,
                pipeline.held_s,
            )
        now_s, chunks = flying.popleft()
        for request, _ in chunks:
            request.in_flight -= 1
            if request.in_flight or request.scheduled < request.context:
                continue
            request.context += 1
            request.decodes = True
            request.to_generate -= 1
            if not request.to_generate:
                admission.finished(request)
