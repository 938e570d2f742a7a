"""Count how long the right plans of the shipped model's tasks are; write the table of them.

.venv/bin/python tools/empirical_table.py
.venv/bin/python -m ruff format timely_llm_ros/prediction/lengths/empirical_table.py
"""

from __future__ import annotations

import itertools
import math
import random
import textwrap
from pathlib import Path

from tokenizers import Tokenizer

from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model
from timely_llm_ros.sample_tasks import KINDS, sample_task

SIZES = (10, 40, 100)
LARGEST = 200
PLANS = 1500
QUANTILES = 99
TARGET = (
    Path(__file__).resolve().parents[1] / 'timely_llm_ros/prediction/lengths/empirical_table.py'
)

HEAD = f'''"""Lengths of right plans for the shipped model; written by tools/empirical_table.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SCENE_SIZES = {SIZES}
"""Objects up to which a scene is of class 0, 1, ..."""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


PLAN_LENGTHS: Mapping[tuple[str, int], tuple[int, ...]] = {{
'''
TAIL = f'''
}}
"""Their {QUANTILES} inner percentiles (tokens, the end included) by skill set and size class."""
'''


def main() -> None:
    """Write the table."""
    tokenizer = Tokenizer.from_file(str(Path(find_model(SHIPPED_MODEL)) / 'tokenizer.json'))
    rng = random.Random(0)
    bounds = [3, *SIZES, LARGEST]
    lines = []
    for skill_set in sorted({kind.skill_set for kind in KINDS.values()}):
        kinds = [kind for kind in KINDS.values() if kind.skill_set == skill_set]
        for place, (low, high) in enumerate(itertools.pairwise(bounds)):
            lengths = []
            for _ in range(PLANS):
                kind = rng.choice(kinds)
                size = round(math.exp(rng.uniform(math.log(low + (place > 0)), math.log(high))))
                sample = sample_task(rng, kind.number, max(size, kind.min_objects))
                ids = tokenizer.encode(sample.plan, add_special_tokens=False).ids
                lengths.append(len(ids) + 1)
            lengths.sort()
            chosen = [
                lengths[math.ceil(len(lengths) * (number + 1) / (QUANTILES + 1)) - 1]
                for number in range(QUANTILES)
            ]
            lines.append(f'    ({skill_set!r}, {place}): _numbers(')
            text = textwrap.wrap(' '.join(map(str, chosen)), 85)
            lines += [f'        {(row + " ")!r}' for row in text]
            lines.append('    ),')
    TARGET.write_text(HEAD + '\n'.join(lines) + TAIL, encoding='utf-8')


if __name__ == '__main__':
    main()
