"""Offline generation: bins, files, resuming; and with the model, what comes out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from timely_llm_ros.cli.main import main
from timely_llm_ros.engines.torch.compute.static_batches import Generated
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.offline.generate import BinOptions, cut, generate
from timely_llm_ros.offline.length_features import LengthFeatures
from timely_llm_ros.planner.prompts.prompt_file import (
    Answer,
    AnswerFile,
    OfflinePrompt,
    read_prompts,
)
from timely_llm_ros.skills.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def prompt(number: int, length: int | None = None) -> OfflinePrompt:
    words = f'go {"on and " * (length or 1)}home'
    return OfflinePrompt(f'p{number}', 'tello', words, Scene(), None, length)


class Server:
    """Answers with the prompt's own length, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, batch: Sequence[OfflinePrompt]) -> list[Generated]:
        self.batches.append([one.length or 0 for one in batch])
        return [Generated(one.prompt_id, 'stop', '', 'x', one.length or 0) for one in batch]


@examples(100)
@given(
    lengths=st.lists(st.one_of(st.integers(1, 60), st.none()), max_size=120),
    bins=st.integers(1, 6),
    batch=st.integers(1, 5),
    boundaries=st.sampled_from(['equal', 'optimal', 'exponential']),
    predictor=st.sampled_from(['oracle', 'features', 'rlp']),
    learn=st.integers(1, 30),
    max_wait_s=st.sampled_from([0.0, 3.0, 1e9]),
)
def test_every_prompt_is_answered_once(
    lengths: list[int | None],
    bins: int,
    batch: int,
    boundaries: Any,
    predictor: Any,
    learn: int,
    max_wait_s: float,
) -> None:
    """None in the lengths is a moment in which nothing comes."""
    server, clock = Server(), iter(range(100_000))
    coming = [None if length is None else prompt(n, length) for n, length in enumerate(lengths)]
    options = BinOptions(bins, batch, boundaries, predictor, learn, max_wait_s)
    got = [
        answer
        for answers in generate(
            iter(coming),
            server,
            options,
            read=lambda asked: float(asked.length or 0),
            now_s=lambda: float(next(clock)),
        )
        for answer in answers
    ]
    assert sorted(answer.id for answer in got) == sorted(p.prompt_id for p in coming if p)
    assert all(1 <= len(one) <= batch for one in server.batches)
    if bins > 1 and predictor != 'features':
        assert all(answer.predicted == answer.tokens for answer in got)


def test_bins_hold_like_lengths() -> None:
    lengths = [1, 50, 2, 49, 3, 48, 1, 47] * 8
    server = Server()
    options = BinOptions(2, 4, 'optimal', 'oracle')
    coming = iter([prompt(n, length) for n, length in enumerate(lengths)])
    list(generate(coming, server, options))
    assert all(max(one) - min(one) < 5 for one in server.batches)


def test_an_oracle_needs_lengths() -> None:
    coming = iter([prompt(n) for n in range(20)])
    with pytest.raises(ConfigurationError, match='no length'):
        list(generate(coming, Server(), BinOptions(2, 4, 'optimal', 'oracle')))


def test_reading_prompts_needs_a_reader() -> None:
    coming = iter([prompt(n) for n in range(20)])
    with pytest.raises(ConfigurationError, match="'rlp'"):
        list(generate(coming, Server(), BinOptions(2, 4, 'optimal', 'rlp')))


def test_words_tell_the_length() -> None:
    known = [prompt(n, 1 + n % 17) for n in range(100)]
    model = LengthFeatures(known, [one.length or 0 for one in known])
    errors = [abs(model.predict(prompt(0, length)) - length) for length in range(1, 18)]
    assert max(errors) < 2
    with pytest.raises(ConfigurationError):
        LengthFeatures([], [])


def test_few_distinct_lengths_make_fewer_bins() -> None:
    assert len(cut([5.0, 5.0, 9.0], BinOptions(8, 4, 'equal', 'oracle'))) == 3


@pytest.mark.parametrize(
    'values', [{'bins': 0}, {'batch': 0}, {'max_wait_s': -1.0}, {'predictor': 'guess'}]
)
def test_bad_options(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=str(next(iter(values)))):
        BinOptions(**values)


