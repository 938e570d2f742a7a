"""Adapters: tuned on a tiny model, loaded, and refused where they are not what they should be."""

from __future__ import annotations

import json
import logging
import shutil
from typing import TYPE_CHECKING

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.engines.tiny_model import write_model

from timely_llm_ros.engines.tokens import find_adapter
from timely_llm_ros.engines.torch import TorchConfig, TorchEngine
from timely_llm_ros.engines.torch.compute import load_model
from timely_llm_ros.engines.torch.compute.attention import AttentionStep
from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.prompts import tuned_template
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.training.tuning import PlanSample, TuneOptions, tune
from timely_llm_ros.training.tuning.samples import IGNORED
from timely_llm_ros.training.tuning.tune import _trainer

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
    assert (adapter / 'prompt.jinja').read_text() == tuned_template()
    assert 'rank 4' in (adapter / 'README.md').read_text()
    found = find_adapter(str(adapter))
    assert found is not None
    assert found.base == str(base)
    assert find_adapter(str(base)) is None


def test_an_adapter_that_is_there_is_tuned_further(
    adapter: Path, base: Path, tmp_path: Path
) -> None:
    further = tmp_path / 'further'
    shutil.copytree(adapter, further)
    options = TuneOptions(steps=1, batch=1, rank=8, rate=1e-7, first_layer=0.0)
    said: list[str] = []
    tune(str(base), further, SAMPLES, SAMPLES[:2], options, say=said.append)
    assert said[0] == f'loading {base}'
    assert said[-1].startswith('tuning from step 0 to 1 at most; every 50 steps it looks')
    before, after = (
        load_file(folder / 'adapter_model.safetensors') for folder in (adapter, further)
    )
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert weight.dtype == torch.float16
        assert torch.allclose(weight, after[name], atol=1e-4)


def test_a_template_of_the_users_own_is_what_it_is_tuned_on(base: Path, tmp_path: Path) -> None:
    template = "{% extends 'tuned.jinja' %}{% block system %}mine{% endblock %}"
    (tmp_path / 'prompt.jinja').write_text(template)
    options = TuneOptions(steps=1, batch=1, rank=4, first_layer=0.0)
    tune(str(base), tmp_path, SAMPLES, SAMPLES[:2], options)
    assert (tmp_path / 'prompt.jinja').read_text() == template


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


def test_what_a_step_leaves_out_does_not_change_its_loss(base: Path, tmp_path: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=['q_proj']))
    rows = [
        {'input_ids': [5, 6, 7, 8, 9, 10], 'labels': [IGNORED, IGNORED, IGNORED, 8, IGNORED, 10]},
        {'input_ids': [5, 11, 12], 'labels': [IGNORED, 11, 12]},
        {'input_ids': [5, 6, 11, 12, 9], 'labels': [IGNORED] * 4 + [9]},
    ]
    trainer = _trainer(adapted, tmp_path, TuneOptions(), pad=0)
    for some, kept in ((rows, 4), (rows[:1], 4), (rows[1:2], 3), (rows[2:], 2)):
        batch = trainer.data_collator(some)
        assert batch['labels'].shape[1] == batch['logits_to_keep'] == kept
        with torch.inference_mode():
            found = adapted(**batch).loss
            logits = [adapted(torch.tensor([row['input_ids']])).logits[0, :-1] for row in some]
        labels = [label for row in some for label in row['labels'][1:]]
        right = torch.nn.functional.cross_entropy(
            torch.cat(logits), torch.tensor(labels), ignore_index=IGNORED
        )
        assert found.item() == pytest.approx(right.item(), abs=1e-5)


def test_an_adapter_of_another_base_is_refused(adapter: Path, tmp_path: Path) -> None:
    narrow = write_model(tmp_path / 'narrow', hidden_size=32)
    other = tmp_path / 'other'
    shutil.copytree(adapter, other)
    config = json.loads((other / 'adapter_config.json').read_text())
    config['base_model_name_or_path'] = str(narrow)
    (other / 'adapter_config.json').write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match=r'other.*size mismatch.*expected one of .*narrow'):
        load_model(str(other), max_kv_tokens=64)


def test_weights_without_a_place_and_places_without_weights_are_refused(
    adapter: Path, tmp_path: Path
) -> None:
    weights = load_file(adapter / 'adapter_model.safetensors')
    name = next(name for name in weights if '.layers.1.' in name)
    deeper = weights | {name.replace('.layers.1.', '.layers.2.'): weights[name].clone()}
    fewer = {key: value for key, value in weights.items() if key != name}
    for number, (given, reason) in enumerate(
        [
            (deeper, r'layers\.2\..*the base model has no such layer'),
            (fewer, r'layers\.1\..*it is missing'),
        ]
    ):
        folder = tmp_path / f'odd{number}'
        shutil.copytree(adapter, folder)
        save_file(given, folder / 'adapter_model.safetensors')
        with pytest.raises(ModelLoadError, match=rf'odd{number}.*{reason}'):
            load_model(str(folder), max_kv_tokens=64)


def test_a_pickle_under_the_name_of_safetensors_is_refused(adapter: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'disguised'
    shutil.copytree(adapter, folder)
    ran = tmp_path / 'ran'

    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return ran.touch, ()  # type: ignore[return-value]

    torch.save({'weights': Hostile()}, folder / 'adapter_model.safetensors')
    with pytest.raises(ModelLoadError, match='disguised'):
        load_model(str(folder), max_kv_tokens=64)
    assert not ran.exists()


async def test_adapters_of_skill_sets_are_not_used_and_the_log_says_so(
    adapter: Path, base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / 'several'
    shutil.copytree(base, folder)
    shutil.copytree(adapter, folder / 'adapters/arm')
    engine = TorchEngine(TorchConfig(model_path=str(folder)))
    with caplog.at_level(logging.WARNING):
        info = await engine.start(lambda _: None)
    await engine.close()
    assert f'model {folder}: its adapters for arm are not used' in caplog.text
    assert info.adapters == {}
