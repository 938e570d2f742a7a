"""``timely-llm evaluate``: has a model write plans for held-out tasks and judges them."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.command_line import require_range
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.plans import cells, draw_cases, judge, report, write_plans
from timely_llm_ros.evaluation.suites import (
    SUITES,
    SuiteArchives,
    mean_score,
    score,
    suite_cases,
    suite_folder,
)
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.sample_tasks import ALSO_OF, KINDS

if TYPE_CHECKING:
    import argparse

    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.evaluation.plans import Case, Written
    from timely_llm_ros.evaluation.suites import Scored, Suite
    from timely_llm_ros.prompts import Prompts

_EXAMPLES = """\
examples:
  timely-llm evaluate
  timely-llm evaluate --skill-set rover --grammar on
  timely-llm evaluate --model models/smollm2 --tasks 5 --sizes 5 10 --output smollm2.json
  timely-llm evaluate --model models/smollm2 --grammar on --plans plans.jsonl
  timely-llm evaluate --suite virtualhome --tasks 20
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Have a model write plans for held-out scenes and wordings of eleven kinds of task, and '
        'count how many are complete, valid and right. Right are a first statement, a whole plan '
        '(exact), and what a plan brings about in a world of symbols (success). With --suite, for '
        'tasks of others, which their own evaluator judges.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('--model', default='', help='folder of the model; default: the shipped one')
    parser.add_argument('--template', default='auto', help='as for timely-llm prompt')
    parser.add_argument(
        '--skill-set',
        choices=('', *sorted({kind.skill_set for kind in KINDS.values()} | {*ALSO_OF})),
        default='',
        help='tasks of one skill set alone; default: tello and arm',
    )
    parser.add_argument(
        '--suite', choices=tuple(SUITES), help='tasks of VirtualHome or BEHAVIOR in place of ours'
    )
    parser.add_argument(
        '--suite-files',
        default='',
        metavar='FOLDER',
        help='of its archives; default: make setup-dev',
    )
    parser.add_argument(
        '--tasks', type=int, default=10, help='per kind and size, or of a suite (%(default)s)'
    )
    parser.add_argument(
        '--sizes', type=int, nargs='+', default=[5, 10], help='objects per scene (5 10)'
    )
    parser.add_argument(
        '--wordings', choices=('held_out', 'trained'), default='held_out', help='(%(default)s)'
    )
    parser.add_argument(
        '--grammar', choices=('on', 'off', 'both'), default='both', help='(%(default)s)'
    )
    parser.add_argument('--batch', type=int, default=8, help='plans at a time (%(default)s)')
    parser.add_argument('--max-tokens', type=int, default=256, help='of a plan (%(default)s)')
    parser.add_argument('--max-kv-tokens', type=int, default=32768, help='(%(default)s)')
    parser.add_argument('--threads', type=int, default=1, help='(%(default)s)')
    parser.add_argument('--output', type=Path, help='write the figures to this file, as JSON')
    parser.add_argument('--plans', type=Path, help='write every plan to this file, as JSON lines')
    parser.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace) -> int:
    from timely_llm_ros.engines.torch.compute import load_model

    for name in ('tasks', 'batch', 'max_tokens', 'max_kv_tokens', 'threads'):
        require_range(options, name, 1)
    if min(options.sizes) < 4:
        raise ConfigurationError(f'sizes {options.sizes}: expected at least 4 objects')
    path = find_model(options.model)
    # A template that is wrong is refused before the model is loaded, which takes its time.
    prompts = load_prompts(options.template, path)
    suite = _find_suite(options)
    for case in draw_cases([4], 1, 'trained', options.skill_set) if suite is None else ():
        prompts.prepare(case.skill_set)
    if suite is not None:
        prompts.prepare(suite.skill_set)
    loaded = load_model(path, max_kv_tokens=options.max_kv_tokens, threads=options.threads)
    if options.plans is not None:
        options.plans.write_text('', encoding='utf-8')
    figures = {
        grammar: _measure(options, loaded, prompts, suite, constrained=grammar == 'on')
        for grammar in (('on', 'off') if options.grammar == 'both' else (options.grammar,))
    }
    _print(path, figures)
    if options.output is not None:
        about = {
            'model': Path(path).name,
            'parameters': loaded.info.parameters,
            'template': options.template,
            'skill_set': options.skill_set,
            'suite': options.suite,
            'wordings': options.wordings,
            'tasks_per_cell': options.tasks,
            'max_tokens': options.max_tokens,
            'date': datetime.now(UTC).date().isoformat(),
            'machine': f'{os.cpu_count()} cores, {platform.machine()}, {platform.system()}',
        }
        text = json.dumps({**about, 'grammar': figures}, indent=2)
        options.output.write_text(text + '\n', encoding='utf-8')
    return 0


