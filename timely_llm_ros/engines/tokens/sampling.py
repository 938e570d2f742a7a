"""How an engine chooses tokens: always the likeliest, or drawn by seeded chance.

What is drawn depends on the seed, on the generation's id and on how many tokens it has, on nothing
else: a plan comes out the same whatever runs beside it, however often it is suspended, and where
its KV has to be computed again. Greedy decoding is the default, because a robot's plan should not
depend on luck; drawing is for several plans of one task, and for measurements.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import option

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest

MAX_TEMPERATURE = 10.0
MAX_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen.

    Called with a request, it gives the request's parameters in the names of vLLM's API, which is
    what the engines ``vllm`` and ``openai`` take as ``sampling``.

    Attributes:
        temperature: 0 for the likeliest token always; above, probabilities are raised to its
            inverse before a token is drawn.
        top_p: Tokens are drawn from the likeliest ones that together have this probability.
        seed: Of all draws.

    Raises:
        ConfigurationError: A value is out of range.
    """

    temperature: float = option(
        0.0,
        'How tokens are chosen: 0 for the likeliest always, above to draw them, with 1 by the '
        "model's own probabilities.",
        minimum=0.0,
        maximum=MAX_TEMPERATURE,
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
        if not 0.0 <= self.temperature <= MAX_TEMPERATURE:
            raise ConfigurationError(
                f'temperature {self.temperature!r}: expected 0 (greedy) to {MAX_TEMPERATURE:g}'
            )
        if not 0.0 < self.top_p <= 1.0:
            raise ConfigurationError(f'top_p {self.top_p!r}: expected above 0, up to 1')
        if not 0 <= self.seed <= MAX_SEED:
            raise ConfigurationError(f'seed {self.seed!r}: expected 0 to {MAX_SEED}')

    @property
    def greedy(self) -> bool:
        """Whether no chance is involved."""
        return self.temperature == 0.0

    def chance(self, generation_id: str, token: int) -> float:
        """Return a number from 0 up to 1, uniform over generations and their tokens.

        Args:
            generation_id: Whose.
            token: How many tokens it has so far.
        """
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
