from __future__ import annotations

import json
from pathlib import Path

import pytest

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times.execution_time import (
    DecodeCoefficients,
    ExecutionTimeModel,
    Margin,
)
from timely_llm_ros.prediction.times.profile_file import Profile, read_profile, write_profile

TIMES = ExecutionTimeModel(
    1e-8,
    2e-4,
    0.02,
    (DecodeCoefficients(1, 1e-6, 0.03), DecodeCoefficients(4, 2e-6, 0.04)),
    (Margin(0.9, 1.1, 1.2),),
    4e-6,
)
PROFILE = Profile(TIMES, 4096, {'model': {'name': 'tiny'}, 'date': '2026-01-02T03:04:05Z'})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / 'profile.json'
    write_profile(PROFILE, path)
    assert read_profile(path) == PROFILE
    assert [file.name for file in tmp_path.iterdir()] == ['profile.json']


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / 'profile.json'
    write_profile(PROFILE, path)
    before = path.read_bytes()

    def interrupted(*_: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, 'replace', interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_profile(Profile(TIMES, 1), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ['profile.json']


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match='cannot be written'):
        write_profile(PROFILE, tmp_path / 'no' / 'profile.json')


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'format': 'something else'}, 'expected a file that `timely-llm profile` wrote'),
        ({'version': 7}, 'version 7: expected 1'),
        ({'prefill': {'square_s': 1e-8}}, "KeyError: 'token_s'"),
        ({'prefill': 3}, 'TypeError'),
        ({'decode': []}, 'batch sizes'),
        ({'decode': [{'batch': 1, 'kv_token_s': -1e-6, 'step_s': 0.03}]}, 'kv_token_s -1e-06'),
        ({'decode': [{'batch': 1, 'kv_token_s': 'slow', 'step_s': 0.03}]}, 'slow'),
        ({'margins': [{'coverage': 2, 'prefill': 1, 'step': 1}]}, 'between 0 and 1'),
        ({'kv_capacity_tokens': 0}, 'kv_capacity_tokens 0'),
    ],
)
def test_files_that_are_no_profile(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / 'profile.json'
    write_profile(PROFILE, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_profile(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize('text', ['', '{', '[1]', '"x"'])
def test_files_that_are_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / 'profile.json'
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r'profile\.json'):
        read_profile(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match='cannot be read'):
        read_profile(tmp_path / 'none.json')
