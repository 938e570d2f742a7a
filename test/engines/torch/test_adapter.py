"""Adapters: tuned on a tiny model, loaded, and refused where they are not what they should be."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import torch

from timely_llm_ros.engines.torch.compute import load_model
from timely_llm_ros.engines.torch.compute.adapter import find_adapter
from timely_llm_ros.engines.torch.compute.attention import AttentionStep
from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.training.tuning import PlanSample, TuneOptions, tune

if TYPE_CHECKING:
    from pathlib import Path

ARM = find_skill_set('arm')
SAMPLES = [PlanSample(ARM, Scene(), f'rest {number}', 'home;stop;') for number in range(8)]


@pytest.fixture(scope='module')
def base(chaotic_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp('base') / 'small'
    shutil.copytree(chaotic_model, folder)
    settings = {'eos_token': '<eos>', 'tokenizer_class': 'PreTrainedTokenizerFast'}
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope='module')
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp('tuned') / 'adapter'
    options = TuneOptions(steps=6, batch=4, rank=4, rate=5e-3, first_layer=0.0, every=3)
    assert tune(str(base), out, SAMPLES, SAMPLES[:2], options) > 0.0
    return out


def test_an_adapter_is_a_models_folder_with_its_prompt_and_card(adapter: Path, base: Path) -> None:
    names = {path.name for path in adapter.iterdir()}
    assert {'adapter_model.safetensors', 'adapter_config.json', 'README.md'} <= names
    assert {'prompt.jinja', 'tokenizer.json', 'config.json'} <= names
    assert 'checkpoints' not in names
    assert 'rank 4' in (adapter / 'README.md').read_text()
    found = find_adapter(str(adapter))
    assert found is not None
    assert found.base == str(base)
    assert find_adapter(str(base)) is None


def test_its_weights_are_added_to_those_of_its_base(adapter: Path, base: Path) -> None:
    plain = load_model(str(base), max_kv_tokens=256)
    tuned = load_model(str(adapter), max_kv_tokens=256)
    assert tuned.info.parameters == plain.info.parameters
    logits = []
    for loaded in (plain, tuned):
        slots = loaded.pool.allocate(3)
        step = AttentionStep.build([(3, slots)], loaded.device)
        with torch.inference_mode():
            logits.append(loaded.forward([1, 2, 3], [0, 1, 2], step, [2]))
    assert (logits[0] - logits[1]).abs().max() > 1e-3


def test_a_base_beside_the_adapter_will_do(adapter: Path, base: Path, tmp_path: Path) -> None:
    moved = tmp_path / 'moved'
    shutil.copytree(adapter, moved)
    config = json.loads((moved / 'adapter_config.json').read_text())
    config['base_model_name_or_path'] = f'/nowhere/{base.name}'
    (moved / 'adapter_config.json').write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match="no base model '/nowhere/"):
        find_adapter(str(moved))
    shutil.copytree(base, tmp_path / base.name)
    found = find_adapter(str(moved))
    assert found is not None
    assert found.base == str(tmp_path / base.name)


def test_pickled_weights_are_refused(adapter: Path, tmp_path: Path) -> None:
    pickled = tmp_path / 'pickled'
    shutil.copytree(adapter, pickled)
    (pickled / 'adapter_model.safetensors').rename(pickled / 'adapter_model.bin')
    with pytest.raises(ModelLoadError, match=r'pickled.*no adapter_model\.safetensors there'):
        load_model(str(pickled), max_kv_tokens=64)


def test_weights_of_another_shape_are_refused(adapter: Path, tmp_path: Path) -> None:
    wrong = tmp_path / 'wrong'
    shutil.copytree(adapter, wrong)
    config = json.loads((wrong / 'adapter_config.json').read_text())
    (wrong / 'adapter_config.json').write_text(json.dumps(config | {'r': 8}))
    with pytest.raises(ModelLoadError, match=r'wrong.*size mismatch'):
        load_model(str(wrong), max_kv_tokens=64)
