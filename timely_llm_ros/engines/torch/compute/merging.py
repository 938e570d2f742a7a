"""Adds an adapter's weights to those of its base model, as the model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import safe_open

from timely_llm_ros.engines.tokens import ADAPTER_WEIGHTS
from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    from timely_llm_ros.engines.tokens import Adapter


def merge(adapter: Adapter, model: Any) -> Any:
    """Return an adapter's base model with the adapter's weights added.

    Raises:
        ModelLoadError: They cannot be added; names the folder and the reason.
    """
    try:
        import peft
    except ImportError as err:
        raise ModelLoadError(
            f'adapter {adapter.path!r}: it needs the package {err.name}: expected it to be '
            'installed, pip install "timely_llm_ros[tune]"'
        ) from err
    try:
        adapted: Any = peft.PeftModel.from_pretrained(model, adapter.path)
        _require_all(adapter, set(peft.get_peft_model_state_dict(adapted)))
        return adapted.merge_and_unload()
    except Exception as err:
        # It names every matrix; the first says enough.
        reason = ' '.join(' '.join(str(err).splitlines()[:2]).split())
        raise ModelLoadError(
            f'adapter {adapter.path!r}: {reason[:300]}; expected one of {adapter.base!r}'
        ) from err


def _require_all(adapter: Adapter, taken: set[str]) -> None:
    # peft leaves out what has no place in the base model, and what is not there stays zero.
    with safe_open(Path(adapter.path) / ADAPTER_WEIGHTS, framework='pt') as file:
        given = set(file.keys())
    for name in sorted(given ^ taken):
        where = 'the base model has no such layer' if name in given else 'it is missing'
        raise ValueError(f'weights {name!r}: {where}')
