"""Draws tasks that leave open what is to be done, as people say them: "tidy up".

The planner decides what the arm picks up, where it puts things and when it is done. A predictor
that reads only the prompt can tell little of that, as with questions to a chat; one that watches
the planner has something to see.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from timely_llm_ros.engines.tokens import Sampling
from timely_llm_ros.sample_tasks import is_held_out, sample_scene
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.training.length_samples import draw_size, request_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from timely_llm_ros.engines import GenerationRequest
    from timely_llm_ros.prompts import Prompts
    from timely_llm_ros.sample_tasks import Wordings

WORDINGS: Mapping[Wordings, Sequence[str]] = {
    'trained': (
        'clean up', 'tidy up', 'clean up now', 'clean it', 'please clean up for me',
        'get everything clean', 'clear everything', 'throw away everything',
        'tidy up, use the box', 'sort the food', 'sort everything',
        'separate fruit and vegetables',
    ),
    'held_out': (
        'tidy up now', 'take everything off', 'please clean everything',
        'sort the fruit and the vegetables',
    ),
}  # fmt: skip
"""Instructions in words that the embedded planner knows, none of which it was trained on."""

KINDS = (10, 11)
"""Scenes are those of tidying and of sorting."""

SIZES = (16, 48)
"""Objects in the smallest and in the largest scene, drawn evenly on a logarithmic scale."""

DRAWN = Sampling(temperature=1.0)
"""Plans are drawn by the planner's own probabilities."""


def draw_open_requests(
    number: int,
    seed: int,
    part: Wordings,
    *,
    sizes: tuple[int, int] = SIZES,
    prompts: Prompts | None = None,
) -> Iterator[GenerationRequest]:
    """Return that many such tasks; ids are ``<part> <seed> <place>:<kind>``.

    ``prompts`` makes the model's prompts; None for those of the embedded planner.
    """
    rng = random.Random(f'open {seed} {part}')
    skill_set = find_skill_set('arm')
    for place in range(number):
        kind = rng.choice(KINDS)
        objects = draw_size(rng, sizes)
        while True:
            scene = sample_scene(rng, (kind,), objects)
            if is_held_out(scene) == (part == 'held_out'):
                break
        instruction = rng.choice(WORDINGS[part])
        name = f'{part} {seed} {place}:{kind}'
        yield request_for(name, skill_set, scene, instruction, prompts)