@pytest.mark.parametrize(
    ('line', 'message'),
    [
        ('nonsense', 'line 2'),
        ('[]', 'JSON object'),
        ('{"id": "b", "skill_set": "tello"}', 'instruction None'),
        ('{"id": "b", "skill_set": "tello", "instruction": "go", "lenght": 3}', "'lenght'"),
        ('{"id": "b", "skill_set": "tello", "instruction": "go", "length": 0}', 'length 0'),
        ('{"id": "b", "skill_set": "tello", "instruction": "go", "objects": [{}]}', 'line 2'),
        ('{"id": "a", "skill_set": "tello", "instruction": "go"}', 'second time'),
    ],
)
def test_bad_prompts(line: str, message: str) -> None:
    good = '{"id": "a", "skill_set": "tello", "instruction": "go"}'
    with pytest.raises(ConfigurationError, match=message):
        list(read_prompts([good, line], 'file'))


def test_half_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / 'answers.jsonl'
    file = AnswerFile(path)
    file.write([Answer('a', 'land;', 3), Answer('b', 'land;', 3)])
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    again = AnswerFile(path)
    assert again.done == {'a'}
    again.write([Answer('b', 'land;', 3)])
    again.close()
    assert path.read_bytes() == whole
    path.write_text('something else\n')
    with pytest.raises(ConfigurationError, match='line 1'):
        AnswerFile(path)


def test_the_command_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts, output = tmp_path / 'prompts.jsonl', tmp_path / 'answers.jsonl'
    objects = [{'name': 'cup_1', 'kind': 'cup'}, {'name': 'cat_1', 'kind': 'cat'}]
    lines = [
        json.dumps({'id': f'p{n}', 'skill_set': 'tello', 'instruction': text, 'objects': objects})
        for n, text in enumerate(['find the cup', 'look for the cat', 'check on the cup'] * 3)
    ]
    prompts.write_text('\n'.join(lines))
    static = ['--batching', 'static', '--batch', '2', '--bins', '2', '--learn', '4']
    assert main(['generate', str(prompts), '-o', str(output), *static]) == 0
    answers = {line['id']: line for line in map(json.loads, output.read_text().splitlines())}
    assert len(answers) == 9
    assert not any(answer['error'] for answer in answers.values())
    # The same texts come without batches, also from what is left of an interrupted run.
    kept = output.read_text().splitlines(keepends=True)[:4]
    output.write_text(''.join(kept))
    assert main(['generate', str(prompts), '-o', str(output)]) == 0
    again = {line['id']: line for line in map(json.loads, output.read_text().splitlines())}
    assert {name: one['text'] for name, one in again.items()} == {
        name: one['text'] for name, one in answers.items()
    }
    assert main(['generate', str(prompts), '-o', str(output)]) == 0
    assert 'all 9 prompts' in capsys.readouterr().out
    assert main(['generate', str(prompts), '-o', str(output), '--bins', '2']) == 1
    assert main(['generate', str(tmp_path / 'none'), '-o', str(output)]) == 1


def test_prompts_from_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = '{{"id": "p{}", "skill_set": "tello", "instruction": "take a picture"}}\n'
    for number, extra in enumerate(([], ['--batching', 'static', '--batch', '4'])):
        monkeypatch.setattr('sys.stdin', iter([line.format(n) for n in (0, 1, 2, 1)]))
        output = tmp_path / f'{number}.jsonl'
        assert main(['generate', '-', '-o', str(output), *extra]) == 0
        ids = sorted(json.loads(one)['id'] for one in output.read_text().splitlines())
        assert ids == ['p0', 'p1', 'p2']
    assert '3 answers' in capsys.readouterr().out


def test_answers_are_kept_where_the_prompts_are_bad(tmp_path: Path) -> None:
    answers, prompts = tmp_path / 'answers', tmp_path / 'prompts'
    answers.write_text('hours of work\n')
    prompts.write_text('no JSON\n')
    assert main(['generate', str(prompts), '-o', str(answers), '--force']) == 1
    assert answers.read_text() == 'hours of work\n'


@pytest.mark.parametrize(
    ('given', 'said'),
    [
        ('{folder}', 'Is a directory: expected a file'),
        ('{folder}/file', "line 1: 'hello': expected a JSON object"),
        ('{folder}/binary', 'expected UTF-8 text'),
    ],
)
def test_prompts_that_cannot_be_read_are_said_in_a_line(
    given: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'file').write_text('hello')
    (tmp_path / 'binary').write_bytes(bytes(range(128, 256)))
    output = str(tmp_path / 'out')
    assert main(['generate', given.format(folder=tmp_path), '-o', output]) == 1
    err = capsys.readouterr().err
    assert err.startswith('error: ')
    assert said in err
    assert err.count('\n') == 1
