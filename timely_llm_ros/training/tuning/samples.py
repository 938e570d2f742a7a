"""What a model is tuned on: tasks with right plans, drawn from a seed or read from a file."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.sample_tasks import KINDS, sample_task
from timely_llm_ros.skills import Scene, SceneObject, SkillSet, read_statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from timely_llm_ros.engines.texts import TokenCodec
    from timely_llm_ros.prompts import Prompts

IGNORED = -100
"""Label of a token that is not to be learned, as torch's cross entropy takes it."""

_OBSERVATION = re.compile(r'(#[^ ]+ )')
_FEWEST, _MOST = 3, 10


@dataclass(frozen=True, slots=True)
class PlanSample:
    """A task and its right plan, with observations where values are awaited."""

    skill_set: SkillSet
    scene: Scene
    instruction: str
    plan: str

    def row(self, prompts: Prompts, texts: TokenCodec, end: int) -> dict[str, list[int]]:
        """Return the tokens as an engine has them, and which of them are the model's to write."""
        prompt = prompts.build(self.skill_set, self.scene, self.instruction)
        ids = texts.fixed_ids(prompt)
        ids += texts.body_ids(prompt, beginning=not ids)
        labels = [IGNORED] * len(ids)
        for part in _OBSERVATION.split(self.plan):
            more = texts.encode(part) if part else []
            ids += more
            labels += [IGNORED] * len(more) if part.startswith('#') else more
        return {'input_ids': [*ids, end], 'labels': [*labels, end]}


def drawn_samples(skill_sets: Sequence[SkillSet], count: int, seed: int) -> list[PlanSample]:
    """Return tasks of every kind that shipped skill sets have; none of them is held out.

    Raises:
        ConfigurationError: There are no kinds of task for a skill set.
    """
    by_name = {skill_set.name: skill_set for skill_set in skill_sets}
    kinds = [number for number, kind in KINDS.items() if kind.skill_set in by_name]
    for name in by_name:
        if not any(KINDS[number].skill_set == name for number in kinds):
            raise ConfigurationError(
                f'skill set {name!r}: expected "tello" or "arm", or a file of samples'
            )
    rng = random.Random(f'{seed} {" ".join(by_name)}')
    samples = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        objects = max(KINDS[kind].min_objects, rng.randint(_FEWEST, _MOST))
        task = sample_task(rng, kind, objects, wordings='trained', scenes='trained')
        samples.append(PlanSample(by_name[task.skill_set], task.scene, task.instruction, task.plan))
    rng.shuffle(samples)
    return samples


def read_samples(lines: Iterable[str], name: str, skill_set: SkillSet) -> list[PlanSample]:
    """Read samples, a JSON object per line: ``instruction``, ``plan`` and perhaps ``objects``.

    Errors call the file ``name``.

    Raises:
        ConfigurationError: A line is no sample, or its plan is not valid in its scene.
    """
    samples = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            samples.append(_sample(json.loads(line), skill_set))
        except (ValueError, TypeError, KeyError, TimelyError) as err:
            problem = f'no {err}' if isinstance(err, KeyError) else str(err)
            raise ConfigurationError(
                f'{name}, line {number}: {problem}: expected a JSON object with instruction, plan '
                'and perhaps objects'
            ) from err
    if len(samples) < 2:
        raise ConfigurationError(f'{name}: {len(samples)} samples: expected at least 2')
    return samples


def _sample(value: Any, skill_set: SkillSet) -> PlanSample:
    if not isinstance(value, dict):
        raise TypeError(f'{value!r}')
    scene = Scene(tuple(SceneObject(**item) for item in value.get('objects', ())))
    plan = str(value['plan'])
    if not read_statements(plan, skill_set, scene):
        raise ValueError(f'plan {plan!r} is empty')
    return PlanSample(skill_set, scene, str(value['instruction']), plan)
