"""Batches for training: scenes of one size with many instructions each, from a seed."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from timely_llm_ros.model.data import KINDS, ask, sample_scene
from timely_llm_ros.model.data_scenes import is_held_out
from timely_llm_ros.model.network import PackedBatch
from timely_llm_ros.model.tokenizer import EOS_ID, PAD_ID
from timely_llm_ros.skills.prompt import build_prompt, fixed_part
from timely_llm_ros.skills.skillset import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from timely_llm_ros.model.data import TaskSample

KIND_WEIGHTS = {1: 1.0, 2: 1.3, 3: 1.2, 4: 1.2, 5: 1.0, 6: 1.8, 7: 1.8, 8: 1.8,
                9: 1.0, 10: 1.4, 11: 1.4}  # fmt: skip
"""How often each kind is drawn among those of its robot; the hard ones more often."""

STAGES = ((0.08, 1, 3), (0.4, 3, 8), (0.7, 4, 20), (1.0, 5, 200))
"""Curriculum: up to that share of the steps, scenes of that many objects, log-uniform."""

ROW_TOKENS = 112
"""Tokens of one row of blocks; the longest block of the training data fits."""

ROWS = (2, 3, 6)
"""Rows per scene: for scenes up to 10, up to 40 and more objects."""

_PATIENCE = 5


@dataclass(slots=True)
class _Row:
    """Blocks behind one another."""

    ids: list[int] = field(default_factory=list)
    index: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    hints: list[int] = field(default_factory=list)

    @property
    def room(self) -> int:
        return ROW_TOKENS - len(self.ids)

    def add(self, ids: list[int], targets: list[int], hints: list[int]) -> None:
        number = self.index[-1] + 1 if self.index else 0
        self.ids += ids
        self.index += [number] * len(ids)
        self.offset += range(len(ids))
        self.targets += targets
        self.hints += hints

    def pad(self) -> None:
        room = self.room
        self.ids += [PAD_ID] * room
        self.index += [-1] * room
        self.offset += [0] * room
        self.targets += [-100] * room
        self.hints += [-100] * room


class BatchSource:
    """Draws one packed batch after another; the same seed gives the same batches.

    Args:
        tokenizer: The planner's tokenizer.
        seed: Seed of everything drawn.
        tokens: About how many tokens of scenes and blocks a batch has.
    """

    def __init__(self, tokenizer: Tokenizer, *, seed: int, tokens: int = 1400) -> None:
        self._tokenizer, self._tokens = tokenizer, tokens
        self._rng = random.Random(seed)
        self._skill_sets = {name: find_skill_set(name) for name in ('tello', 'arm')}
        vocabulary = tokenizer.get_vocab()
        self._numbers = {i for token, i in vocabulary.items() if re.fullmatch(r'_\d+', token)}
        self._moves = {vocabulary[f'move_{to}'] for to in ('left', 'right', 'forward', 'backward')}
        self._fixed = {
            name: torch.tensor(tokenizer.encode(fixed_part(skill_set)).ids)
            for name, skill_set in self._skill_sets.items()
        }

    def draw(self, skill_set: str, progress: float) -> PackedBatch:
        """Return a batch for the skill set at that share (0..1) of the training."""
        low, high = next((low, high) for end, low, high in STAGES if progress <= end)
        if skill_set == 'arm':
            low, high = max(low, 2), max(high, 4)
        n_objects = round(math.exp(self._rng.uniform(math.log(low), math.log(high))))
        size = 0 if n_objects <= 10 else 1 if n_objects <= 40 else 2
        n_rows = ROWS[size]
        n_scenes = max(1, round(self._tokens / (12 * n_objects + n_rows * ROW_TOKENS)))
        scenes: list[list[int]] = []
        packed: list[tuple[list[list[int]], ...]] = []
        while len(scenes) < n_scenes:
            drawn = self._scene(skill_set, n_objects, n_rows)
            if drawn is not None:
                scenes.append(drawn[0])
                packed.append(drawn[1])
        parts = (torch.tensor(part) for part in zip(*packed, strict=True))
        return PackedBatch(self._fixed[skill_set], torch.tensor(scenes), *parts)

    def _scene(
        self, skill_set: str, n_objects: int, n_rows: int
    ) -> tuple[list[int], tuple[list[list[int]], ...]] | None:
        """Return a scene's ids and its rows of blocks, or None where it cannot be used."""
        rng = self._rng
        possible = [
            number
            for number, kind in KINDS.items()
            if kind.skill_set == skill_set and n_objects >= kind.min_objects
        ]
        kinds = self._choose(possible, n_objects)
        scene = sample_scene(rng, kinds, n_objects)
        if is_held_out(scene):
            return None
        weights = [KIND_WEIGHTS[kind] for kind in kinds]
        rows: list[_Row] = [_Row() for _ in range(n_rows)]
        scene_ids: list[int] = []
        misses = 0
        while misses < _PATIENCE:
            task = ask(rng, scene, rng.choices(kinds, weights)[0])
            if task is None:
                misses += 1
                continue
            scene_ids, prompt, plan = self._encode(task)
            row = next((row for row in rows if row.room >= len(prompt) + len(plan) - 1), None)
            if row is None:
                misses += 1
                continue
            silent = [-100] * (len(prompt) - 1)
            targets, hints = self._targets(plan), self._hints(task, plan)
            row.add([*prompt, *plan[:-1]], silent + targets, silent + hints)
        if not scene_ids:
            return None
        for row in rows:
            row.pad()
        return scene_ids, (
            [row.ids for row in rows],
            [row.index for row in rows],
            [row.offset for row in rows],
            [row.targets for row in rows],
            [row.hints for row in rows],
        )

    def _choose(self, kinds: Sequence[int], n_objects: int) -> list[int]:
        """Return a few of the kinds: more for larger scenes."""
        most = min(len(kinds), 1 if n_objects < 4 else 2 if n_objects < 8 else 3)
        count = self._rng.randint(1, most)
        chosen: list[int] = []
        while len(chosen) < count:
            kind = self._rng.choices(kinds, [KIND_WEIGHTS[kind] for kind in kinds])[0]
            if kind not in chosen:
                chosen.append(kind)
        return chosen

    def _encode(self, task: TaskSample) -> tuple[list[int], list[int], list[int]]:
        """Return the ids of the scene, of the instruction and of the plan with its end."""
        skill_set = self._skill_sets[task.skill_set]
        body = build_prompt(skill_set, task.scene, task.instruction).body
        cut = body.rindex('task: ')
        encode = self._tokenizer.encode
        plan = [*encode(task.plan).ids, EOS_ID]
        return encode(body[:cut]).ids, encode(body[cut:]).ids, plan

    def _targets(self, plan: Sequence[int]) -> list[int]:
        """Return what to predict: the plan without what the runtime writes into it."""
        observations = {
            self._tokenizer.token_to_id('#trueĠ'),
            self._tokenizer.token_to_id('#falseĠ'),
        }
        return [-100 if token in observations else token for token in plan]

    def _hints(self, task: TaskSample, plan: Sequence[int]) -> list[int]:
        """Return, where a name or a move away from danger is due, the number of that object."""
        danger = self._tokenizer.encode(task.danger).ids[-1:]
        hints = []
        for token, following in zip(plan, [*plan[1:], EOS_ID], strict=True):
            if danger and token in self._moves:
                hints.append(danger[0])
            elif following in self._numbers:
                hints.append(following)
            else:
                hints.append(-100)
        return hints
