"""``timely-llm tune``: teaches a general model the plans of skill sets."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.cli.shared import add_fields, read_fields
from timely_llm_ros.command_line import EXIT_INTERRUPTED, require_range
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.training.tuning import (
    TuneOptions,
    drawn_samples,
    read_samples,
    require_packages,
    saved_step,
    tune,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from timely_llm_ros.skills import SkillSet
    from timely_llm_ros.training.tuning import PlanSample

_EXAMPLES = """\
examples:
  timely-llm tune --model models/smollm2 --skill-set tello arm --out models/smollm2-tuned
  timely-llm tune --model models/smollm2 --skill-set rover.yaml --data rover.jsonl --out rover
"""

HELD = 64
"""Samples that are looked at and not learned; a tenth of a file's where those are fewer."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Teach a model the plans of skill sets with a LoRA adapter, on drawn tasks or on '
        'samples of your own. A run that was broken off goes on from its last look at other '
        'samples; an adapter that is there already is tuned further.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('--model', required=True, help='folder of the model')
    parser.add_argument('--skill-set', required=True, nargs='+', help='names or paths')
    parser.add_argument('--out', type=Path, required=True, help='folder of the adapter')
    parser.add_argument('--data', help='samples, as JSON lines; default: tasks that are drawn')
    parser.add_argument('--samples', type=int, default=8000, help='tasks drawn (%(default)s)')
    parser.add_argument(
        '--evaluate',
        type=int,
        default=0,
        metavar='N',
        help='have the model write N plans of each kind and judge them, before and after',
    )
    add_fields(parser, TuneOptions)
    parser.set_defaults(run=_tune)


def _tune(options: argparse.Namespace) -> int:
    settings = read_fields(options, TuneOptions)
    require_range(options, 'samples', 2)
    require_range(options, 'evaluate', 0)
    require_packages()
    base = find_model(options.model)
    skill_sets = [find_skill_set(given) for given in options.skill_set]
    try:
        samples, held = _samples(options, skill_sets, settings.seed)
        if options.evaluate:
            _evaluate(base, skill_sets, options.evaluate, settings.threads)
        loss = tune(base, options.out, samples, held, settings, say=_say)
    except KeyboardInterrupt:
        done = saved_step(options.out)
        told = f'the same command goes on from step {done}' if done else 'nothing was saved yet'
        print(f'\n{options.out}: broken off, {told}', file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f'{options.out}: loss {loss:.4f} on {len(held)} samples that it did not learn')
    if options.evaluate:
        _evaluate(str(options.out), skill_sets, options.evaluate, settings.threads)
    return 0


_say = partial(print, flush=True)


def _samples(
    options: argparse.Namespace, skill_sets: Sequence[SkillSet], seed: int
) -> tuple[list[PlanSample], list[PlanSample]]:
    if options.data is None:
        _say(f'drawing {options.samples} tasks')
        held = drawn_samples(skill_sets, HELD, seed + 1)
        return drawn_samples(skill_sets, options.samples, seed), held
    if len(skill_sets) > 1:
        raise ConfigurationError(
            f'--skill-set {" ".join(options.skill_set)}: expected one skill set, that of --data'
        )
    try:
        lines = Path(options.data).read_text(encoding='utf-8').splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigurationError(f'samples {options.data!r}: {err}') from err
    every = read_samples(lines, options.data, skill_sets[0])
    count = max(1, min(HELD, len(every) // 10))
    return every[count:], every[:count]


def _evaluate(path: str, skill_sets: Sequence[SkillSet], count: int, threads: int) -> None:
    from timely_llm_ros.engines.torch.compute import load_model
    from timely_llm_ros.evaluation.plans import cells, draw_cases, judge, report, write_plans
    from timely_llm_ros.prompts import load_prompts

    names = {skill_set.name for skill_set in skill_sets}
    cases = [
        case for case in draw_cases([5, 10], count, 'held_out') if case.task.skill_set in names
    ]
    if not cases:
        return
    _say(f'writing {len(cases)} plans with {path}')
    loaded = load_model(path, max_kv_tokens=24576, threads=threads)
    written = write_plans(
        loaded, load_prompts('auto', path), cases, constrained=True, batch=8, max_tokens=256
    )
    shares = report(cells((case, plan, judge(case, plan)) for case, plan in written))['all']
    told = ', '.join(f'{word} {share:.3f}' for word, share in shares.items())
    print(f'{path}: {len(cases)} plans with the grammar: {told}', flush=True)
