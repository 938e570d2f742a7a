"""Whether an adapter's weights fit its base model one to one, from the files of both.

vLLM says nothing of this: it leaves out weights without a place in the base model, takes zeros for
missing ones, and smaller matrices for parts of larger ones. This module imports no vLLM.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.tokens import ADAPTER_WEIGHTS
from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from timely_llm_ros.engines.tokens import Adapter

    Shapes = Mapping[str, tuple[int, ...]]

_PART = re.compile(r'base_model\.model\.(.+)\.lora_([AB])\.weight')

_WHOLE = ('F64', 'F32', 'F16', 'BF16')
"""Number formats whose matrices have in a file the shape that they have in the model."""


def check_weights(adapter: Adapter, most: int) -> None:
    """Check an adapter's files.

    Args:
        adapter: The adapter.
        most: The highest rank that can be served.

    Raises:
        ModelLoadError: The rank is higher, or the weights are not those of its base model's layers.
    """
    try:
        _check(adapter, most)
    except Exception as err:
        # What others wrote may be wrong in any way.
        raise ModelLoadError(
            f'adapter {adapter.path!r}: {err}; expected one of {adapter.base!r}'
        ) from err


def _check(adapter: Adapter, most: int) -> None:
    config, rank = _config(adapter), highest_rank(adapter)
    if not 1 <= rank <= most:
        raise ValueError(f'rank {rank!r}: expected 1 to {most}, the ranks of vLLM')
    parts = _shapes([Path(adapter.path) / ADAPTER_WEIGHTS])
    layers = _layers(adapter.base)
    for name in parts:
        _check_part(name, parts, layers, config)
    for layer in layers:
        if _is_meant(layer, config) and _name(layer, 'A') not in parts:
            raise ValueError(f'weights {_name(layer, "A")!r}: it is missing')


def highest_rank(adapter: Adapter) -> int:
    """Return the highest rank of an adapter's matrices."""
    config = _config(adapter)
    return int(max(config['r'], *(config.get('rank_pattern') or {'': 0}).values()))


def _config(adapter: Adapter) -> dict[str, Any]:
    text = (Path(adapter.path) / 'adapter_config.json').read_text('utf-8')
    config: dict[str, Any] = json.loads(text)
    return config


def _name(layer: str, part: str) -> str:
    return f'base_model.model.{layer}.lora_{part}.weight'


def _check_part(name: str, parts: Shapes, layers: Shapes, config: Mapping[str, Any]) -> None:
    """Check one of the two matrices of a layer: (rank, inputs) or (outputs, rank)."""
    found = _PART.fullmatch(name)
    if found is None:
        raise ValueError(f'weights {name!r}: expected lora_A and lora_B of linear layers alone')
    layer, part = found.groups()
    if layer not in layers:
        raise ValueError(f'weights {name!r}: the base model has no such layer')
    other = _name(layer, 'B' if part == 'A' else 'A')
    if other not in parts:
        raise ValueError(f'weights {other!r}: it is missing')
    if layers[layer]:
        rank = config['r']
        for pattern, value in reversed((config.get('rank_pattern') or {}).items()):
            rank = value if re.fullmatch(rf'(.*\.)?({pattern})', layer) else rank
        outputs, inputs = layers[layer]
        expected = (rank, inputs) if part == 'A' else (outputs, rank)
        if parts[name] != expected:
            raise ValueError(f'weights {name!r}: size mismatch: {parts[name]} is not {expected}')


def _is_meant(layer: str, config: Mapping[str, Any]) -> bool:
    """Whether an adapter's configuration says that it has weights for a layer, as peft reads it."""
    numbers, number = config.get('layers_to_transform'), re.search(r'\.(\d+)\.', layer)
    if numbers is not None and number is not None:
        wanted = [numbers] if isinstance(numbers, int) else numbers
        if int(number[1]) not in wanted:
            return False
    excluded = config.get('exclude_modules') or ()
    return _is_named(layer, config['target_modules']) and not _is_named(layer, excluded)


def _is_named(layer: str, modules: str | Iterable[str]) -> bool:
    if isinstance(modules, str):
        return re.fullmatch(modules, layer) is not None
    return any(f'.{layer}'.endswith(f'.{name}') for name in modules)


def _layers(base: str) -> Shapes:
    """Return a model's layers: the shapes of their matrices, () for what is stored otherwise."""
    layers: dict[str, tuple[int, ...]] = {}
    for name, shape in _shapes(sorted(Path(base).glob('*.safetensors'))).items():
        layer, _, kind = name.rpartition('.')
        if kind == 'weight':
            layers[layer] = shape
        else:
            layers.setdefault(layer, ())
    return layers


def _shapes(files: Iterable[Path]) -> Shapes:
    from safetensors import safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for path in files:
        with safe_open(path, framework='numpy') as file:
            for name in file.keys():  # noqa: SIM118  It is no mapping.
                tensor = file.get_slice(name)
                whole = tensor.get_dtype() in _WHOLE
                shapes[name] = tuple(tensor.get_shape()) if whole else ()
    return shapes
