"""Skill sets: what a robot can do, with typed and bounded arguments."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from timely_llm_ros.pickling import pickled_as_call
from timely_llm_ros.skills.limits import PlanLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.skills.durations import DurationModel
    from timely_llm_ros.skills.motions import Motion
    from timely_llm_ros.skills.scene import Scene

ArgumentKind = Literal['int', 'number', 'object', 'string', 'choice']
"""What an argument is in plan text."""

ReturnKind = Literal['none', 'bool', 'text']
"""What a skill gives back to the plan."""

Risk = Literal['low', 'medium', 'high']
"""What may come of a skill that is done in the wrong moment."""

RISKS: tuple[Risk, ...] = get_args(Risk)
"""The classes of risk, from the lowest."""

SegmentEnd = Literal['sentence', 'paragraph']
"""Where a segment of free text ends."""

UNITS: dict[str, tuple[float, float]] = {
    '': (1, 1),
    'm': (1, 1),
    'cm': (1, 100),
    'mm': (1, 1000),
    'rad': (1, 1),
    'deg': (math.pi, 180),
    's': (1, 1),
    'ms': (1, 1000),
    'min': (60, 1),
    'm/s': (1, 1),
    'cm/s': (1, 100),
    'rad/s': (1, 1),
    'deg/s': (math.pi, 180),
    'kg': (1, 1),
    'g': (1, 1000),
    'N': (1, 1),
    'percent': (1, 100),
}
"""Language unit -> (multiplier, divisor) to SI; a division keeps 29 cm exactly 0.29 m."""


_DEFAULT_LIMITS = PlanLimits()


@pickled_as_call
@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """One argument of a skill.

    Attributes:
        name: What messages and duration models call it.
        kind: What it is in plan text.
        unit: Unit of the number in plan text, a key of ``UNITS``; empty for other kinds.
        minimum: Least number, in ``unit``.
        maximum: Greatest number, in ``unit``.
        choices: The words of a ``choice``.
        max_length: Characters that a ``string`` may have.
        object_kinds: Kinds that an ``object`` may have; empty for any.
    """

    name: str
    kind: ArgumentKind
    unit: str = ''
    minimum: float = 0.0
    maximum: float = 0.0
    choices: tuple[str, ...] = ()
    max_length: int = 0
    object_kinds: tuple[str, ...] = ()

    def si(self, number: float) -> float:
        """Convert a number of plan text to SI; a number without unit stays as it is."""
        if not self.unit:
            return number
        multiplier, divisor = UNITS[self.unit]
        return number * multiplier / divisor


@pickled_as_call
@dataclass(frozen=True, slots=True)
class Skill:
    """One action of a robot.

    Attributes:
        name: What plans call it.
        description: A few words for the model's prompt.
        arguments: In the order of plan text.
        duration: How long it takes.
        blocking: Whether the plan reads its value, so that a generation waits for it.
        returns: What that value is; ``none`` exactly where it does not block.
        motion: Where it takes the robot; None where the file does not say. The fingerprint leaves
            it out: only an executor with an envelope asks for it.
        risk: What may come of it; the fingerprint leaves it out: only a planner asks for it.
    """

    name: str
    description: str
    arguments: tuple[ArgumentSpec, ...]
    duration: DurationModel
    blocking: bool = False
    returns: ReturnKind = 'none'
    motion: Motion | None = None
    risk: Risk = 'low'


@dataclass(frozen=True, slots=True)
class FreeText:
    """Says that the model writes plain text in place of a plan.

    Attributes:
        skill: The skill that gets each piece of it: its only argument is a string, and it does
            not block.
        segments: Where segments end.
    """

    skill: str
    segments: SegmentEnd


@dataclass(frozen=True, slots=True)
class PlanExample:
    """A task with its right plan, to show a model what is asked of it.

    Attributes:
        instruction: What the user says.
        scene: What is there.
        plan: The plan's text, with observations where values are awaited; the answer where the
            skill set takes free text.
    """

    instruction: str
    scene: Scene
    plan: str


@pickled_as_call
@dataclass(frozen=True, slots=True)
class SkillSet:
    """Everything that robots of one kind can do.

    Skill sets are YAML files: ``find_skill_set('tello')`` returns one that ships, and
    ``load_skill_set('rover.yaml')`` reads one of your own.

    Attributes:
        name: What tasks call it.
        description: A few words.
        skills: By name, in the order of the prompt.
        safe_action: Skill without arguments that makes the robot safe at any time.
        max_repeat: Greatest count of a repeat.
        free_text: What becomes of plain text; None where the model writes plans.
        limits: How much a plan may ask for.
        examples: Tasks with their plans for the prompts of general models; they change nothing of
            what the robots can do, so the fingerprint leaves them out.
        fallback: Plans for when no engine answers, by kind of task, ``any`` for all others; the
            fingerprint leaves them out: only a planner asks for them.
    """

    name: str
    description: str
    skills: Mapping[str, Skill] = field(hash=False)
    safe_action: str
    max_repeat: int = 10
    free_text: FreeText | None = None
    limits: PlanLimits = _DEFAULT_LIMITS
    examples: tuple[PlanExample, ...] = ()
    fallback: Mapping[str, str] = field(default_factory=dict, hash=False)

    def fingerprint(self) -> str:
        """Return a short hash of the content; equal content has an equal one on every machine."""
        content = json.dumps(
            [
                type(skill.duration).__name__ + json.dumps(_told(skill), sort_keys=True)
                for skill in self.skills.values()
            ]
            + [self.name, self.description, self.safe_action, str(self.max_repeat)]
            + [asdict(self.limits)]
            + ([*asdict(self.free_text).values()] if self.free_text is not None else [])
        )
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def _told(skill: Skill) -> dict[str, Any]:
    content = asdict(skill)
    del content['motion'], content['risk']
    return content
