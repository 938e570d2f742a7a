"""What a suite of tasks is: tasks of others, their right plans, and a judge that is theirs too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from timely_llm_ros.skills import Call, Scene, SkillSet

_NO_WORD = re.compile(r'[^a-z0-9]+')


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """One task of a suite.

    Attributes:
        name: Unique in its suite.
        instruction: What is to be brought about.
        scene: Everything that a plan may name.
        shown: What a model is told of, as the suite tells its own.
        gold: The suite's right plan, in the plan language.
    """

    name: str
    instruction: str
    scene: Scene
    shown: Scene
    gold: str


@dataclass(frozen=True, slots=True)
class SuiteVerdict:
    """What a suite's evaluator says of a plan.

    Attributes:
        refused: Why its text is none that the evaluator takes; empty where it is.
        executable: Whether its actions can be done in their order, in the evaluator's world.
        errors: What went wrong there, in the evaluator's words.
        met: How many of the task's goals it brings about.
        goals: How many there are.
        success: Whether the task is done.
    """

    refused: str
    executable: bool
    errors: tuple[str, ...]
    met: int
    goals: int
    success: bool


class Suite(Protocol):
    """Tasks of others and their evaluator."""

    @property
    def name(self) -> str:
        """What commands call it; its skill set has the same name."""
        ...

    @property
    def skill_set(self) -> SkillSet:
        """What its robots can do."""
        ...

    def names(self) -> list[str]:
        """Return the names of all tasks, in the suite's order."""
        ...

    def task(self, name: str) -> SuiteTask:
        """Return a task."""
        ...

    def answer(self, name: str, calls: Iterable[Call]) -> str:
        """Return calls as the text that the suite asks its own models for."""
        ...

    def judge(self, name: str, answer: str) -> SuiteVerdict:
        """Return what the suite's evaluator says of such a text."""
        ...

    def judge_gold(self, name: str) -> SuiteVerdict:
        """Return what it says of the suite's right plan, taken from the suite's own file."""
        ...


def as_word(name: str) -> str:
    """Return a name as the plan language has them; what is a word already stays as it is."""
    word = _NO_WORD.sub('_', name.lower()).strip('_')
    return word if word[:1].isalpha() else f'object_{word}'.rstrip('_')
