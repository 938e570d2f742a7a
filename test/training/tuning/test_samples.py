"""Samples that models are tuned on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prompts import TersePrompts
from timely_llm_ros.sample_tasks import is_held_out
from timely_llm_ros.skills import parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.training.tuning import PlanSample, drawn_samples, read_samples
from timely_llm_ros.training.tuning.samples import IGNORED

if TYPE_CHECKING:
    from timely_llm_ros.skills import Prompt

TELLO, ARM = find_skill_set('tello'), find_skill_set('arm')


class Characters:
    """A tokenizer with a token per character."""

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def fixed_ids(self, prompt: Prompt) -> list[int]:
        return self.encode(prompt.fixed)

    def body_ids(self, prompt: Prompt, *, beginning: bool) -> list[int]:
        return self.encode(prompt.body)


def test_drawn_samples_are_valid_of_every_kind_and_none_is_held_out() -> None:
    samples = drawn_samples([TELLO], 24, 1)
    assert len(samples) == 24
    assert not any(is_held_out(sample.scene) for sample in samples)
    assert all(parse(sample.plan, TELLO, sample.scene) for sample in samples)
    assert any('#' in sample.plan for sample in samples)
    assert any(sample.plan.startswith('move_') for sample in samples)
    assert drawn_samples([TELLO], 24, 1) == samples
    assert drawn_samples([TELLO], 24, 2) != samples
    with pytest.raises(ConfigurationError, match='\'chatbot\': expected "tello" or "arm"'):
        drawn_samples([TELLO, find_skill_set('chatbot')], 2, 0)
    both = drawn_samples([TELLO, ARM], 33, 1)
    assert [sum(it.skill_set == each for it in both) for each in (TELLO, ARM)] == [24, 9]
    assert all(parse(sample.plan, sample.skill_set, sample.scene) for sample in both)


def test_only_what_the_model_writes_is_learned() -> None:
    plan = 'takeoff;is_visible(cat_1);#true take_picture;'
    sample = next(it for it in drawn_samples([TELLO], 50, 0) if '#true' in it.plan)
    sample = PlanSample(TELLO, sample.scene, 'look', plan)
    texts: Any = Characters()
    row = sample.row(TersePrompts(), texts, 7)
    prompt = TersePrompts().build(TELLO, sample.scene, 'look')
    written = ''.join(map(chr, row['input_ids'][:-1]))
    assert written == prompt.text + plan
    learned = [label for label in row['labels'] if label != IGNORED]
    assert ''.join(map(chr, learned[:-1])) == plan.replace('#true ', '')
    assert learned[-1] == row['input_ids'][-1] == 7
    assert len(row['labels']) == len(row['input_ids'])


def test_samples_of_a_file_are_checked_line_by_line() -> None:
    good = {'instruction': 'rest', 'plan': 'home;'}
    there = {'instruction': 'get it', 'plan': 'pick(cup_1);', 'objects': [
        {'name': 'cup_1', 'kind': 'cup'}]}  # fmt: skip
    lines = [json.dumps(good), '', json.dumps(there)]
    assert [sample.plan for sample in read_samples(lines, 'file', ARM)] == ['home;', 'pick(cup_1);']
    for bad, reason in [
        ('[]', r'\[\]'),
        ('{', 'Expecting property name'),
        ('{"plan": "home;"}', "no 'instruction'"),
        (json.dumps(good | {'plan': 'pick(cup_1);'}), "'cup_1': expected the name of an object"),
        (json.dumps(good | {'plan': ' '}), 'is empty'),
        (json.dumps(good | {'objects': [{'name': 'Cup'}]}), 'missing 1 required'),
    ]:
        with pytest.raises(ConfigurationError, match=rf'file, line 2: .*{reason}.*: expected a'):
            read_samples([json.dumps(good), bad], 'file', ARM)
    with pytest.raises(ConfigurationError, match='1 samples: expected at least 2'):
        read_samples(lines[:1], 'file', ARM)
