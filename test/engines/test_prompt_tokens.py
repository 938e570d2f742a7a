"""Tokens of prompts: special ones where the template has them, and nowhere else."""

from __future__ import annotations

import hashlib
import json
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.texts import ServerTexts
from timely_llm_ros.engines.tokens import PromptSize, find_model
from timely_llm_ros.prompts import Prompts, load_prompts
from timely_llm_ros.sample_tasks import KINDS, sample_task
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engines

ARM = find_skill_set('arm')
MARKS = ['<|im_start|>', '<|im_end|>', '<tool>']
CHAT = (
    '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}'
    '<|im_start|>assistant\n'
)


@pytest.fixture(scope='module')
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[ServerTexts, Prompts, PromptSize]:
    """A byte-level tokenizer with marks, two of them special, and its chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    folder: Path = tmp_path_factory.mktemp('model')
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: n for n, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in MARKS[:2]])
    tokenizer.add_tokens([AddedToken(MARKS[2], normalized=False, special=False)])
    tokenizer.save(str(folder / 'tokenizer.json'))
    end = tokenizer.token_to_id('<|im_end|>')
    config = {'eos_token_id': end, 'vocab_size': tokenizer.get_vocab_size()}
    (folder / 'config.json').write_text(json.dumps(config))
    (folder / 'tokenizer_config.json').write_text(json.dumps({'chat_template': CHAT}))
    info = EngineInfo('torch', str(folder), 0, 'float32', 0, 0, 0.0)
    return ServerTexts(str(folder)), load_prompts('auto', str(folder)), PromptSize(info)


@given(
    st.lists(
        st.sampled_from([*MARKS, '<|im_', 'end|>', '<', '|', 'im_start', '> ', ' ', 'ö', 'go']),
        min_size=1,
        max_size=12,
    )
)
def test_no_instruction_becomes_a_token_that_closes_a_role(
    model: tuple[ServerTexts, Prompts, PromptSize], parts: list[str]
) -> None:
    texts, prompts, size = model
    if not ''.join(parts).strip():
        return
    prompt = prompts.build(ARM, Scene(), ''.join(parts))
    ids = texts.body_ids(prompt, beginning=False)
    # Below these come the 256 bytes.
    assert [token - 256 for token in ids if token >= 256] == [1, 0]
    assert texts.decode(ids) == prompt.body
    assert size(prompt) == len(texts.fixed_ids(prompt)) + len(ids)


def test_the_embedded_models_prompts_have_the_tokens_that_it_was_trained_on() -> None:
    """Their digest was taken when there was no other form of prompt."""
    texts = ServerTexts('')
    prompts = load_prompts('auto', find_model(''))
    rng, total = random.Random(17), hashlib.sha256()
    tasks = [sample_task(rng, kind, size) for kind in KINDS for size in (5, 20, 80)]
    made = [prompts.build(find_skill_set(it.skill_set), it.scene, it.instruction) for it in tasks]
    made.append(prompts.build(find_skill_set('chatbot'), Scene(), 'why is the sky blue?'))
    for prompt in made:
        ids = [texts.fixed_ids(prompt), texts.body_ids(prompt, beginning=False)]
        total.update(prompt.text.encode() + json.dumps(ids).encode())
    expected = 'a061c9787b4fa955353c67a161daf7dfaac7eb59a7f71ecf71bfd511ce22da26'
    assert total.hexdigest() == expected
