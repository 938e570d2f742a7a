"""LoRA adapters: weights that are added to those of a base model when it is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open

from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.errors import ModelLoadError

WEIGHTS = 'adapter_model.safetensors'


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's folder, and that of its base model."""

    path: str
    base: str

    def merged_into(self, model: Any) -> Any:
        """Return the base model with the adapter's weights added.

        Raises:
            ModelLoadError: They cannot be added; names the folder and the reason.
        """
        try:
            import peft
        except ImportError as err:
            raise ModelLoadError(
                f'adapter {self.path!r}: it needs the package {err.name}: expected it to be '
                'installed, pip install "timely_llm_ros[tune]"'
            ) from err
        try:
            adapted: Any = peft.PeftModel.from_pretrained(model, self.path)
            self._require_all(set(peft.get_peft_model_state_dict(adapted)))
            return adapted.merge_and_unload()
        except Exception as err:
            # It names every matrix; the first says enough.
            reason = ' '.join(' '.join(str(err).splitlines()[:2]).split())
            raise ModelLoadError(
                f'adapter {self.path!r}: {reason[:300]}; expected one of {self.base!r}'
            ) from err

    def _require_all(self, taken: set[str]) -> None:
        # peft leaves out what has no place in the base model, and what is not there stays zero.
        with safe_open(Path(self.path) / WEIGHTS, framework='pt') as file:
            given = set(file.keys())
        for name in sorted(given ^ taken):
            where = 'the base model has no such layer' if name in given else 'it is missing'
            raise ValueError(f'weights {name!r}: {where}')


def find_adapter(path: str) -> Adapter | None:
    """Return the adapter of a folder; None where it has a whole model.

    Its base model is looked for where it says, beside the folder, and among the shipped models.

    Raises:
        ModelLoadError: There is no base model, or the weights are not in safetensors.
    """
    folder = Path(path)
    file = folder / 'adapter_config.json'
    if not file.is_file():
        return None
    if not (folder / WEIGHTS).is_file():
        raise ModelLoadError(
            f'adapter {path!r}: no {WEIGHTS} there; expected it, because other formats can run '
            'programs'
        )
    try:
        named = json.loads(file.read_text(encoding='utf-8')).get('base_model_name_or_path')
    except (OSError, ValueError, AttributeError) as err:
        raise ModelLoadError(f'adapter {path!r}: adapter_config.json: {err}') from err
    if not isinstance(named, str) or not named:
        raise ModelLoadError(
            f'adapter {path!r}: base_model_name_or_path {named!r}: expected a name'
        )
    short = Path(named).name
    for base in (Path(named), folder.parent / short, Path(find_model(short))):
        if (base / 'config.json').is_file() and base.resolve() != folder.resolve():
            return Adapter(path, str(base))
    raise ModelLoadError(
        f'adapter {path!r}: no base model {named!r}: expected its folder there or beside it'
    )
