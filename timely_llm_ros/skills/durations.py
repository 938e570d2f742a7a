"""How long skills take: a model per skill.

A model knows a call's expected time and draws times for a simulation.
Coefficients are per SI unit of an argument; an object argument counts with its distance from
the robot's start (m).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from timely_llm_ros.skills.scene import Scene
    from timely_llm_ros.skills.statements import Call

MAX_VARIATION = 0.5
"""Largest relative variation, so that a drawn time is never negative."""

SPREAD = 2.0
"""Drawn times stay within this many variations of the expected one."""


class _Varying(ABC):
    """A duration whose drawn times lie around the expected one."""

    __slots__ = ()

    @property
    @abstractmethod
    def variation(self) -> float:
        """Relative standard deviation, 0 to ``MAX_VARIATION``."""

    @abstractmethod
    def expected_s(self, call: Call, scene: Scene, /) -> float:
        """Return the expected time (s)."""

    def sample_s(self, call: Call, scene: Scene, rng: random.Random, /) -> float:
        """Draw a time (s); its mean is the expected one."""
        # Cut symmetrically, so that the mean stays.
        deviation = max(-SPREAD, min(SPREAD, rng.gauss(0.0, 1.0)))
        return self.expected_s(call, scene) * (1.0 + self.variation * deviation)


@dataclass(frozen=True, slots=True)
class ConstantDuration(_Varying):
    """The same expected time (s) for every call."""

    seconds: float
    variation: float = 0.0

    def expected_s(self, _call: Call, _scene: Scene, /) -> float:
        """Return the time (s)."""
        return self.seconds


@dataclass(frozen=True, slots=True)
class LinearDuration(_Varying):
    """A base time plus so much per SI unit of some arguments.

    Attributes:
        base_s: Time (s) of a call whose arguments are all zero.
        per: Seconds per metre, radian or second of an argument; per metre of distance for an
            object. A negative argument counts with its absolute value.
    """

    base_s: float
    per: Mapping[str, float] = field(hash=False)
    variation: float = 0.0

    def expected_s(self, call: Call, scene: Scene, /) -> float:
        """Return the expected time (s); an object that the scene does not have is at distance 0."""
        total_s = self.base_s
        for argument in call.arguments:
            seconds_per_unit = self.per.get(argument.name)
            if seconds_per_unit is None:
                continue
            if isinstance(argument.value, str):
                item = scene.get(argument.value)
                amount = item.distance_m if item is not None else 0.0
            else:
                amount = abs(argument.value)
            total_s += seconds_per_unit * amount
        return total_s


@dataclass(frozen=True, slots=True)
class EmpiricalDuration:
    """Times (s) that were measured on a robot, at least one."""

    samples_s: tuple[float, ...]

    def expected_s(self, _call: Call, _scene: Scene, /) -> float:
        """Return the mean of the measured times (s)."""
        return math.fsum(self.samples_s) / len(self.samples_s)

    def sample_s(self, _call: Call, _scene: Scene, rng: random.Random, /) -> float:
        """Draw one of the measured times (s)."""
        return rng.choice(self.samples_s)


@dataclass(frozen=True, slots=True)
class ReadingDuration(_Varying):
    """The time in which a person reads the string arguments of a call.

    Attributes:
        words_per_minute: How fast, words being what white space separates. 300 is an adult's
            average (TimelyLLM, section 7.1).
    """

    words_per_minute: float
    variation: float = 0.0

    def expected_s(self, call: Call, _scene: Scene, /) -> float:
        """Return the expected time (s)."""
        words = sum(
            len(argument.value.split())
            for argument in call.arguments
            if isinstance(argument.value, str)
        )
        return 60.0 * words / self.words_per_minute


DurationModel = ConstantDuration | LinearDuration | EmpiricalDuration | ReadingDuration
"""What a skill's ``duration`` may be."""
