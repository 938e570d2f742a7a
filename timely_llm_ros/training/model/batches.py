"""Draws batches for training from a seed: scenes of one size with many instructions each."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from timely_llm_ros.sample_tasks import KINDS, ask, is_held_out, sample_scene
from timely_llm_ros.skills import build_prompt, fixed_part
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.training.model.auxiliary_targets import NOTHING, Hinter
from timely_llm_ros.training.model.network import PackedBatch
from timely_llm_ros.training.model.tokenizer import EOS_ID, PAD_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from timely_llm_ros.sample_tasks import TaskSample

KIND_WEIGHTS = {1: 1.0, 2: 1.3, 3: 4.0, 4: 4.0, 5: 0.8, 6: 0.9, 7: 1.0, 8: 0.9,
                9: 1.0, 10: 2.4, 11: 2.4}  # fmt: skip
"""How often each kind is drawn among those of its robot; the hard ones more often."""

STAGES = ((0.05, 1, 3), (0.35, 3, 8), (1.0, 4, 20))
"""Curriculum: up to that share of the steps, scenes of that many objects, log-uniform."""

LONG_FROM, LONG_EACH, LONG = 0.6, 7, (20, 200)
"""After that share of the steps, one step in so many has scenes of that many objects instead."""

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
    early: list[tuple[int, int]] = field(default_factory=list)

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
        self.targets += [NOTHING] * room
        self.hints += [NOTHING] * room


@dataclass(slots=True)
class _Drawn:
    """A scene and the rows behind it."""

    ids: list[int]
    rows: list[_Row]


class BatchSource:
    """Draws one packed batch after another; the same seed gives the same batches.

    A batch has about ``tokens`` tokens of scenes and blocks.
    """

    def __init__(self, tokenizer: Tokenizer, *, seed: int, tokens: int = 1400) -> None:
        self._tokenizer, self._tokens = tokenizer, tokens
        self._rng = random.Random(seed)
        self._skill_sets = {name: find_skill_set(name) for name in ('tello', 'arm')}
        self._hinter = Hinter(tokenizer)
        self._fixed = {
            name: torch.tensor(tokenizer.encode(fixed_part(skill_set)).ids)
            for name, skill_set in self._skill_sets.items()
        }

    def draw(self, skill_set: str, step: int, steps: int) -> PackedBatch:
        """Return a batch for the skill set at that step of so many."""
        progress = step / steps
        low, high = next((low, high) for end, low, high in STAGES if progress <= end)
        if progress > LONG_FROM and step % LONG_EACH == 0:
            low, high = LONG
        if skill_set == 'arm':
            low, high = max(low, 2), max(high, 4)
        n_objects = round(math.exp(self._rng.uniform(math.log(low), math.log(high))))
        size = 0 if n_objects <= 10 else 1 if n_objects <= 40 else 2
        n_rows = ROWS[size]
        n_scenes = max(1, round(self._tokens / (12 * n_objects + n_rows * ROW_TOKENS)))
        # Scenes of as many objects differ in length; a batch has those of one length.
        by_length: dict[int, list[_Drawn]] = {}
        drawn: list[_Drawn] = []
        while len(drawn) < n_scenes:
            one = self._scene(skill_set, n_objects, n_rows)
            if one is not None:
                drawn = by_length.setdefault(len(one.ids), [])
                drawn.append(one)
        fixed = self._fixed[skill_set]
        n_scene = len(drawn[0].ids)
        early = []
        for index, one in enumerate(drawn):
            start = fixed.numel() + n_scenes * n_scene + index * n_rows * ROW_TOKENS
            for number, row in enumerate(one.rows):
                early += [(start + number * ROW_TOKENS + place, hint) for place, hint in row.early]
        blocks, block_index, offset, targets, hints = (
            torch.tensor([[getattr(row, part) for row in one.rows] for one in drawn])
            for part in ('ids', 'index', 'offset', 'targets', 'hints')
        )
        return PackedBatch(
            fixed,
            torch.tensor([one.ids for one in drawn]),
            blocks,
            block_index,
            offset,
            targets,
            hints,
            torch.tensor(early, dtype=torch.long).view(-1, 2),
        )

    def _scene(self, skill_set: str, n_objects: int, n_rows: int) -> _Drawn | None:
        """Return a scene and its rows of blocks, or None where it cannot be used."""
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
        rows = [_Row() for _ in range(n_rows)]
        ids: list[int] = []
        misses = 0
        while misses < _PATIENCE:
            task = ask(rng, scene, rng.choices(kinds, weights)[0])
            if task is None:
                misses += 1
                continue
            ids, prompt, plan = self._encode(task)
            row = next((row for row in rows if row.room >= len(prompt) + len(plan) - 1), None)
            if row is None:
                misses += 1
                continue
            start = len(row.ids)
            silent = [NOTHING] * (len(prompt) - 1)
            row.add(
                [*prompt, *plan[:-1]],
                silent + self._targets(plan),
                silent + self._hinter.late(task, plan),
            )
            early = self._hinter.instruction(task, prompt)
            early += [(len(prompt) + place, hint) for place, hint in self._hinter.plan(task, plan)]
            row.early += [(start + place, hint) for place, hint in early]
        if not ids:
            return None
        for row in rows:
            row.pad()
        return _Drawn(ids, rows)

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
        """Return the plan with nothing to predict where the runtime writes observations."""
        observations = {
            self._tokenizer.token_to_id('#trueĠ'),
            self._tokenizer.token_to_id('#falseĠ'),
        }
        return [NOTHING if token in observations else token for token in plan]
