"""A generation on its way through replicas: what its planner knows of it, and nobody else.

Where its replica is lost, another one writes the plan again from its beginning, and what was
delivered is not delivered twice. A model that always takes the likeliest token writes the same
plan; the segments are compared, so a robot never gets two halves of different plans.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import Cancel, Resume, RobotIdleAt, Submit, Suspend
from timely_llm_ros.engines.engine import EvictionDecided, GenerationEnded, SegmentGenerated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timely_llm_ros.engines.commands import Command, GenerationRequest
    from timely_llm_ros.engines.engine import EngineEvent
    from timely_llm_ros.skills import Segment


@dataclass(slots=True)
class Journey:
    """One generation.

    Attributes:
        request: What was submitted.
        replica: Name of the replica that has it; empty while it waits for one.
        losses: How many replicas were lost with it.
        delivered: The segments that its planner has.
    """

    request: GenerationRequest
    replica: str = ''
    losses: int = 0
    delivered: list[Segment] = field(default_factory=list)
    _values: list[str] = field(default_factory=list)
    _held: bool = False
    _idle_at_s: float | None = None
    _evicted: bool = False
    _seen: int = 0
    _asked: int = 0
    _stale: bool = False

    def begin(self, replica: str) -> Iterator[Command]:
        """Yield what tells a replica to write the plan."""
        self.replica, self._seen, self._asked, self._stale = replica, 0, 0, False
        request = self.request
        if self.delivered:
            # Its first segment came in time: what the first one is worth now decides nothing.
            utility = replace(request.utility, floor=-float('inf'))
            request = replace(request, utility=utility)
        yield Submit(request)
        if self._held:
            yield Suspend(request.generation_id)
        if self._idle_at_s is not None:
            yield RobotIdleAt(request.generation_id, self._idle_at_s)

    def repeat(self, request: GenerationRequest) -> Journey:
        """Return what takes its place, as its id is submitted again: it ends there before."""
        return Journey(request, self.replica, _stale=True)

    def command(self, command: Command) -> Iterator[Command]:
        """Note a command; yield it if its replica is to have it now."""
        match command:
            case Resume(_, None):
                self._held = False
            case Resume(_, str() as value):
                if len(self._values) >= self._awaited:
                    return
                self._values.append(value)
                self._held = False
                # A replica that writes the plan again gets it when it asks.
                if self._asked < len(self._values):
                    return
            case Suspend():
                self._held = True
            case RobotIdleAt(_, idle_at_s):
                self._idle_at_s = idle_at_s
            case _:
                pass
        yield command

    @property
    def _awaited(self) -> int:
        return sum(segment.awaits_value for segment in self.delivered)

    def event(self, event: EngineEvent) -> Iterator[EngineEvent | Cancel | Resume | RobotIdleAt]:
        """Take a replica's event; yield what its planner and what the replica is to have."""
        match event:
            case GenerationEnded() if self._stale:
                self._stale = False
            case _ if self._stale:
                pass
            case SegmentGenerated(name, segment):
                again = self._seen < len(self.delivered)
                if not again:
                    self.delivered.append(segment)
                    yield event
                elif segment != self.delivered[self._seen]:
                    yield Cancel(name)
                    yield self._other_plan(event)
                    return
                self._seen += 1
                yield from self._answer(segment, again=again)
            case GenerationEnded(reason='error' | 'canceled'):
                yield event
            case GenerationEnded():
                fits = self._seen == len(self.delivered)
                yield event if fits else self._other_plan(event)
            case EvictionDecided():
                if not self._evicted:
                    self._evicted = True
                    yield event
            case _:
                yield event

    def _answer(self, segment: Segment, *, again: bool) -> Iterator[Resume | RobotIdleAt]:
        """Yield the value that a replica asks for where it is known from before."""
        name = self.request.generation_id
        if segment.awaits_value:
            if self._asked < len(self._values):
                yield Resume(name, self._values[self._asked])
            self._asked += 1
        if again and self._seen == len(self.delivered) and self._idle_at_s is not None:
            # Each segment that is written again moves when the next one is due.
            yield RobotIdleAt(name, self._idle_at_s)

    def _other_plan(self, event: SegmentGenerated | GenerationEnded) -> GenerationEnded:
        """Return the end of a plan that came out as another one on its new replica."""
        error = (
            f'replica {self.replica}: wrote another segment {self._seen} than the lost one had: '
            'expected the same (sampling.temperature 0, and dtype float32 where batches differ)'
        )
        return GenerationEnded(event.generation_id, 'error', error, 0, event.generation_s)
