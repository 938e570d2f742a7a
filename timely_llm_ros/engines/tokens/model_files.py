"""Finds a model's folder: the shipped model by its name, any other by its path."""

from __future__ import annotations

from pathlib import Path

from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.installation import shipped_folders

SHIPPED_MODEL = 'timely-planner'
"""Name of the model that comes with this package."""

PREDICTORS = 'predictors'
"""Folder in a model's folder with the predictors of its plans' lengths."""


def find_model(name_or_path: str) -> str:
    """Return the folder of a model, given the name of a shipped one, a path or nothing.

    A name is looked up in a checkout, in ROS prefixes and beside this Python. A name that is found
    nowhere is returned as it is, so that loading the model says what was expected.
    """
    name_or_path = name_or_path or SHIPPED_MODEL
    if '/' in name_or_path:
        return name_or_path
    for folder in shipped_folders('models'):
        if (folder / name_or_path / 'config.json').is_file():
            return str(folder / name_or_path)
    return name_or_path


def require_model_files(path: str) -> None:
    """Check that a folder has a model's files, without reading them.

    Raises:
        ModelLoadError: One is missing.
    """
    for name in ('config.json', 'tokenizer.json'):
        if not (Path(path) / name).is_file():
            raise ModelLoadError(
                f'model {path!r}: no {name} there; expected a local folder with config.json, '
                'tokenizer.json and *.safetensors'
            )
