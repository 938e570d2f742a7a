"""A segment: a part of a plan that a robot can execute while the rest is being generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.pickling import pickled_as_call
from timely_llm_ros.skills.statements import calls_of

if TYPE_CHECKING:
    from timely_llm_ros.skills.statements import Call, Statement


@pickled_as_call
@dataclass(frozen=True, slots=True)
class Segment:
    """One or more complete statements of a plan, executable as they stand.

    Attributes:
        index: 0 for a plan's first segment.
        text: The statements in their shortest form.
        statements: The same, parsed.
        tokens: Tokens that were generated for it. A token that ends several segments counts for
            the first of them.
        is_last: Whether it is known that the plan ends with it.
        awaits_value: Whether the generation is held until the robot answers with the value of the
            segment's blocking call.
    """

    index: int
    text: str
    statements: tuple[Statement, ...]
    tokens: int
    is_last: bool = False
    awaits_value: bool = False

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call in text order, conditions included, loops not unrolled."""
        return tuple(calls_of(self.statements))
