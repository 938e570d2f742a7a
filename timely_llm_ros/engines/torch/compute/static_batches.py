"""Static batches on a loaded model: what begins together is computed until its longest has ended.

Accelerators that cannot batch continuously work like that: a batch's shape is fixed, so rows whose
text has ended are computed on as padding. Here static batches serve offline generation, and they
show what multi-bin batching gains. The torch engine itself batches continuously, which is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import Submit
from timely_llm_ros.engines.core import (
    CoreOptions,
    EngineCore,
    Generation,
    KvLedger,
    PrefixRow,
    Row,
    StepPlan,
)
from timely_llm_ros.engines.engine import GenerationEnded, SegmentGenerated
from timely_llm_ros.engines.tokens import StopText
from timely_llm_ros.engines.torch.compute.backend import TorchBackend
from timely_llm_ros.errors import ConfigurationError, EngineError, PlanError
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import segmenter_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core import Prefix
    from timely_llm_ros.engines.engine import EndReason
    from timely_llm_ros.engines.tokens import Sampling
    from timely_llm_ros.engines.torch.compute.model import LoadedModel


@dataclass(frozen=True, slots=True)
class Generated:
    """What became of one request: the fields of :class:`GenerationEnded`, and the text so far."""

    generation_id: str
    reason: EndReason
    error: str
    text: str
    tokens: int


@dataclass(slots=True)
class _Member:
    """One row of a batch."""

    generation: Generation
    text: list[str] = field(default_factory=list)
    tokens: int = 0
    reason: EndReason | None = None
    error: str = ''


class StaticBatches:
    """Serves batches, one after the other, in the caller's thread.

    Args:
        loaded: The model.
        padding: Whether rows that have ended are computed until the longest has.
        sampling: How tokens are chosen; None for the likeliest always.
    """

    def __init__(
        self, loaded: LoadedModel, *, padding: bool = True, sampling: Sampling | None = None
    ) -> None:
        self._loaded = loaded
        self._padding = padding
        self._backend = TorchBackend(loaded, observations=False, sampling=sampling)
        self._kv = KvLedger(loaded.pool.capacity)
        self.steps = 0
        """Steps computed so far."""

    def serve(self, requests: Sequence[GenerationRequest]) -> list[Generated]:
        """Generate all of them together; return the results in their order.

        Raises:
            ConfigurationError: The batch does not fit into the KV pool.
        """
        results: dict[str, Generated] = {}
        members: list[_Member] = []
        for request in requests:
            name = request.generation_id
            try:
                key, prefix_tokens, own_tokens = self._backend.open(request)
            except EngineError as err:
                results[name] = Generated(name, 'error', str(err), '', 0)
                continue
            context = self._kv.open(name, key, prefix_tokens, own_tokens)
            segmenter = segmenter_for(request.skill_set, request.scene, whole_plan=True)
            stop = StopText(self._loaded.stop_strings)
            members.append(_Member(Generation(request, context, segmenter, stop)))
        try:
            if members:
                self._check_room(members)
                self._generate(members)
        finally:
            for member in members:
                self._backend.close(member.generation.generation_id)
                self._kv.close(member.generation.context)
            self._drop_prefixes(members)
        for member in members:
            results[member.generation.generation_id] = _generated(member)
        return [results[request.generation_id] for request in requests]

    def _check_room(self, members: list[_Member]) -> None:
        prefixes = {member.generation.context.prefix for member in members}
        needed = sum(prefix.tokens for prefix in prefixes)
        needed += max(m.generation.request.max_tokens for m in members) * len(members)
        needed += sum(member.generation.context.tokens for member in members)
        if needed > self._kv.capacity:
            raise ConfigurationError(
                f'batch of {len(members)}: it may take {needed} tokens of KV, expected at most '
                f'{self._kv.capacity}'
            )
        for member in members:
            context, limit = member.generation.context, self._loaded.context_limit
            most = context.prefix.tokens + context.tokens + member.generation.request.max_tokens
            if most > limit:
                raise ConfigurationError(
                    f'{context.name}: it may have {most} tokens, expected at most {limit}'
                )

    def _generate(self, members: list[_Member]) -> None:
        prefixes: dict[Prefix, PrefixRow] = {}
        for member in members:
            prefix = member.generation.context.prefix
            if not prefix.ready:
                prefixes[prefix] = PrefixRow(prefix, prefix.tokens - prefix.computed)
                self._kv.compute_prefix(prefix, prefix.tokens - prefix.computed)
        rows = [Row(m.generation, m.generation.context.tokens, True) for m in members]
        self._step(tuple(prefixes.values()), rows, members)
        while any(member.reason is None for member in members):
            rows = []
            for member in members:
                if member.reason is None:
                    rows.append(Row(member.generation, 1, True))
                elif self._padding:
                    self._backend.pad(member.generation.generation_id)
                    rows.append(Row(member.generation, 1, False))
            self._step((), rows, [member for member in members if member.reason is None])

    def _step(
        self, prefixes: tuple[PrefixRow, ...], rows: list[Row], sampling: list[_Member]
    ) -> None:
        self.steps += 1
        plan = StepPlan(prefixes, tuple(rows), tuple(row.generation for row in rows))
        for member, output in zip(sampling, self._backend.execute(plan), strict=True):
            if output.error:
                member.reason, member.error = 'error', output.error
                continue
            stop = member.generation.stop
            if not output.ended or output.text:
                member.tokens += 1
                member.text.append(stop.push(output.text))
            if output.ended or stop.found:
                member.text.append(stop.rest())
                member.reason = 'stop'
            elif member.tokens >= member.generation.request.max_tokens:
                member.reason = 'length'

    def _drop_prefixes(self, members: list[_Member]) -> None:
        """Free prefixes so that those of other skill sets never fill the pool."""
        for prefix in {member.generation.context.prefix for member in members}:
            if self._kv.used > self._kv.capacity // 2 and prefix.computed:
                self._kv.used -= prefix.computed
                prefix.computed = 0
                self._backend.drop_prefix(prefix.key)


def _generated(member: _Member) -> Generated:
    request, text = member.generation.request, ''.join(member.text)
    reason, error = member.reason or 'error', member.error
    if reason == 'stop' and request.forced_token_ids is None:
        try:
            member.generation.segmenter.push(text, member.tokens)
            member.generation.segmenter.finish()
        except PlanError as err:
            reason, error = 'invalid_plan', str(err)
    return Generated(request.generation_id, reason, error, text, member.tokens)


def serve_continuously(
    loaded: LoadedModel,
    requests: Iterable[GenerationRequest | None],
    *,
    batch: int,
    sampling: Sampling | None = None,
) -> Iterator[Generated]:
    """Generate all of them, a new one as soon as another has ended; yield each when it ends.

    They begin in their order, at most ``batch`` in one step; None among them says that none has
    come for a moment.
    """
    backend = TorchBackend(loaded, observations=False, sampling=sampling)
    core = EngineCore(
        backend,
        CoreOptions(
            mode='whole_plan',
            max_running=batch,
            max_kv_tokens=loaded.pool.capacity,
            context_limit=loaded.context_limit,
            stop_strings=loaded.stop_strings,
            scheduling=SchedulingOptions(admission='fixed'),
        ),
    )
    waiting = iter(requests)
    more, live = True, 0
    text: dict[str, str] = {}
    while True:
        # Few at a time, so that choosing among them costs nothing.
        while more and live < 2 * batch:
            try:
                request = next(waiting)
            except StopIteration:
                more = False
                break
            if request is None:
                break
            core.apply(Submit(request))
            live += 1
        plan = core.plan(0.0)
        if plan is not None:
            core.complete(plan, backend.execute(plan), 0.0, 0.001)
        for event in core.take_events():
            if isinstance(event, SegmentGenerated):
                text[event.generation_id] = event.segment.text
            elif isinstance(event, GenerationEnded):
                live -= 1
                name = event.generation_id
                yield Generated(name, event.reason, event.error, text.pop(name, ''), event.tokens)
        if not more and not live:
            return
