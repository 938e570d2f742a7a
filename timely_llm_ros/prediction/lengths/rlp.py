"""TimeBill's response-length predictor: it reads a prompt and gives every bucket a probability.

``timely-llm train-rlp`` writes two files into the folder ``predictors`` of the model whose lengths
it predicts: ``rlp.json`` says what it is and how it was trained, ``rlp.safetensors`` has its
weights.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.prediction.lengths.response_length import LengthDistribution, bucket_count
from timely_llm_ros.prediction.lengths.rlp_calibration import Calibration, probabilities
from timely_llm_ros.prediction.lengths.rlp_network import BodyShape, SmallBody
from timely_llm_ros.prediction.lengths.rlp_prompt import compress_prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

FORMAT = 2
"""Version of the files. Version 1 had other prompts and no calibration, and is refused."""

RLP_NAME = 'rlp'


@dataclass(frozen=True, slots=True)
class RlpSettings:
    """What a predictor was made for.

    Attributes:
        size: Lengths per bucket.
        longest: The longest response that it knows (tokens).
        prompt_tokens: What prompts are shortened to.
        shape: Its network's sizes.
        calibration: What makes its probabilities hold.
        scene: Whether it reads lines of the scene.
    """

    size: int
    longest: int
    prompt_tokens: int
    shape: BodyShape
    calibration: Calibration
    scene: bool = False

    @property
    def buckets(self) -> int:
        """How many there are."""
        return bucket_count(self.longest, self.size)


class ResponseLengthModel:
    """A trained predictor; on any thread.

    Args:
        settings: What it was made for.
        weights: Of its network.
        encode: The tokenizer of the model whose lengths it predicts.
        about: How it was trained.
    """

    def __init__(
        self,
        settings: RlpSettings,
        weights: Mapping[str, NDArray[np.float32]],
        encode: Callable[[str], Sequence[int]],
        about: Mapping[str, Any],
    ) -> None:
        self.settings = settings
        self.about = dict(about)
        self._body = SmallBody(settings.shape, weights)
        self._encode = encode
        self._prior = np.array(settings.calibration.prior)

    def predict(self, fixed: str, body: str) -> LengthDistribution:
        """Return what it expects of the prompt ``fixed + body``."""
        most, scene = self.settings.prompt_tokens, self.settings.scene
        return self.distribution(compress_prompt(fixed, body, self._encode, most, scene=scene))

    def distribution(self, ids: Sequence[int]) -> LengthDistribution:
        """Return the same of a prompt that is shortened already."""
        known = self.settings.calibration
        shares = probabilities(self._body.scores(ids), known.temperature)
        shares = (1 - known.prior_share) * shares + known.prior_share * self._prior
        return LengthDistribution(tuple(shares.tolist()), self.settings.size)


def write_rlp(
    folder: Path,
    settings: RlpSettings,
    weights: Mapping[str, NDArray[np.float32]],
    about: Mapping[str, Any],
) -> list[Path]:
    """Write a predictor and return its files; weights in half precision."""
    from safetensors.numpy import save_file

    content = {
        'format': FORMAT,
        'bucket_tokens': settings.size,
        'longest_tokens': settings.longest,
        'prompt_tokens': settings.prompt_tokens,
        'scene': settings.scene,
        'body': settings.shape._asdict(),
        'calibration': asdict(settings.calibration),
        'about': dict(about),
    }
    text, tensors = folder / f'{RLP_NAME}.json', folder / f'{RLP_NAME}.safetensors'
    save_file({name: it.astype(np.float16) for name, it in weights.items()}, tensors)
    text.write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
    return [text, tensors]


def read_rlp(folder: str | Path) -> ResponseLengthModel:
    """Read the predictor in a folder; its tokenizer is there or one folder up.

    Raises:
        ModelLoadError: There is none, or it is not one.
    """
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    place = Path(folder)
    try:
        content = json.loads((place / f'{RLP_NAME}.json').read_text(encoding='utf-8'))
        tensors = load_file(place / f'{RLP_NAME}.safetensors')
        settings = _settings(content, classes=len(tensors['score.weight']))
        own = place / 'tokenizer.json'
        tokenizer = Tokenizer.from_file(str(own if own.is_file() else place.parent / own.name))
    except Exception as err:
        raise ModelLoadError(
            f'length predictor in {str(folder)!r}: {type(err).__name__}: {err}; expected '
            f'{RLP_NAME}.json and {RLP_NAME}.safetensors as "timely-llm train-rlp" writes them, '
            'and tokenizer.json'
        ) from err

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return ResponseLengthModel(settings, tensors, encode, content['about'])


def _settings(content: Mapping[str, Any], *, classes: int) -> RlpSettings:
    """Return the settings that a file holds, which must fit a network of so many classes."""
    if content['format'] != FORMAT:
        raise ValueError(f'format {content["format"]!r}, expected {FORMAT}')
    settings = RlpSettings(
        content['bucket_tokens'],
        content['longest_tokens'],
        content['prompt_tokens'],
        BodyShape(**content['body']),
        Calibration(**content['calibration']),
        bool(content.get('scene', False)),
    )
    if not classes == len(settings.calibration.prior) == settings.buckets:
        raise ValueError(
            f'{classes} classes and {len(settings.calibration.prior)} known shares, expected '
            f'{settings.buckets}'
        )
    return settings
