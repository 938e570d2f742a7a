"""What is in a model's folder, and which adapters are refused before vLLM starts."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

import torch
from safetensors.torch import load_file, save_file
from support.engines.tiny_model import write_adapter, write_model

from timely_llm_ros.engines.vllm.model_folder import ModelFolder
from timely_llm_ros.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Weights = dict[str, torch.Tensor]


@pytest.fixture(scope='module')
def adapter(chaotic_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp('adapted') / 'adapter'
    return write_adapter(chaotic_model, folder, seed=1, rank=4)


@pytest.fixture
def copy(adapter: Path, tmp_path: Path) -> Path:
    shutil.copytree(adapter, tmp_path / 'copy')
    return tmp_path / 'copy'


def change(folder: Path, **changes: Any) -> None:
    """Change an adapter's configuration."""
    file = folder / 'adapter_config.json'
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_model_without_adapters_is_served_as_ever(chaotic_model: Path) -> None:
    model = ModelFolder.read(str(chaotic_model))
    assert model.arguments() == {'model': str(chaotic_model)}
    assert model.request('tello') is None


def test_an_adapters_folder_writes_every_plan(adapter: Path, chaotic_model: Path) -> None:
    model = ModelFolder.read(str(adapter))
    arguments = model.arguments()
    assert (arguments['model'], arguments['tokenizer']) == (str(chaotic_model), str(adapter))
    assert (arguments['enable_lora'], arguments['max_lora_rank']) == (True, 8)
    for name in ('tello', 'arm'):
        assert model.request(name).lora_path == str(adapter)
    assert model.prompts == {}


def test_each_skill_set_has_the_adapter_of_its_name(chaotic_model: Path, tmp_path: Path) -> None:
    base = tmp_path / 'base'
    shutil.copytree(chaotic_model, base)
    write_adapter(base, base / 'adapters/arm', seed=1, rank=4)
    write_adapter(base, base / 'adapters/tello', seed=2, rank=17, targets=('q_proj',))
    (base / 'adapters/.cache').mkdir()
    model = ModelFolder.read(str(base))
    arguments = model.arguments()
    assert (arguments['model'], arguments['tokenizer']) == (str(base), str(base))
    assert arguments['max_lora_rank'] == 32
    # On a CPU one more, see there.
    assert arguments['max_loras'] in (2, 3)
    arm, tello = model.request('arm'), model.request('tello')
    assert model.prompts == {'arm': arm.lora_path, 'tello': tello.lora_path}
    assert arm.lora_path == str(base / 'adapters/arm')
    assert {arm.lora_int_id, tello.lora_int_id} == {1, 2}
    assert model.request('chatbot') is None


def test_a_folder_among_the_adapters_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / 'adapters/arm').mkdir(parents=True)
    with pytest.raises(ModelLoadError, match=r"adapters/arm': no adapter_config\.json there"):
        ModelFolder.read(str(tmp_path))
    (tmp_path / 'adapters/arm/adapter_config.json').write_text('{}')
    (tmp_path / 'adapters/arm/adapter_model.bin').touch()
    with pytest.raises(ModelLoadError, match=r"adapters/arm': no adapter_model\.safetensors"):
        ModelFolder.read(str(tmp_path))


@pytest.mark.parametrize(
    ('changes', 'expected'),
    [
        ({'r': 1000}, r'rank 1000: expected 1 to 512'),
        ({'r': 8}, r'lora_[AB].*size mismatch: \(4, \d+\) is not \(8, \d+\)'),
        ({'rank_pattern': {'q_proj': 2}}, r'q_proj.*size mismatch: \(4, 64\) is not \(2, 64\)'),
        ({'target_modules': None}, 'NoneType'),
    ],
)
def test_a_configuration_that_its_weights_do_not_have_is_refused(
    copy: Path, changes: dict[str, Any], expected: str
) -> None:
    change(copy, **changes)
    with pytest.raises(ModelLoadError, match=rf'copy.*{expected}'):
        ModelFolder.read(str(copy)).arguments()


def test_an_adapter_of_another_base_is_refused(copy: Path, tmp_path: Path) -> None:
    narrow = write_model(tmp_path / 'narrow', hidden_size=32)
    change(copy, base_model_name_or_path=str(narrow))
    with pytest.raises(ModelLoadError, match=r'copy.*size mismatch.*expected one of .*narrow'):
        ModelFolder.read(str(copy)).arguments()


def rename(old: str, new: str) -> Callable[[Weights], Weights]:
    return lambda weights: {name.replace(old, new): value for name, value in weights.items()}


def with_embedding(weights: Weights) -> Weights:
    return weights | {'base_model.model.model.embed_tokens.lora_embedding_A': torch.zeros(4, 257)}


def without(part: str) -> Callable[[Weights], Weights]:
    return lambda weights: {name: value for name, value in weights.items() if part not in name}


@pytest.mark.parametrize(
    ('changed', 'expected'),
    [
        (rename('.layers.1.', '.layers.2.'), r'layers\.2\..*the base model has no such layer'),
        (without('layers.1.mlp.up_proj'), r'layers\.1\.mlp\.up_proj.*it is missing'),
        (without('layers.0.mlp.up_proj.lora_B'), r'up_proj\.lora_B.*it is missing'),
        (with_embedding, 'embedding_A.*: expected lora_A and lora_B of linear'),
    ],
)
def test_weights_that_do_not_fit_one_to_one_are_refused(
    copy: Path, changed: Callable[[Weights], Weights], expected: str
) -> None:
    file = copy / 'adapter_model.safetensors'
    save_file(changed(load_file(file)), file)
    with pytest.raises(ModelLoadError, match=rf'copy.*{expected}'):
        ModelFolder.read(str(copy)).arguments()


def test_an_adapter_of_some_layers_is_whole(copy: Path) -> None:
    file = copy / 'adapter_model.safetensors'
    save_file(without('layers.0.')(load_file(file)), file)
    change(copy, layers_to_transform=[1])
    assert ModelFolder.read(str(copy)).arguments()['max_lora_rank'] == 8


def test_a_pickle_under_the_name_of_safetensors_is_refused(copy: Path) -> None:
    torch.save({'weights': torch.zeros(1)}, copy / 'adapter_model.safetensors')
    with pytest.raises(ModelLoadError, match='copy'):
        ModelFolder.read(str(copy)).arguments()
