"""What is set up before vLLM starts; needs no vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, pathlib
from timely_llm_ros.engines.vllm.start import prepare_environment
prepare_environment(1)
folder = pathlib.Path(os.environ['VLLM_RPC_BASE_PATH'])
(folder / 'socket').touch()
print(folder)
"""


def folder_of(environment: dict[str, str]) -> Path:
    """Return where a process had vLLM put its sockets."""
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())


def test_sockets_of_vllm_go_with_the_process() -> None:
    environment = {**os.environ}
    environment.pop('VLLM_RPC_BASE_PATH', None)
    folder = folder_of(environment)
    assert folder.name.startswith('timely-vllm-')
    assert not folder.exists()


def test_a_place_that_the_user_chose_stays(tmp_path: Path) -> None:
    assert folder_of({**os.environ, 'VLLM_RPC_BASE_PATH': str(tmp_path)}) == tmp_path
    assert (tmp_path / 'socket').exists()
