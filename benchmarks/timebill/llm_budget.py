"""TimeBill on a general model with long prompts: budgets against fixed shares.

``make bench-llm_budget``: SmolLM2-135M-Instruct (``make model-smollm2``) answers questions on
reports of 1,000 to 2,000 tokens on one thread, each with every share of a grid evicted; what an
approach chooses is looked up, at every budget. What is expected of an answer's length is learned
from answers to other reports. Kill and Skip-Next are those of ``make bench-timebill``; an answer's
score is the F1 of its words against the right one's.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from benchmarks.common import COUNT, FROM_ZERO, Number, Target, arguments, save
from benchmarks.timebill.approaches import Approach, Overrun, TimeBill, fixed, oracle
from benchmarks.timebill.checks import coverage
from benchmarks.timebill.documents import draw_questions, word_f1
from benchmarks.timebill.estimates import Estimates, factors, profile, time_sizes
from benchmarks.timebill.figures import table
from benchmarks.timebill.jobs import Job, Server
from benchmarks.timebill.record import progress, record
from benchmarks.timebill.timebill import budgets_of, errors_of, fares
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.engines.torch.compute import find_method, load_model
from timely_llm_ros.prediction.lengths import LengthDistribution
from timely_llm_ros.prediction.times import ProfilePlan
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.timebill.documents import Question
    from benchmarks.timebill.figures import Rows
    from timely_llm_ros.prompts import Prompts

GRID = (0.0, 0.25, 0.5, 0.75, 0.95)
PROMPTS, CONTEXTS = (128, 256, 512, 800, 1100, 1400, 1750, 2100), (512, 1280, 2048)
"""Sizes by which times are learned (tokens). Of prompts more than a fit has coefficients, and small
ones too: half of what is held out has half of its prompt cached."""

KV_TOKENS, MAX_TOKENS = 16_384, 160
BUCKET = 8
"""Lengths (tokens) that count as one."""

ERROR_PCT = 5.0
"""Largest error of times on sizes that were not learned from that is wanted (%)."""


class LengthsByForm:
    """What is expected of an answer: how long others to questions of its form were."""

    def __init__(self, forms: dict[str, str]) -> None:
        self._forms = forms
        self._seen: dict[str, list[int]] = defaultdict(list)

    def observe(self, body: str, tokens: int) -> None:
        """Take the length of an answer into account."""
        self._seen[self._forms[body]].append(tokens)

    def predict(self, fixed: str, body: str) -> LengthDistribution:  # noqa: ARG002 -- a predictor's
        """Return how likely each length is; what was never seen is as likely as half an answer."""
        counts = [0.5] * -(-MAX_TOKENS // BUCKET)
        for tokens in self._seen[self._forms[body]]:
            counts[min(len(counts), -(-tokens // BUCKET)) - 1] += len(counts)
        return LengthDistribution(tuple(it / sum(counts) for it in counts), BUCKET)


def make_jobs(prompts: Prompts, questions: Sequence[Question]) -> list[Job]:
    """Return what is to be answered."""
    chatbot = find_skill_set('chatbot')
    return [
        Job(
            number,
            prompts.build(chatbot, Scene(), question.text),
            chatbot,
            Scene(),
            question.answer,
            word_f1,
        )
        for number, question in enumerate(questions)
    ]


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--model', default='models/smollm2', metavar='FOLDER')
    parser.add_argument('--jobs', type=COUNT, default=21, help='(default: %(default)s)')
    parser.add_argument('--learned', type=COUNT, default=15, help='answers before (%(default)s)')
    parser.add_argument('--visits', type=COUNT, default=1, help='timings of each (%(default)s)')
    parser.add_argument(
        '--repeats',
        type=Number(3),
        default=3,
        help='of the profile, each time (%(default)s)',
    )
    parser.add_argument('--seed', type=FROM_ZERO, default=1)
    options = parser.parse_args(given)
    path, chunk = find_model(options.model), TorchConfig().chunk
    loaded, prompts = load_model(path, max_kv_tokens=KV_TOKENS), load_prompts('auto', path)
    plan = ProfilePlan(PROMPTS, CONTEXTS, (1,), options.repeats, step_visits=2)
    before = time_sizes(loaded, plan, chunk)
    server = Server(loaded, find_method('snapkv'), max_tokens=MAX_TOKENS, chunk=chunk)
    questions = draw_questions(options.jobs, options.seed)
    others = draw_questions(options.learned, options.seed + 1000)
    jobs, learned = make_jobs(prompts, questions), make_jobs(prompts, others)
    forms = {
        job.prompt.body: question.form
        for job, question in zip((*jobs, *learned), (*questions, *others), strict=True)
    }
    lengths = LengthsByForm(forms)
    for job in progress(learned, 'answers that lengths are learned from'):
        lengths.observe(job.prompt.body, server.serve(job, None).length)
    rng = random.Random(options.seed)
    recorded, evicting_token_s = record(server, jobs, GRID, rng, lengths, times=options.visits)
    after = time_sizes(loaded, plan, chunk)
    profiled, estimator = profile(loaded, (before, after), options.repeats, chunk)
    estimates = Estimates.of(profiled)
    budgets_s = budgets_of(recorded)
    approaches: dict[str, Approach] = {
        'vanilla': fixed(0),
        **{f'fixed {share:g}': fixed(place) for place, share in enumerate(GRID) if share},
        'as printed, 95 %': TimeBill(GRID, estimates, decides='most'),
        'TimeBill': TimeBill(GRID, estimates),
        'oracle': oracle,
    }
    rows: Rows = {
        name: [fares(approach, recorded, budget_s, GRID) for budget_s in budgets_s]
        for name, approach in approaches.items()
    }
    table(rows, budgets_s)
    tokens = [it.prompt_tokens for it in recorded]
    figures: dict[str, Any] = {
        'model': Path(path).name,
        'jobs': len(recorded),
        'learned': options.learned,
        'visits': options.visits,
        'seed': options.seed,
        'prompt_tokens': [min(tokens), statistics.median(tokens), max(tokens)],
        'answer_tokens': statistics.fmean(it.tried[0].length for it in recorded),
        'prompt_sizes': PROMPTS,
        'estimator': estimator,
        'factors': factors(estimates, recorded, GRID),
        'evicting_ms': 1e3 * evicting_token_s * statistics.median(tokens),
        'budgets_s': budgets_s,
        'approaches': rows,
        'ahead_of_the_best_fixed_share': errors_of(rows, approaches, recorded, budgets_s, GRID),
        'f1_by_share': {
            f'{share:g}': statistics.fmean(it.tried[place].f1 for it in recorded)
            for place, share in enumerate(GRID)
        },
        'coverage': coverage(TimeBill(GRID, estimates), recorded, GRID),
    }
    save('llm_budget', figures, targets(figures), path=options.json)


def targets(figures: dict[str, Any]) -> list[Target]:
    """Return what should be true."""
    estimator, ahead = figures['estimator'], figures['ahead_of_the_best_fixed_share']
    found = [
        Target(f'{what} MAPE on held-out sizes (%)', estimator[f'{what}_held_out_mape_pct'],
               '<=', ERROR_PCT)
        for what in ('prefill', 'step')
    ]  # fmt: skip
    for overrun in get_args(Overrun):
        gains = [it['ahead'] for it in ahead[overrun]]
        name = f'{overrun}: TimeBill score less that of the best fixed share'
        found.append(Target(f'{name}, mean of the budgets', statistics.fmean(gains), '>=', 0))
        found.append(Target(f'{name}, worst budget', min(gains), '>=', 0))
    return found


if __name__ == '__main__':
    main()
