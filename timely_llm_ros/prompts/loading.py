"""Finds the template of a model's prompts: named, beside the model, or the one that ships."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prompts.model_prompts import (
    DEFAULT_TEMPLATE,
    TUNED_TEMPLATE,
    ModelPrompts,
    Template,
)
from timely_llm_ros.prompts.prompts import TersePrompts
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from timely_llm_ros.prompts.prompts import Prompts
    from timely_llm_ros.skills import SkillSet

BESIDE = 'prompt.jinja'
"""Name of a template beside a model."""

TRAINED_HERE = 'training.json'
"""A file that only the training of embedded models leaves; those models know terse prompts."""

TAUGHT = ('tello', 'arm')
"""The shipped skill sets that this training teaches."""

MOST_BYTES = 1 << 16
"""Bytes that a template may have."""


def load_prompts(name: str, model: str, *, messages: bool = False, adapter: str = '') -> Prompts:
    """Return what makes the prompts of a model.

    Args:
        name: ``terse`` for the embedded model's, ``chat`` for the template that ships, the path of
            a template, or ``auto``: the template beside the model, or else the one that ships,
            but terse ones for a model that was trained here and where there is no model's folder.
        model: The model's folder.
        messages: Whether a server takes prompts as messages, whatever its model is.
        adapter: Folder of the model's adapter; a template there goes before the model's.

    Raises:
        ConfigurationError: A file cannot be used; names it and the reason.
    """
    folder = Path(model) if model else Path('/nonexistent')
    own = name if name.endswith('.jinja') else ''
    if name == 'auto' and not messages:
        beside = [Path(place) / BESIDE for place in (adapter, model) if place]
        own = next((str(file) for file in beside if file.is_file()), '')
        trained = (folder / TRAINED_HERE).is_file() or not (folder / 'tokenizer.json').is_file()
        if trained and not own:
            name = 'terse'
    elif not own and name not in ('terse', 'chat', 'auto'):
        raise ConfigurationError(
            f'prompt {name!r}: expected auto, terse, chat or the path of a .jinja file'
        )
    if name == 'terse':
        return TersePrompts()
    settings = _json(folder / 'tokenizer_config.json')
    return ModelPrompts(
        Template(
            name=own or model or DEFAULT_TEMPLATE,
            text=_read(Path(own)) if own else '',
            chat=_chat_template(folder, settings),
            tokens=_tokens(settings),
            special=_special(folder),
        ),
        messages=messages,
    )


def untaught(skill_set: SkillSet, model: str) -> list[str]:
    """Return the skills that a model which was trained here has never seen; none of another model.

    Args:
        skill_set: What is to be planned with.
        model: The model's folder; '' for none.
    """
    if not model or not (Path(model) / TRAINED_HERE).is_file():
        return []
    taught = {skill for name in TAUGHT for skill in find_skill_set(name).skills}
    return [skill for skill in skill_set.skills if skill not in taught]


def tuned_template() -> str:
    """Return the template of a model that is tuned to a skill set."""
    return (Path(__file__).resolve().parent / TUNED_TEMPLATE).read_text('utf-8')


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigurationError(f'prompt template {path}: expected at most {MOST_BYTES} bytes')
        return path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigurationError(f'prompt template {path}: {err}') from err


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as err:
        raise ConfigurationError(f'{path}: {err}') from err
    return found if isinstance(found, dict) else {}


def _chat_template(folder: Path, settings: dict[str, Any]) -> str:
    """Return a model's chat template; empty where it has none."""
    if (folder / 'chat_template.jinja').is_file():
        return _read(folder / 'chat_template.jinja')
    found = settings.get('chat_template') or _json(folder / 'chat_template.json').get(
        'chat_template'
    )
    if isinstance(found, list):
        # Some models have several by name.
        by_name = {str(one.get('name')): one.get('template') for one in found}
        found = by_name.get('default')
    if found is not None and not (isinstance(found, str) and len(found) <= MOST_BYTES):
        raise ConfigurationError(
            f'{folder}: chat_template: expected a text of at most {MOST_BYTES} characters'
        )
    return found or ''


def _tokens(settings: dict[str, Any]) -> dict[str, str]:
    """Return what chat templates call special tokens."""
    found = {'bos_token': '', 'eos_token': ''}
    for key, value in settings.items():
        text = value.get('content') if isinstance(value, dict) else value
        if key.endswith('_token') and isinstance(text, str):
            found[key] = text
    return found


def _special(folder: Path) -> list[str]:
    """Return the texts of the tokens that were added to a model's vocabulary."""
    added = _json(folder / 'tokenizer.json').get('added_tokens') or []
    texts = [token.get('content') for token in added if isinstance(token, dict)]
    return [text for text in texts if isinstance(text, str) and text and not text.isspace()]