def _find_suite(options: argparse.Namespace) -> Suite | None:
    if options.suite is None:
        return None
    if options.skill_set:
        raise ConfigurationError('--skill-set: a suite has its own: expected one of the two')
    return SUITES[options.suite](SuiteArchives(suite_folder(options.suite_files)))


def _measure(
    options: argparse.Namespace,
    loaded: LoadedModel,
    prompts: Prompts,
    suite: Suite | None,
    *,
    constrained: bool,
) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import track

    if suite is None:
        cases = draw_cases(options.sizes, options.tasks, options.wordings, options.skill_set)
    else:
        cases = suite_cases(suite, options.tasks)
    written = write_plans(
        loaded,
        prompts,
        cases,
        constrained=constrained,
        batch=options.batch,
        max_tokens=options.max_tokens,
    )
    started_s = time.monotonic()
    judged = []
    scored: list[Scored] = []
    tokens: list[int] = []
    title = f'grammar {"on" if constrained else "off"}'
    for case, plan in track(written, title, len(cases), console=Console(stderr=True)):
        tokens.append(plan.tokens)
        if suite is None:
            judged.append((case, plan, judge(case, plan)))
            line = _line(case, plan, constrained=constrained) | {'success': judged[-1][2].success}
        else:
            worth, verdict = score(suite, case, plan)
            scored.append(worth)
            line = _line(case, plan, constrained=constrained) | {'verdict': asdict(verdict)}
        if options.plans is not None:
            with options.plans.open('a', encoding='utf-8') as file:
                file.write(json.dumps(line) + '\n')
    wall = {'wall_s': round(time.monotonic() - started_s, 1)}
    if suite is None:
        return report(cells(judged)) | wall
    mean_tokens = round(sum(tokens) / len(tokens), 1)
    return {'plans': len(cases), 'mean_tokens': mean_tokens, 'all': mean_score(scored)} | wall


def _line(case: Case, plan: Written, *, constrained: bool) -> dict[str, Any]:
    return {
        'id': case.name,
        'grammar': constrained,
        'instruction': case.task.instruction,
        'right': case.task.plan,
        'plan': plan.text,
        'reason': plan.reason,
        'error': plan.error,
        'tokens': plan.tokens,
    }


def _print(path: str, figures: dict[str, dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    for grammar, found in figures.items():
        counts = f'{found["plans"]} plans, {found["mean_tokens"]} tokens each'
        title = f'{Path(path).name}, grammar {grammar}: {counts}'
        table = Table(box=box.SIMPLE_HEAD, title=title, title_justify='left')
        table.add_column('tasks')
        for word in found['all']:
            table.add_column(word, justify='right')
        rows = {**found.get('by_kind', {}), 'all': found['all']}
        sizes = found.get('by_objects', {})
        rows |= {f'{size} objects': shares for size, shares in sizes.items()}
        for name, shares in rows.items():
            values = [f'{share:.3f}' for share in shares.values()]
            table.add_row(name, *values, style='bold' if name == 'all' else None)
        Console().print(table)
