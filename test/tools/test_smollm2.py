"""The script that makes the folder of SmolLM2: what it refuses."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

TOOLS = Path(__file__).resolve().parents[2] / 'tools'


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module('smollm2')


def test_another_file_is_refused_with_both_hashes(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / 'model.gguf'
    path.write_bytes(b'GGUF')
    with pytest.raises(SystemExit, match=r'model\.gguf: SHA-256 [0-9a-f]{64}, expected b179c952'):
        script.check_file(path)


def test_the_hash_of_weights_sees_a_value_a_name_and_a_shape(script: ModuleType) -> None:
    import torch

    weights_sha256 = script.weights_sha256
    values = torch.arange(6, dtype=torch.float16)
    states = [
        {'a': values},
        {'b': values},
        {'a': values.reshape(2, 3)},
        {'a': values + 1},
        {'a': values.float()},
    ]
    assert len({weights_sha256(state) for state in states}) == len(states)
    assert weights_sha256({'a': values, 'b': values}) == weights_sha256({'b': values, 'a': values})


def test_without_a_network_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(TOOLS / 'smollm2.py'), '--out', str(tmp_path / 'model')],
        env={
            'PATH': '/usr/bin:/bin',
            'PIP_CONFIG_FILE': '/dev/null',
            'PIP_INDEX_URL': 'http://127.0.0.1:9/simple',
            'PIP_RETRIES': '1',
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert 'error: no network' in done.stderr
    assert list(tmp_path.iterdir()) == []
