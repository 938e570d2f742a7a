"""Adapters on a real vLLM: several at once, each of which writes what its merged weights write."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

from safetensors.torch import load_file, save_file
from support.engines.tiny_model import write_adapter, write_model
from support.engines.torch_runs import plan_request
from support.engines.vllm_runs import VllmRun, mismatches, torch_tokens

from timely_llm_ros.engines.tokens import Adapter
from timely_llm_ros.engines.torch.compute import load_model
from timely_llm_ros.engines.vllm.engine import VllmEngine
from timely_llm_ros.engines.vllm.fallback import VllmWithFallback
from timely_llm_ros.engines.vllm.model_folder import ModelFolder
from timely_llm_ros.engines.vllm.plugin import contract as vllm_contract
from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.engines.commands import GenerationRequest

NUMBERS = range(6)
NAMES = ('plain', 'tello', 'other')
"""The base model's own skill set, and those that have adapters."""


@pytest.fixture(scope='module')
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of which two skill sets have adapters, of other ranks and for other matrices."""
    folder = write_model(tmp_path_factory.mktemp('models') / 'wide', hidden_size=256)
    write_adapter(folder, folder / 'adapters/tello', seed=1, rank=4)
    targets = ('q_proj', 'v_proj', 'down_proj')
    write_adapter(folder, folder / 'adapters/other', seed=2, rank=9, targets=targets)
    return folder


def requests(name: str) -> list[GenerationRequest]:
    """Requests with the same prompts and grammars for every skill set."""
    found = []
    for number in NUMBERS:
        request = plan_request(number)
        skill_set = replace(request.skill_set, name=name)
        found.append(replace(request, generation_id=f'{name}{number}', skill_set=skill_set))
    return found


@pytest.fixture(scope='module')
def expected(base: Path) -> dict[str, tuple[int, ...]]:
    """What the torch engine writes with each adapter's weights merged into the base model's."""
    tokens = {}
    for name in NAMES:
        folder = base if name == 'plain' else base / 'adapters' / name
        loaded = load_model(str(folder), max_kv_tokens=4096)
        for request in requests(name):
            tokens[request.generation_id] = torch_tokens(loaded, request)
    return tokens


def test_several_adapters_at_once_write_what_each_writes_alone(
    base: Path, expected: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    for number in NUMBERS:
        assert len({expected[f'{name}{number}'] for name in NAMES}) == len(NAMES)
    every = [request for name in NAMES for request in requests(name)]
    run = VllmRun(model_path=str(base), max_running=4, max_kv_tokens=4096)
    try:
        assert run.info.adapters == {
            name: str(base / 'adapters' / name) for name in ('other', 'tello')
        }
        # The same prompts one after another: nobody may find another's KV.
        assert run.do(run.alone(every)) == expected
        for seed in range(3):
            assert mismatches(run.do(run.torn(every, random.Random(seed))), expected) == []
        assert run.suspended > 4

        strange = Adapter(str(tmp_path / 'strange'), str(base))
        shutil.copytree(base / 'adapters/other', strange.path)
        file = tmp_path / 'strange/adapter_model.safetensors'
        weights = load_file(file)
        save_file({name.replace('q_proj', 'odd'): weights[name] for name in weights}, file)
        known = ModelFolder.read(str(base))
        model = replace(known, adapters={**known.adapters, 'z': strange})
        assert isinstance(run.engine, VllmEngine)
        assert run.engine._process is not None
        with pytest.raises(ModelLoadError, match=r'strange.*vLLM: .*expected target modules'):
            run.do(model.load(run.engine._process._llm))
        assert run.do(run.alone(every[-1:])).items() <= expected.items()
    finally:
        run.close()


def test_an_adapters_folder_is_a_model_also_without_our_scheduler(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_contract, 'AFTER_LAST', vllm_contract.FIRST)
    adapter = str(base / 'adapters/tello')
    loaded = load_model(adapter, max_kv_tokens=4096)
    longer = [replace(request, max_tokens=120) for request in requests('tello')]
    # Near the limit plans are brought to their end in another way.
    expected = {request.generation_id: torch_tokens(loaded, request)[:60] for request in longer}
    run = VllmRun(VllmWithFallback, model_path=adapter, max_running=4, max_kv_tokens=4096)
    try:
        assert (run.info.model, run.info.adapters) == (adapter, {})
        found = run.do(run.torn(longer, random.Random(1)))
        begun = {
            name: replace(ended, token_ids=ended.token_ids[:60]) for name, ended in found.items()
        }
        assert mismatches(begun, expected) == []
    finally:
        run.close()
