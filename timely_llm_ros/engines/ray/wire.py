"""What goes between a planner and a replica, and the difference between their clocks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from timely_llm_ros.engines.commands import RobotIdleAt, Submit
from timely_llm_ros.engines.engine import EvictionDecided, SegmentGenerated

if TYPE_CHECKING:
    from timely_llm_ros.budget import EvictionRule
    from timely_llm_ros.engines.commands import Command
    from timely_llm_ros.engines.engine import EngineEvent, EngineInfo

HEARTBEAT_S = 1.0
"""How often a replica and a planner say something where nothing happens (s)."""

SILENCE_S = 6.0
"""After so long without a word, either side takes the other for lost (s)."""

_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a replica.

    Attributes:
        info: What its engine runs.
        places: Most generations in one step of it.
    """

    info: EngineInfo
    places: int


@dataclass(frozen=True, slots=True)
class ShiftedEviction:
    """A rule about the planner's clock for an engine whose clock is ``ahead_s`` ahead of it."""

    rule: EvictionRule
    ahead_s: float

    def keep(self, prompt_tokens: int, now_s: float) -> int:
        """Return how many tokens keep their KV."""
        return self.rule.keep(prompt_tokens, now_s - self.ahead_s)


class ClockDifference:
    """How far another machine's clock is ahead: each is monotonic from a start of its own.

    Of the latest exchanges the quickest one tells it best, to half of its round trip.
    """

    def __init__(self) -> None:
        self._found: deque[tuple[float, float, int]] = deque()
        """Of the latest exchanges those than which no later one was as quick: how long each took
        (s), what it found (s), and its number."""
        self._number = 0
        self.ahead_s = 0.0
        """By how much their clock is ahead (s)."""

    def observe(self, asked_s: float, answered_s: float, theirs_s: float) -> None:
        """Take an exchange: when we asked and had the answer, and their time in between (s)."""
        ahead_s = theirs_s - (asked_s + answered_s) / 2
        took_s = answered_s - asked_s
        while self._found and self._found[-1][0] >= took_s:
            self._found.pop()
        self._found.append((took_s, ahead_s, self._number))
        if self._found[0][2] <= self._number - _REMEMBERED:
            self._found.popleft()
        self._number += 1
        self.ahead_s = self._found[0][1]

    @property
    def known(self) -> bool:
        """Whether there was an exchange."""
        return bool(self._found)

    def theirs(self, command: Command) -> Command:
        """Return a command with their times in place of ours."""
        ahead_s = self.ahead_s
        match command:
            case Submit(request):
                rule = request.eviction
                shifted = replace(
                    request,
                    arrival_s=request.arrival_s + ahead_s,
                    eviction=None if rule is None else ShiftedEviction(rule, ahead_s),
                )
                return Submit(shifted)
            case RobotIdleAt(name, idle_at_s):
                return RobotIdleAt(name, idle_at_s + ahead_s)
            case _:
                return command

    def ours(self, event: EngineEvent) -> EngineEvent:
        """Return an event with our times in place of theirs."""
        match event:
            case SegmentGenerated():
                return replace(event, token_at_s=event.token_at_s - self.ahead_s)
            case EvictionDecided():
                return replace(event, at_s=event.at_s - self.ahead_s)
            case _:
                return event
