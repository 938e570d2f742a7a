"""The model in the repository: small, loadable, and it plans."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors import safe_open
from transformers import AutoTokenizer, LlamaForCausalLM

from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import build_prompt
from timely_llm_ros.training.model.evaluate import MODEL_LIMIT_BYTES, Examiner, held_out_tasks
from timely_llm_ros.training.model.export import model_card
from timely_llm_ros.training.model.network import NetworkShape
from timely_llm_ros.training.model.tokenizer import EOS_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[3] / 'models' / 'timely-planner'


@pytest.fixture(scope='module', autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_the_whole_folder_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= MODEL_LIMIT_BYTES


def test_it_says_how_it_came_about() -> None:
    training = json.loads((FOLDER / 'training.json').read_text())
    assert training['command'].endswith(f'--seed {training["seed"]}')
    assert training['steps'] > 0


def test_its_card_is_the_one_that_an_export_writes() -> None:
    config = json.loads((FOLDER / 'config.json').read_text())
    shape = NetworkShape(**{item.name: config[item.name] for item in fields(NetworkShape)})
    with safe_open(FOLDER / 'model.safetensors', 'pt') as file:
        names = list(file.keys())
        parameters = sum(math.prod(file.get_slice(name).get_shape()) for name in names)
    card = (FOLDER / 'README.md').read_text('utf-8')
    assert card == model_card('timely-planner', shape, parameters)


def test_the_tokenizer_fits_the_weights_and_the_skill_sets() -> None:
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    config = json.loads((FOLDER / 'config.json').read_text())
    assert len(tokenizer) == config['vocab_size']
    assert tokenizer.eos_token_id == config['eos_token_id'] == EOS_ID


def test_the_decoding_library_takes_the_tokenizer() -> None:
    hf = pytest.importorskip('llguidance.hf')
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    plan = 'takeoff;goto(cat_3);take_picture;land;'
    assert hf.from_tokenizer(tokenizer).tokenize_str(plan) == tokenizer.encode(plan)


def test_it_plans_most_held_out_tasks_exactly() -> None:
    examiner = Examiner(FOLDER)
    tasks = [task for kind in range(1, 12) for task in held_out_tasks(kind, 8, 4, 'held_out')]
    right = sum(outcome.wrong_at is None for outcome in examiner.examine(tasks))
    assert right / len(tasks) >= 0.9


def test_what_the_examiner_calls_right_is_what_greedy_decoding_writes() -> None:
    examiner = Examiner(FOLDER)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    model = LlamaForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    written = 0
    for kind in (1, 4, 6, 8, 9):
        for outcome in examiner.examine(held_out_tasks(kind, 5, 2, 'trained')):
            task = outcome.task
            prompt = build_prompt(find_skill_set(task.skill_set), task.scene, task.instruction)
            ids = torch.tensor([tokenizer.encode(prompt.text)])
            out = model.generate(ids, max_new_tokens=80, do_sample=False)[0, ids.shape[1] :]
            text = tokenizer.decode(out, skip_special_tokens=True)
            assert (text == task.plan) == (outcome.wrong_at is None)
            written += 1
    assert written == 10
