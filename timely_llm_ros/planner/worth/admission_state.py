"""What was taken and refused, and what came of what was promised."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class KindState:
    """Tasks of one kind that were taken and had been told what to expect.

    Attributes:
        responses: How many had their response, or were given up without one.
        in_time: How many of them within their expected response time.
        kept: How many of them within what was promised.
        expected_s: Sum of the responses that were expected (s).
        achieved_s: Sum of the responses that came, or of the waits for those that did not (s).
    """

    responses: int = 0
    in_time: int = 0
    kept: int = 0
    expected_s: float = 0.0
    achieved_s: float = 0.0


@dataclass(slots=True)
class AdmissionState:
    """Figures since the planner was made.

    Attributes:
        demand: How much of the engine is asked for; above 1 it is more than there is.
        refused: Tasks refused by what stood against them: ``robot`` and ``engine``, the greater
            part of a response that would be worth too little; ``price``, what others earn.
        worthless: Tasks that were taken and could not be worth more than their floor any more.
        kinds: By skill set and expected response time.
    """

    demand: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    worthless: int = 0
    kinds: dict[str, KindState] = field(default_factory=dict)
