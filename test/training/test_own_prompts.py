"""Predictors of any model's lengths, learned from a file of prompts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip('torch')

import torch
from support.engines.tiny_model import write_model

from timely_llm_ros.cli.main import main
from timely_llm_ros.prediction.lengths import read_probe, read_rlp
from timely_llm_ros.training import read_samples
from timely_llm_ros.training.rlp_training import least_class_loss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines


@pytest.fixture(scope='module')
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp('models') / 'tiny')


def prompts_file(folder: Path, flights: int, chats: int) -> str:
    cat = {'name': 'cat_1', 'kind': 'cat', 'attribute': 'red', 'support': 'sofa', 'relation': 'on'}
    lines: list[dict[str, Any]] = [
        {'id': f'f{n}', 'skill_set': 'tello', 'instruction': f'look {n} times', 'objects': [cat]}
        for n in range(flights)
    ]
    lines += [
        {'id': f'c{n}', 'skill_set': 'chatbot', 'instruction': f'why {n}?', 'max_tokens': 3}
        for n in range(chats)
    ]
    path = folder / 'prompts.jsonl'
    path.write_text('\n'.join(map(json.dumps, lines)))
    return str(path)


def test_predictors_learn_from_a_file_of_prompts_and_any_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = tmp_path / 'plans.npz'
    common = ['--model', str(model), '-o', str(tmp_path), '--epochs', '1']
    own = [*common, '--prompts-file', prompts_file(tmp_path, 30, 6), '--max-tokens', '40']
    assert main(['train-probe', *own, '--plans', '50', '--keep-samples', str(plans)]) == 0
    said = capsys.readouterr()
    assert 'were cut off' in said.err
    assert 'that no choice saw' in said.out
    samples = read_samples(plans)
    assert {it.length for it in samples if it.censored} <= {3, 40}
    assert sum(it.censored for it in samples) >= 5
    assert all(len(it.states) == it.length for it in samples)
    # Prompts are the model's, with roles and rules, and not the embedded planner's.
    assert 'You write plans for tello' in samples[0].prompt.fixed
    longest = max(it.length for it in samples)
    assert read_probe(tmp_path).settings.bins.longest == longest
    assert main(['train-rlp', *own, '--samples', str(plans)]) == 0
    rlp = read_rlp(tmp_path)
    assert rlp.settings.longest == longest
    assert rlp.about['tasks'] == 'prompts.jsonl'
    assert 1 <= rlp.predict(samples[0].prompt.fixed, samples[0].prompt.body).mean <= 2 * longest


def test_a_model_whose_plans_do_not_end_is_refused_with_numbers(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ('train-probe', 'train-rlp'):
        arguments = ['--model', str(model), '-o', str(tmp_path), '--plans', '20']
        file = prompts_file(tmp_path, 0, 20)
        assert main([command, *arguments, '--prompts-file', file]) == 1
        error = capsys.readouterr().err
        assert 'ended by themselves: expected at least 10' in error
        assert '--max-tokens' in error


@pytest.mark.parametrize('command', ['train-probe', 'train-rlp', 'profile'])
def test_a_file_that_holds_no_prompts_is_refused_by_line(
    command: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / 'prompts.jsonl'
    path.write_text('{"id": "a", "skill_set": "tello"}\n')
    output = ['-o', str(tmp_path if command != 'profile' else tmp_path / 'profile.json')]
    arguments = ['--model', str(model), '--prompts-file', str(path), *output]
    assert main([command, *arguments]) == 1
    assert 'line 1: instruction' in capsys.readouterr().err


def test_a_profile_fits_the_sizes_of_a_files_prompts(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ['go on ' * 2**n for n in range(1, 7)]
    lines = [
        {'id': f'{n}', 'skill_set': 'chatbot', 'instruction': text} for n, text in enumerate(words)
    ]
    path = tmp_path / 'prompts.jsonl'
    path.write_text('\n'.join(map(json.dumps, lines)))
    output = tmp_path / 'profile.json'
    common = ['--model', str(model), '--repeats', '2', '--batches', '1', '--contexts', '16', '64']
    assert main(['profile', *common, '--prompts-file', str(path), '-o', str(output)]) == 0
    points = json.loads(output.read_text())['measurements']['prefill']
    sizes = {point['tokens'] for point in points}
    # A byte is a token of this model.
    differences = [len(text) - len(words[0]) for text in words]
    assert {min(sizes) + it for it in differences} <= sizes
    assert main(['profile', *common, '--prompts', '16', '64', '99', '--prompts-file', str(path)])
    assert 'expected one of them' in capsys.readouterr().err


def test_what_is_cut_off_may_be_any_longer_class() -> None:
    scores = torch.tensor([[2.0, 0.0, 1.0, -1.0], [0.5, 0.5, 3.0, 1.0]])
    classes = torch.tensor([1, 2])
    shares = scores.softmax(1).numpy()
    exact = least_class_loss(scores, classes, torch.tensor([False, False]))
    assert float(exact) == pytest.approx(-np.log(shares[[0, 1], [1, 2]]).mean(), rel=1e-5)
    cut = least_class_loss(scores, classes, torch.tensor([True, False]))
    right = [shares[0, 1:].sum(), shares[1, 2]]
    assert float(cut) == pytest.approx(-np.log(right).mean(), rel=1e-5)
