"""How an engine chooses tokens: always the likeliest, or drawn by seeded chance.

A draw depends only on the seed, on the generation's id and on how many tokens it has. So a plan
stays the same whatever runs beside it and however often it is suspended. Greedy decoding is the
default, because a robot's plan should not depend on luck.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.options import check_options, option

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest

MAX_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. Above temperature 0, probabilities are raised to its inverse.

    Raises:
        ConfigurationError: A value is out of range.
    """

    temperature: float = option(
        0.0,
        'How tokens are chosen: 0 for the likeliest always, above to draw them, with 1 by the '
        "model's own probabilities.",
        minimum=0.0,
        maximum=10.0,
    )
    top_p: float = option(
        1.0,
        'Tokens are drawn from the likeliest ones that together have this probability.',
        minimum=0.001,
        maximum=1.0,
    )
    seed: int = option(
        0,
        "Of drawn tokens. Engine torch draws by seed, task id and a token's number alone, so "
        'suspension changes nothing.',
        minimum=0,
        maximum=MAX_SEED,
    )

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def greedy(self) -> bool:
        """Whether no chance is involved."""
        return self.temperature == 0.0

    def chance(self, generation_id: str, token: int) -> float:
        """Return a number from 0 up to 1 for the draw behind a generation's first ``token``."""
        text = f'{self.seed} {token} {generation_id}'.encode()
        digest = hashlib.blake2b(text, digest_size=6).digest()
        return int.from_bytes(digest, 'little') / 2**48

    def __call__(self, request: GenerationRequest) -> dict[str, Any]:
        """Return a request's parameters in the names of vLLM's API; its seed is its own."""
        if self.greedy:
            return {'temperature': 0.0}
        return {
            'temperature': self.temperature,
            'top_p': self.top_p,
            'seed': int(MAX_SEED * self.chance(request.generation_id, 0)),
        }
