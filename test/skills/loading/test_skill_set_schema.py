"""The JSON schema of skill sets is the committed one, and refuses nothing that the loader takes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.errors import SkillSetError
from timely_llm_ros.skills.loading import (
    parse_skill_set,
    shipped_skill_files,
    skill_set_schema,
)

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = jsonschema.Draft202012Validator(skill_set_schema())
SHIPPED = {name: path for name, path in shipped_skill_files().items() if ROOT in path.parents}
VALUES: tuple[Any, ...] = (0, 1, -1, 2.5, 10**7, True, 'word', 'Two words', [], ['a'], {}, {'a': 1})


def content(name: str) -> Any:
    return yaml.safe_load(SHIPPED[name].read_text(encoding='utf-8'))


def test_the_committed_schema_is_this_one() -> None:
    text = (ROOT / 'config' / 'schemas' / 'skill_set.json').read_text(encoding='utf-8')
    assert json.loads(text) == skill_set_schema(), 'write it anew: timely-llm skills schema'
    jsonschema.Draft202012Validator.check_schema(skill_set_schema())


@pytest.mark.parametrize('name', sorted(SHIPPED))
def test_a_shipped_skill_set_is_valid(name: str) -> None:
    SCHEMA.validate(content(name))


def test_an_overlay_is_valid() -> None:
    duration = {'model': 'constant', 'seconds': 1.0}
    SCHEMA.validate({'extends': 'tello', 'skills': {'land': {'duration': duration}}})
    assert not SCHEMA.is_valid({'extends': 'tello', 'skills': {'land': {}}})


@pytest.mark.parametrize(
    'change',
    [
        lambda it: it.pop('safe_action'),
        lambda it: it.update(nonsense=1),
        lambda it: it.update(max_repeat=0),
        lambda it: it['skills']['land'].update(risk='extreme'),
        lambda it: it['skills']['land'].update(duration={'model': 'quadratic'}),
        lambda it: it['skills']['land'].update(motion={'move': 'sideways', 'by': 1}),
        lambda it: it['skills']['turn_cw']['arguments']['angle'].update(unit='furlong'),
        lambda it: it.update(limits={'segment_s': -1}),
    ],
)
def test_common_mistakes_show(change: Any) -> None:
    changed = content('tello')
    change(changed)
    assert not SCHEMA.is_valid(changed)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where in a file values are."""
    keys = range(len(value)) if isinstance(value, list) else value
    found = [] if not path else [path]
    if isinstance(value, dict | list):
        for key in keys:
            found += places(value[key], (*path, key))
    return found


@examples(25)
@given(st.data())
def test_what_the_loader_takes_the_schema_takes(data: st.DataObject) -> None:
    changed = copy.deepcopy(content(data.draw(st.sampled_from(sorted(SHIPPED)))))
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(places(changed)))
        inner = changed
        for key in way:
            inner = inner[key]
        match data.draw(st.sampled_from(('drop', 'replace', 'rename'))):
            case 'drop':
                del inner[last]
            case 'replace':
                inner[last] = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
            case _ if isinstance(inner, dict):
                inner[data.draw(st.sampled_from(('name', 'unit', 'other')))] = inner.pop(last)
    try:
        parse_skill_set(yaml.safe_dump(changed))
    except SkillSetError:
        return
    SCHEMA.validate(changed)
