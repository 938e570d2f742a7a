from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from timely_llm_ros.engines import Cancel, Resume, Submit, Suspend

pytest.importorskip('torch')

from support.engines.tiny_model import byte_tokenizer, write_model
from support.engines.torch_runs import Run, alone, free_request, plan_request

from timely_llm_ros.engines.texts.text_stream import TextStream
from timely_llm_ros.engines.torch.compute.fused import FAMILIES
from timely_llm_ros.engines.torch.compute.kv import KvPool, SlotList
from timely_llm_ros.engines.torch.compute.model import load_model
from timely_llm_ros.engines.torch.compute.sampling import choose
from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.skills.grammar.grammar import decoding_grammar

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines


@pytest.mark.parametrize('family', ['qwen2', 'qwen3', 'mistral', 'phi', 'phi3'])
def test_families(tmp_path: Path, family: str) -> None:
    import torch
    import transformers

    folder = write_model(tmp_path / family, family)
    loaded = load_model(str(folder), max_kv_tokens=512)
    assert (loaded.fused is not None) is (family in FAMILIES)
    request = free_request(3, max_tokens=12)
    got = alone(loaded, request, free=True)
    prompt = request.prompt
    ids = loaded.texts.encode(prompt.fixed) + loaded.texts.encode(prompt.body)
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder)
    out = reference.generate(
        torch.tensor([ids]), max_new_tokens=12, do_sample=False, pad_token_id=0
    )
    assert got == tuple(token for token in out[0, len(ids) :].tolist() if token != 256)


def test_attention_that_is_not_standard_is_refused(tmp_path: Path) -> None:
    import torch
    import transformers

    config = transformers.Gemma2Config(
        vocab_size=257, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, eos_token_id=256,
        attn_logit_softcapping=0.5, initializer_range=0.3,
    )  # fmt: skip
    folder = write_model(tmp_path / 'model')
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    with pytest.raises(ModelLoadError, match=r'Gemma2.*expected standard attention'):
        load_model(str(folder), max_kv_tokens=512)


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / 'model')
    content = json.loads((folder / 'tokenizer.json').read_text())
    content['model']['vocab'] |= {f'extra{n}': 300 + n for n in range(9)}
    (folder / 'tokenizer.json').write_text(json.dumps(content))
    with pytest.raises(ModelLoadError, match=r'tokenizer of \d+ tokens: expected at most 257'):
        load_model(str(folder), max_kv_tokens=512)


def test_the_fixed_part_is_computed_once(chaotic_model: Path) -> None:
    loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
    run = Run(loaded, options={'fast_forward': False})
    requests = [plan_request(number, max_tokens=5) for number in range(6)]
    for request in requests[:4]:
        run.core.apply(Submit(request))
    run.finish()
    for request in requests[4:]:
        run.core.apply(Submit(request))
    run.finish()
    assert run.backend.computed_prefixes == 1
    bodies = sum(len(request.prompt.body) for request in requests)
    generated = sum(len(ended.token_ids) for ended in run.ended.values())
    observed = run.backend.computed_tokens - len(requests[0].prompt.fixed) - bodies - generated
    # The last token of each is never computed; observations are part of the context.
    assert -len(requests) <= observed
    assert run.core.kv.used == len(requests[0].prompt.fixed)


def test_resuming_computes_nothing_again(chaotic_model: Path) -> None:
    run = Run(load_model(str(chaotic_model), max_kv_tokens=4096), free=True)
    request = free_request(1, max_tokens=20)
    run.core.apply(Submit(request))
    for _ in range(6):
        run.step()
    computed = run.backend.computed_tokens
    run.core.apply(Suspend('g1'))
    assert not run.step()
    run.core.apply(Resume('g1'))
    run.step()
    assert run.backend.computed_tokens == computed + 1


def test_forced_tokens_are_emitted(chaotic_model: Path) -> None:
    from dataclasses import replace

    loaded = load_model(str(chaotic_model), max_kv_tokens=4096)
    forced = tuple(loaded.texts.encode('takeoff;land;'))
    run = Run(loaded)
    run.core.apply(Submit(replace(plan_request(1), forced_token_ids=forced)))
    run.finish()
    assert run.ended['g1'].token_ids == forced
    assert run.ended['g1'].reason == 'stop'
    assert [e.segment.text for e in run.segments['g1']] == ['takeoff;', 'land;']


def test_a_prefix_that_was_never_computed_is_forgotten(chaotic_model: Path) -> None:
    run = Run(load_model(str(chaotic_model), max_kv_tokens=4096), free=True)
    for number in range(2):
        run.core.apply(Submit(free_request(number)))
        run.core.apply(Cancel(f'g{number}'))
    assert not run.backend._prefixes
    assert not run.backend._sequences


def test_a_model_cannot_begin_an_observation(tmp_path: Path) -> None:
    folder = write_model(tmp_path / 'model', vocabulary=258)
    (folder / 'tokenizer.json').write_text(json.dumps(byte_tokenizer((';', '#'))))
    texts = load_model(str(folder), max_kv_tokens=64).texts
    assert texts.bytes_of(257) == b';#'
    request = plan_request(1)
    grammar = decoding_grammar(request.skill_set, request.scene)
    state = texts.matcher(request, grammar, whole_plan=False, room=4096)
    state.take(list(f'is_visible({request.scene.names[0]})'.encode()))
    allowed = np.flatnonzero(np.unpackbits(state.allowed.view(np.uint8), bitorder='little'))
    assert allowed.tolist() == [ord(';')]
    assert state.only == ord(';')
    state.take(b';')
    assert not state.allowed.any()
    state.take(b'#true ')


def test_a_prompt_that_does_not_fit_is_refused(chaotic_model: Path) -> None:
    run = Run(load_model(str(chaotic_model), max_kv_tokens=64))
    run.core.apply(Submit(plan_request(1)))
    run.finish()
    assert run.ended['g1'].reason == 'error'
    assert 'expected fewer than 64' in run.ended['g1'].error


def test_the_text_of_a_special_token_is_only_text(chaotic_model: Path) -> None:
    texts = load_model(str(chaotic_model), max_kv_tokens=64).texts
    assert texts.encode('a<eos>', beginning=True) == list(b'a<eos>')


def test_pool_hands_every_slot_out_once() -> None:
    import torch

    pool = KvPool(10, torch.device('cpu'))
    a, b = pool.allocate(4), pool.allocate(6)
    assert sorted([*a, *b]) == list(range(10))
    with pytest.raises(RuntimeError, match='1 KV slots: expected at most 0'):
        pool.allocate(1)
    pool.free(a)
    assert pool.used == 6
    assert sorted(pool.allocate(4)) == sorted(a)


def test_slot_list_grows_and_is_cut() -> None:
    slots = SlotList()
    slots.extend(np.arange(50))
    slots.extend(np.arange(50, 200))
    assert slots.array.tolist() == list(range(200))
    assert slots.cut(20).tolist() == list(range(20, 200))
    assert len(slots) == 20


def test_choose_respects_masks() -> None:
    logits = np.array([[1.0, 5.0, 3.0], [1.0, 5.0, 3.0], [1.0, 5.0, 3.0]], np.float32)
    masks = np.array([[-1], [0b101], [0]], np.int32)
    assert choose(logits, masks).tolist() == [1, 2, -1]


def test_characters_are_held_back_until_complete() -> None:
    stream = TextStream()
    data = 'a€b'.encode()
    assert [stream.push(data[i : i + 1]) for i in range(len(data))] == ['a', '', '', '€', 'b']
