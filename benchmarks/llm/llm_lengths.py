"""TRAIL on a general model's chat answers: how right its predictions are, and what they gain.

``make bench-llm_lengths``: SmolLM2-135M-Instruct (``make model-smollm2``) answers drawn questions,
from those that a word answers to those for a page, with drawn tokens. Answers are kept in
``.build/llm_lengths``, so a run that was broken off goes on. A probe learns from the states of some
of them how much is left; its refined predictions are compared with the best of many that read the
prompt alone, on answers that nothing was learned from or chosen by. Then many such chats are served
in virtual time: first come first served, shortest prompt-only prediction first, TRAIL, the oracle,
and a tail-aware policy without lengths.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import COUNT, Target, arguments, save
from benchmarks.llm.answer_lengths import (
    BY_PROMPT,
    REFINED,
    RUNS,
    Judged,
    Probes,
    forecasts_of,
    judge,
    learn_probes,
    split,
)
from benchmarks.llm.answer_replay import (
    AT,
    FCFS,
    ORACLE,
    PROMPT,
    SLOTS,
    TAILS,
    TRAIL,
    Replays,
    replay,
)
from benchmarks.llm.chat_answers import LAYERS, MOST_TOKENS, PRECISION, SAMPLING, chat_answers
from benchmarks.llm.chat_prompts import FORMS
from benchmarks.trail import PACE_S
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.prediction.lengths import ResponseLengthModel
from timely_llm_ros.training import RlpTraining, train_rlp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.training import LengthSample

PAPER = 2.66
"""How many times as far off the paper's prompt-only predictor was as its refined prediction."""

RLP = RlpTraining(size=16, longest=MOST_TOKENS)
"""Lengths in 32 buckets, as many as the shipped predictor has."""


def main(given: Sequence[str] | None = None) -> None:
    import torch

    torch.set_num_threads(1)
    parser = arguments(__doc__)
    parser.add_argument('--model', default='models/smollm2', metavar='FOLDER')
    parser.add_argument('--answers', type=COUNT, default=420, help='(default: %(default)s)')
    parser.add_argument('--chats', type=COUNT, default=800, help='per run (%(default)s)')
    parser.add_argument('--draws', type=COUNT, default=3, help='of them (%(default)s)')
    options = parser.parse_args(given)
    samples = chat_answers(options.model, options.answers)
    folder = Path(find_model(options.model))
    parts = split(samples)
    settings, weights = train_rlp(RLP, folder, parts.learned, parts.chosen)
    rlp = ResponseLengthModel(settings, weights, _no_text, {})
    probes = learn_probes(parts, forecasts_of(rlp, folder, parts.chosen))
    judged = judge(parts, probes, rlp, folder)
    show(judged)
    served = replay(judged.spoken, options.chats, options.draws)
    figures = {
        'model': folder.name,
        'precision': PRECISION,
        'temperature': SAMPLING.temperature,
        'top_p': SAMPLING.top_p,
        'most_tokens': MOST_TOKENS,
        'answers': about(samples),
        'learned': len(parts.learned),
        'chosen': len(parts.chosen),
        'judged': len(parts.judged),
        'probe': probe_figures(probes),
        'prediction': prediction_figures(judged),
        'replay': {
            'chats': options.chats,
            'draws': options.draws,
            'slots': SLOTS,
            'step_s': PACE_S,
            'at_load': AT,
            'gammas_per_s': {str(load): gamma for load, gamma in served.gammas_per_s.items()},
            'fcfs_over_trail_by_draw': served.gains,
            'runs': served.rows(),
        },
    }
    save('llm_lengths', figures, targets(samples, judged, served), path=options.json)


def _no_text(text: str) -> Sequence[int]:
    raise ValueError(f'text {text!r}: expected prompts that are shortened already')


def about(samples: Sequence[LengthSample]) -> dict[str, Any]:
    """Return how long answers are, of each form and all together."""

    def cell(some: Sequence[LengthSample]) -> dict[str, Any]:
        lengths = np.array([sample.length for sample in some])
        return {
            'answers': len(some),
            'censored': sum(sample.censored for sample in some),
            'mean_tokens': float(lengths.mean()),
            'tokens': {f'{q:g}': float(np.quantile(lengths, q)) for q in (0.1, 0.5, 0.9)},
            'variation': float(lengths.std() / lengths.mean()),
        }

    forms = {
        form: cell(some)
        for number, form in enumerate(FORMS)
        if (some := [sample for sample in samples if sample.kind == number])
    }
    return {'all': cell(samples), 'forms': forms}


def probe_figures(probes: Probes) -> dict[str, Any]:
    """Return what was chosen."""
    settings = probes.probe.settings
    return {
        'layer': LAYERS[probes.place],
        'layers': {str(layer): error for layer, error in probes.layers.items()},
        'sharpness': settings.sharpness,
        'divides': settings.divides,
        'prompt_weight': settings.prompt_weight,
    }


def prediction_figures(judged: Judged) -> dict[str, Any]:
    """Return how wrong everybody is, and how many times as wrong as the refined prediction."""
    ratios = {}
    for what, begin in (('prompt only', BY_PROMPT), ('prompt only, and that it runs', RUNS)):
        ratio, error = judged.ratio(judged.best(begin), REFINED)
        ratios[what] = {'best': judged.best(begin), 'ratio': ratio, 'standard_error': error}
    return {
        'answers': len(judged.tokens),
        'tokens': int(judged.tokens.sum()),
        'mean_error_tokens': judged.means,
        'ratios': ratios,
        'paper_ratio': PAPER,
    }


def show(judged: Judged) -> None:
    """Print how wrong everybody is."""
    print(f'{len(judged.tokens)} answers that judge; mean error of what is left (tokens)')
    for what, error in sorted(judged.means.items(), key=lambda it: -it[1]):
        print(f'  {what:60} {error:6.2f}', flush=True)


def targets(samples: Sequence[LengthSample], judged: Judged, served: Replays) -> list[Target]:
    """Return what was asked for."""
    cut = sum(sample.censored for sample in samples) / len(samples)
    prompt, runs = (judged.ratio(judged.best(it), REFINED)[0] for it in (BY_PROMPT, RUNS))
    at = f'load {AT:g}: '
    found = [
        Target('chat answers', len(samples), '>=', 400),
        Target('share of answers cut off', cut, '<=', 0.10),
        Target('best prompt-only error / refined error', prompt, '>=', 1.0),
        Target("that beside the paper's ratio", prompt, '>=', PAPER),
        Target('error of the best that knows the prompt and that it runs / refined', runs,
               '>=', 1.0),
    ]  # fmt: skip
    for other in (FCFS, PROMPT, TAILS):
        found += [
            Target(f'{at}{what}, {other} / trail', served.over(other, TRAIL, name), '>=', 1.0)
            for what, name in (
                ('mean latency', 'mean_s'),
                ('p99 latency', 'p99_s'),
                ('mean time to the first token', 'first_mean_s'),
                ('p99 time to the first token', 'first_p99_s'),
            )
        ]
    worst, ours, best = (served.runs[it, AT].mean_s for it in (FCFS, TRAIL, ORACLE))
    gain = (worst - ours) / (worst - best)
    return [*found, Target(f"{at}share of the oracle's gain in mean latency", gain, '>=', 0.9)]


if __name__ == '__main__':
    main()
