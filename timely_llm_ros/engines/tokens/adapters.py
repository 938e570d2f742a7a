"""LoRA adapters on disk: weights that are added to those of a base model (Hu et al., 2021)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from timely_llm_ros.engines.tokens.model_files import find_model
from timely_llm_ros.errors import ModelLoadError

ADAPTERS = 'adapters'
"""Folder in a base model's folder with a folder for each skill set that has an adapter."""

ADAPTER_WEIGHTS = 'adapter_model.safetensors'

_CONFIG = 'adapter_config.json'


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's folder, and that of its base model."""

    path: str
    base: str


def find_adapter(path: str) -> Adapter | None:
    """Return the adapter of a folder; None where it has a whole model.

    Its base model is looked for where it says, beside the folder, and among the shipped models.

    Raises:
        ModelLoadError: There is no base model, or the weights are not in safetensors.
    """
    folder = Path(path)
    if not (folder / _CONFIG).is_file():
        return None
    named = _named_base(folder)
    short = Path(named).name
    for base in (Path(named), folder.parent / short, Path(find_model(short))):
        if (base / 'config.json').is_file() and base.resolve() != folder.resolve():
            return Adapter(path, str(base))
    raise ModelLoadError(
        f'adapter {path!r}: no base model {named!r}: expected its folder there or beside it'
    )


def find_adapters(path: str) -> dict[str, Adapter]:
    """Return the adapters in a base model's folder by the names of their skill sets.

    Raises:
        ModelLoadError: One of them is no adapter, or its weights are not in safetensors.
    """
    found = {}
    for folder in sorted((Path(path) / ADAPTERS).glob('[!.]*/')):
        if not (folder / _CONFIG).is_file():
            raise ModelLoadError(f'adapter {str(folder)!r}: no {_CONFIG} there: expected it')
        _named_base(folder)
        found[folder.name] = Adapter(str(folder), path)
    return found


def _named_base(folder: Path) -> str:
    """Return the name of an adapter's base model, once it is clear that its weights are safe."""
    path = str(folder)
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ModelLoadError(
            f'adapter {path!r}: no {ADAPTER_WEIGHTS} there; expected it, because other formats can '
            'run programs'
        )
    try:
        config = json.loads((folder / _CONFIG).read_text(encoding='utf-8'))
        named = config.get('base_model_name_or_path')
    except (OSError, ValueError, AttributeError) as err:
        raise ModelLoadError(f'adapter {path!r}: {_CONFIG}: {err}') from err
    if not isinstance(named, str) or not named:
        raise ModelLoadError(
            f'adapter {path!r}: base_model_name_or_path {named!r}: expected a name'
        )
    return named
