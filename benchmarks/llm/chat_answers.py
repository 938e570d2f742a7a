"""Answers of a general language model to drawn questions, with its hidden states; kept on disk.

Answers are generated in lots, each of which is a file, so that a run that was broken off goes on
where it was. A file's name is a digest of all that an answer depends on.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from benchmarks.llm.chat_prompts import FORMS, draw_questions
from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.engines.tokens import Sampling, find_model
from timely_llm_ros.engines.torch.compute import load_model
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.training import generate_samples, read_samples, write_samples
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from timely_llm_ros.training import LengthSample

LAYERS = tuple(range(3, 31, 3))
"""Those whose states are kept, every third of 30: neighbours tell nearly the same, and all layers
would take 36 kB per token. The states of all tokens are kept, for a prediction at each."""

MOST_TOKENS = 512
"""Where an answer is cut off."""

SAMPLING = Sampling(temperature=0.7, top_p=0.9, seed=0)
"""Among all tokens so small a model loses its thread: at a temperature of 0.8 23 of 210 answers
found no end within 1024 tokens, at 1 a quarter none within 768."""

SEED = 5
"""Of the questions."""

LOT = 210
RUNNING = 64
KV_TOKENS = RUNNING * (MOST_TOKENS + 128)

PRECISION = 'bfloat16'
"""Of the model, which half the time is worth here: its own weights are halves."""

KEPT = Path(__file__).resolve().parents[2] / '.build' / 'llm_lengths'


def chat_requests(model: str, count: int) -> list[GenerationRequest]:
    """Return the requests; an id is ``<place>:<number of the form, from 0>``."""
    prompts, chatbot = load_prompts('auto', model), find_skill_set('chatbot')
    numbers = {form: number for number, form in enumerate(FORMS)}
    return [
        GenerationRequest(
            f'{place}:{numbers[form]}',
            prompts.build(chatbot, Scene(), text),
            chatbot,
            Scene(),
            NORMAL,
            0.0,
            max_tokens=MOST_TOKENS,
        )
        for place, (form, text) in enumerate(draw_questions(count, SEED))
    ]


def chat_answers(model: str, count: int) -> list[LengthSample]:
    """Return so many answers of a model, in the order of the questions; states as ``LAYERS``.

    What is on disk is read. Answers that were cut off are there too.
    """
    path = find_model(model)
    requests = chat_requests(path, count)
    samples: list[LengthSample] = []
    for start in range(0, count, LOT):
        lot = requests[start : start + LOT]
        file = KEPT / f'{_digest(model, lot)}.npz'
        if not file.is_file():
            KEPT.mkdir(parents=True, exist_ok=True)
            # Never half a file under that name.
            unfinished = file.with_suffix('.part.npz')
            write_samples(_generate(path, lot, f'Answers from {start} on'), unfinished)
            unfinished.replace(file)
        samples += read_samples(file)
    return samples


def _generate(path: str, lot: list[GenerationRequest], title: str) -> list[LengthSample]:
    loaded = load_model(path, max_kv_tokens=KV_TOKENS, dtype=PRECISION)
    # Those for a page first, so that at the end few steps are for few answers.
    begun = iter(sorted(lot, key=_form, reverse=True))
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=len(lot))
        found = generate_samples(
            loaded,
            begun,
            layers=LAYERS,
            sampling=SAMPLING,
            advance=lambda: progress.advance(task),
            censored=True,
            most_running=RUNNING,
        )
    return [found[request.generation_id] for request in lot]


def _form(request: GenerationRequest) -> int:
    return int(request.generation_id.partition(':')[2])


def _digest(model: str, lot: list[GenerationRequest]) -> str:
    told = [(it.generation_id, it.prompt, it.max_tokens) for it in lot]
    text = repr((Path(model).name, LAYERS, SAMPLING, PRECISION, told))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
