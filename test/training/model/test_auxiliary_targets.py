"""Hints name the right objects, and only where a trained model could know them."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest
from support.skills.plan_texts import first_group

from timely_llm_ros.sample_tasks import TaskSample
from timely_llm_ros.sample_tasks import words as data_words
from timely_llm_ros.sample_tasks.generator import sample_task
from timely_llm_ros.training.model.auxiliary_targets import NOTHING, Hinter
from timely_llm_ros.training.model.tokenizer import EOS_ID

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


@pytest.fixture(scope='module')
def hinter(tokenizer: Tokenizer) -> Hinter:
    return Hinter(tokenizer)


def encoded(tokenizer: Tokenizer, task: TaskSample) -> tuple[Encoding, Encoding, list[int]]:
    prompt = tokenizer.encode(f'task: {task.instruction}\nplan:\n')
    plan = tokenizer.encode(task.plan)
    return prompt, plan, [*plan.ids, EOS_ID]


@pytest.mark.parametrize('kind', [10, 11])
def test_a_taken_thing_hints_at_the_next_one(
    tokenizer: Tokenizer, hinter: Hinter, kind: int
) -> None:
    rng = random.Random(1)
    for _ in range(30):
        task = sample_task(rng, kind, 9)
        _, plan, ids = encoded(tokenizer, task)
        names = re.findall(r'(?:pick|sort_into)\((\w+)_(\d+)', task.plan)
        hints: dict[int, list[int]] = {}
        for place, token in hinter.plan(task, ids):
            hints.setdefault(place, []).append(token)
        told = [[tokenizer.id_to_token(token) for token in hints[place]] for place in sorted(hints)]
        wanted = [*([kind, f'_{number}'] for kind, number in names[1:]), ['<eos>']]
        if kind == 11:
            for (name, _), tokens in zip(names, wanted, strict=True):
                tokens.append('Ġfruit' if name in data_words.FRUITS else 'Ġvegetables')
        assert told == wanted
        assert [plan.tokens[place] for place in sorted(hints)] == [f'_{n}' for _, n in names]


def test_a_container_hints_at_what_goes_into_it(tokenizer: Tokenizer, hinter: Hinter) -> None:
    rng = random.Random(4)
    seen = 0
    for _ in range(30):
        task = sample_task(rng, 11, 9)
        prompt, _, _ = encoded(tokenizer, task)
        told = {
            prompt.tokens[place].strip('Ġ'): tokenizer.id_to_token(token)
            for place, token in hinter.instruction(task, prompt.ids)
            if tokenizer.id_to_token(token) in ('Ġfruit', 'Ġvegetables')
        }
        for kind, container in re.findall(r'sort_into\((\w+)_\d+,(\w+)_', task.plan):
            fruit = kind in data_words.FRUITS
            assert told[container] == ('Ġfruit' if fruit else 'Ġvegetables')
            seen += 1
    assert seen > 30


@pytest.mark.parametrize('kind', [3, 4])
def test_a_described_place_is_hinted_at_where_its_object_is_named(
    tokenizer: Tokenizer, hinter: Hinter, kind: int
) -> None:
    rng = random.Random(5)
    for _ in range(20):
        task = sample_task(rng, kind, 9)
        _, plan, ids = encoded(tokenizer, task)
        item = task.scene.get(first_group(r'goto\((\w+)\)', task.plan))
        assert item is not None
        hints = hinter.plan(task, ids)
        assert [tokenizer.id_to_token(token) for _, token in hints] == [
            f'Ġ{item.relation}',
            f'Ġ{item.support}',
        ]
        assert {plan.tokens[place] for place, _ in hints} == {item.kind}


@pytest.mark.parametrize('kind', [6, 7, 8])
def test_a_danger_hints_at_its_number_and_the_moves_away(
    tokenizer: Tokenizer, hinter: Hinter, kind: int
) -> None:
    rng = random.Random(2)
    for _ in range(30):
        task = sample_task(rng, kind, 6)
        prompt, plan, ids = encoded(tokenizer, task)
        number = '_' + task.danger.rpartition('_')[2]
        moves = set(re.findall(r'move_(?:left|right|forward|backward)', task.plan))
        noun = task.danger.partition('_')[0]
        hints = [
            (place, token)
            for place, token in hinter.instruction(task, prompt.ids)
            if prompt.tokens[place].strip('Ġ').lower() == noun
        ]
        assert {tokenizer.id_to_token(token) for _, token in hints} == {number, *moves}
        assert len({place for place, _ in hints}) == 1
        late = hinter.late(task, ids)
        told = {
            tokenizer.id_to_token(token)
            for token, hint in zip(ids, late, strict=True)
            if hint != NOTHING
        }
        assert told == moves
        assert {tokenizer.id_to_token(hint) for hint in late if hint != NOTHING} == {number}
        assert len(late) == len(plan.ids) + 1


def test_a_name_is_hinted_at_before_its_kind(tokenizer: Tokenizer, hinter: Hinter) -> None:
    task = sample_task(random.Random(3), 1, 5)
    _, plan, ids = encoded(tokenizer, task)
    late = hinter.late(task, ids)
    place = plan.tokens.index('goto') + 2
    assert late[place] == ids[place + 1]
    assert tokenizer.id_to_token(late[place]) == '_' + first_group(r'_(\d+)\)', task.plan)
