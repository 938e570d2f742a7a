"""How good models plan the tasks of others, judged by the suites' own evaluators.

``make bench-tasks_models``: each model writes plans for tasks that are evenly spread over a suite,
with the grammar and without; what is valid of them is executed on a simulated robot and judged.
``timely-llm evaluate --suite`` does it for one model. ``make model-smollm2`` makes the general one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.common import COUNT, arguments, save
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch.compute import load_model
from timely_llm_ros.evaluation.plans import write_plans
from timely_llm_ros.evaluation.suites import (
    SUITES,
    SuiteArchives,
    mean_score,
    score,
    suite_cases,
    suite_folder,
)
from timely_llm_ros.prompts import load_prompts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.evaluation.suites import Suite
    from timely_llm_ros.prompts import Prompts

KV_TOKENS = 32_768


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        '--models', nargs='+', default=['timely-planner', 'models/smollm2'], metavar='FOLDER'
    )
    parser.add_argument('--tasks', type=COUNT, default=20, help='of each suite (%(default)s)')
    parser.add_argument('--max-tokens', type=COUNT, default=256)
    parser.add_argument('--batch', type=COUNT, default=8)
    options = parser.parse_args(given)
    archives = SuiteArchives(suite_folder())
    suites: list[Suite] = [kind(archives) for kind in SUITES.values()]
    figures: dict[str, Any] = {}
    for model in options.models:
        path = find_model(model)
        loaded, prompts = load_model(path, max_kv_tokens=KV_TOKENS), load_prompts('auto', path)
        for suite in suites:
            prompts.prepare(suite.skill_set)
            for grammar in ('on', 'off'):
                name = f'{Path(path).name}, {suite.name}, grammar {grammar}'
                asked = (options.tasks, options.batch, options.max_tokens)
                figures[name] = _measure(loaded, prompts, suite, name, asked)
    _print(figures)
    save('tasks_models', {'tasks': options.tasks, 'models': figures}, [], path=options.json)


def _measure(
    loaded: LoadedModel, prompts: Prompts, suite: Suite, name: str, asked: tuple[int, int, int]
) -> dict[str, Any]:
    count, batch, max_tokens = asked
    cases = suite_cases(suite, count)
    written = write_plans(
        loaded,
        prompts,
        cases,
        constrained=name.endswith('on'),
        batch=batch,
        max_tokens=max_tokens,
    )
    scored, tokens = [], 0
    for case, plan in track(written, name, len(cases), console=Console(stderr=True)):
        scored.append(score(suite, case, plan)[0])
        tokens += plan.tokens
    return {'mean_tokens': round(tokens / len(cases), 1), **mean_score(scored)}


def _print(figures: dict[str, Any]) -> None:
    table = Table(title='plans for tasks of others, shares')
    table.add_column('')
    words = list(next(iter(figures.values())))
    for word in words:
        table.add_column(word, justify='right')
    for name, found in figures.items():
        table.add_row(name, *(f'{found[word]:.3f}' for word in words))
    Console().print(table)


if __name__ == '__main__':
    main()
