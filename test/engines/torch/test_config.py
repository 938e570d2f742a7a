"""What the torch engine's options stand for."""

from __future__ import annotations

import pytest

from timely_llm_ros.engines.torch import TorchConfig


@pytest.mark.parametrize(
    ('device', 'given', 'chunk'),
    [('cpu', 0, 128), ('cuda', 0, 2048), ('cuda:1', 0, 2048), ('cpu', 64, 64), ('cuda', 64, 64)],
)
def test_a_step_on_a_gpu_takes_more_of_a_prompt(device: str, given: int, chunk: int) -> None:
    assert TorchConfig(device=device, prefill_chunk=given).chunk == chunk
