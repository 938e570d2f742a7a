"""What a robot knows of its room after its camera has been around: no plan knows the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.sample_tasks import DRONE_KINDS
from timely_llm_ros.skills import Scene

if TYPE_CHECKING:
    from timely_llm_ros.world.options import WorldOptions

FIRST_NUMBER = 100
"""What is taken for another kind has a name with this number or a higher one."""


def survey(scene: Scene, options: WorldOptions, number: int = 0) -> Scene:
    """Return a scene as a camera with the noise of the options tells it.

    Things are missed, taken for another kind, and told a little beside where they are, as by
    :meth:`Camera.look` when each is in view.

    Args:
        scene: The truth.
        options: Seed and noise.
        number: Of the survey: equal numbers of one seed see the same.
    """
    rng = np.random.default_rng([options.seed, 3, number])
    found = []
    for place, item in enumerate(scene.objects):
        missed, mistaken = rng.random(2) < options.noise
        ahead_m, aside_m = rng.normal(0.0, options.position_noise_m, 2).tolist()
        other = DRONE_KINDS[int(rng.integers(len(DRONE_KINDS)))]
        if missed:
            continue
        seen = replace(item, x_m=item.x_m + ahead_m, y_m=item.y_m + aside_m)
        if mistaken:
            seen = replace(seen, name=f'{other}_{FIRST_NUMBER + place}', kind=other)
        found.append(seen)
    return Scene(tuple(found))
