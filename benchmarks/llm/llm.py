"""How good the plans are that general language models write, beside the shipped model's.

``make bench-llm``: each model writes plans for held-out scenes and wordings of eleven kinds of
task, with the grammar and without, by its own prompts; ``timely-llm evaluate`` does it for one.
``make model-smollm2`` makes the general model.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track

from benchmarks.common import COUNT, Target, arguments, save
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch.compute import load_model
from timely_llm_ros.evaluation.plans import cells, draw_cases, judge, report, write_plans
from timely_llm_ros.prompts import load_prompts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

SIZES: tuple[int, ...] = (5, 10)
TUNED = 'smollm2-tuned'
MODELS = ['models/smollm2', f'models/{TUNED}']
SHIPPED = 'timely-planner'
SHIPPED_SIZES: tuple[int, ...] = (5, 10, 20)
SHIPPED_TASKS = 24
"""The tasks of its card, which asks for the next token of the right plan and lets nothing write."""

SHIPPED_EXACT = 0.968
"""Share of these plans that are exact by its card."""

VALID = 0.99
WANTED = [
    (TUNED, 'off', 'valid', 0.9),
    (TUNED, 'on', 'first', 0.9),
    (TUNED, 'on', 'exact', 0.6),
    (SHIPPED, 'off', 'exact', SHIPPED_EXACT),
]
"""Least share of a model's plans that are so."""
MOST_TOKENS = 200
KV_TOKENS = 3072
"""For each plan at once."""


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--models', nargs='+', default=MODELS, metavar='FOLDER')
    parser.add_argument('--tasks', type=COUNT, default=5, help='per kind and size (%(default)s)')
    parser.add_argument('--shipped-tasks', type=COUNT, default=SHIPPED_TASKS)
    parser.add_argument('--batch', type=COUNT, default=8)
    parser.add_argument('--device', default='cpu', help='where torch computes (%(default)s)')
    parser.add_argument('--threads', type=COUNT, default=1)
    options = parser.parse_args(given)
    figures: dict[str, Any] = {}
    # What was measured is kept at once: a general model takes hours where its plans are many.
    for name in (*options.models, SHIPPED):
        shipped = name == SHIPPED
        tasks = options.shipped_tasks if shipped else options.tasks
        sizes = SHIPPED_SIZES if shipped else SIZES
        for found in _measure(options, name, sizes, tasks):
            figures[Path(name).name] = found
            save('llm', {'models': figures}, _targets(figures), path=options.json)


def _targets(figures: dict[str, Any]) -> list[Target]:
    targets = [
        Target(f'{name}: complete and valid with grammar', found['on']['all']['valid'], '>=', VALID)
        for name, found in figures.items()
        if 'on' in found
    ]
    for name, grammar, word, least in WANTED:
        if grammar in (found := figures.get(name, {})):
            told = f'{name}: {word} {"with" if grammar == "on" else "without"} grammar'
            targets.append(Target(told, found[grammar]['all'][word], '>=', least))
    return targets


def _measure(
    options: argparse.Namespace, name: str, sizes: Sequence[int], tasks: int
) -> Iterator[dict[str, Any]]:
    path = find_model(name)
    prompts = load_prompts('auto', path)
    loaded = load_model(
        path,
        max_kv_tokens=KV_TOKENS * options.batch,
        device=options.device,
        threads=options.threads,
    )
    found: dict[str, Any] = {'parameters': loaded.info.parameters}
    for grammar in ('off', 'on'):
        cases = draw_cases(sizes, tasks, 'held_out')
        written = write_plans(
            loaded,
            prompts,
            cases,
            constrained=grammar == 'on',
            batch=options.batch,
            max_tokens=MOST_TOKENS,
        )
        title = f'{Path(path).name}, grammar {grammar}'
        judged = [
            (case, plan, judge(case, plan))
            for case, plan in track(written, title, len(cases), console=Console(stderr=True))
        ]
        found[grammar] = report(cells(judged))
        print(title, found[grammar]['all'])
        yield found


if __name__ == '__main__':
    main()
