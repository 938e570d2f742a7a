"""Measures how often the planner model writes exactly the right plan.

All scenes are held-out ones; held-out and trained wordings are reported apart. Greedy decoding
without a grammar writes the right plan exactly if the most probable token is the right one at every
place, which one pass per task shows. Observations, which the runtime writes, are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault('HF_HUB_OFFLINE', '1')
os.environ.setdefault('TOKENIZERS_PARALLELISM', 'false')

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from timely_llm_ros.sample_tasks import KINDS, Wordings, sample_task
from timely_llm_ros.skills import build_prompt
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.training.model.tokenizer import EOS_ID, PAD_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.sample_tasks import TaskSample

SIZES = (5, 10, 20, 40, 100, 200)
"""Objects per scene."""

WORDINGS: tuple[Wordings, ...] = ('held_out', 'trained')
"""In this order in tables."""

TARGET = 0.95
TARGET_UP_TO = 20
"""The target: that share of plans exactly right in scenes of up to so many objects."""

EVALUATION_SEED = 770_001
MODEL_LIMIT_BYTES = 8_000_000
_BATCH_TOKENS = 6000
EXAMPLES = """examples:
  python -m timely_llm_ros.training.model.evaluate
  python -m timely_llm_ros.training.model.evaluate --tasks 20 --sizes 5 10 20
  python -m timely_llm_ros.training.model.evaluate --failures 5  # shows plans that came out wrong
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One task's result.

    Attributes:
        task: The task.
        wrong_at: The first place in the plan's tokens at which the model differs, or None.
        wrong_token: What the model says there.
    """

    task: TaskSample
    wrong_at: int | None
    wrong_token: str


class Examiner:
    """Asks the model of a folder for plans."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / 'tokenizer.json'))
        self._model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._skill_sets = {
            name: find_skill_set(name) for name in {kind.skill_set for kind in KINDS.values()}
        }

    def examine(self, tasks: Sequence[TaskSample]) -> list[Outcome]:
        """Return the outcome of each task; tasks of about one length share a pass."""
        outcomes: list[Outcome] = []
        rows = [self._encode(task) for task in tasks]
        start = 0
        while start < len(tasks):
            width = max(len(prompt) + len(plan) for prompt, plan in rows[start : start + 16])
            end = start + max(1, min(16, _BATCH_TOKENS // width))
            outcomes += self._examine_batch(tasks[start:end], rows[start:end])
            start = end
        return outcomes

    def _encode(self, task: TaskSample) -> tuple[list[int], list[int]]:
        text = build_prompt(self._skill_sets[task.skill_set], task.scene, task.instruction).text
        encode = self._tokenizer.encode
        return encode(text).ids, [*encode(task.plan).ids, EOS_ID]

    @torch.inference_mode()
    def _examine_batch(
        self, tasks: Sequence[TaskSample], rows: Sequence[tuple[list[int], list[int]]]
    ) -> list[Outcome]:
        sequences = [[*prompt, *plan[:-1]] for prompt, plan in rows]
        width = max(map(len, sequences))
        # Padding is at the end, where no token of the row can see it.
        ids = torch.tensor([row + [PAD_ID] * (width - len(row)) for row in sequences])
        hidden = self._model.model(ids, use_cache=False).last_hidden_state
        outcomes = []
        for task, (prompt, plan), states in zip(tasks, rows, hidden, strict=True):
            first = len(prompt) - 1
            said = self._model.lm_head(states[first : first + len(plan)]).argmax(dim=-1).tolist()
            wrong = [
                place
                for place, (got, right) in enumerate(zip(said, plan, strict=True))
                if got != right and not self._is_observation(right)
            ]
            at = wrong[0] if wrong else None
            outcomes.append(Outcome(task, at, '' if at is None else self._token(said[at])))
        return outcomes

    def _token(self, token_id: int) -> str:
        return self._tokenizer.decode([token_id], skip_special_tokens=False)

    def _is_observation(self, token_id: int) -> bool:
        return self._token(token_id).startswith('#')


def held_out_tasks(kind: int, n_objects: int, count: int, wordings: Wordings) -> list[TaskSample]:
    """Return that many tasks in held-out scenes; the same ones at every call."""
    rng = random.Random(f'{EVALUATION_SEED} {kind} {n_objects} {wordings}')
    return [
        sample_task(rng, kind, n_objects, wordings=wordings, scenes='held_out')
        for _ in range(count)
    ]


def build_parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    parser = argparse.ArgumentParser(
        prog='python -m timely_llm_ros.training.model.evaluate',
        description='Measure the planner model on held-out scenes and wordings.',
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--model', type=Path, default=Path('models/timely-planner'), metavar='FOLDER'
    )
    parser.add_argument(
        '--tasks', type=int, default=100, help='per kind, size and wordings (default 100)'
    )
    parser.add_argument(
        '--sizes', type=int, nargs='+', default=list(SIZES), help='objects per scene'
    )
    parser.add_argument(
        '--out', type=Path, default=Path('benchmarks/results/model.json'), metavar='FILE'
    )
    parser.add_argument('--failures', type=int, default=0, help='wrong plans to show per kind')
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Evaluate, print the tables, write the JSON; returns 0 where every target is met."""
    options = build_parser().parse_args(arguments)
    if not (options.model / 'config.json').is_file():
        print(f'{options.model}: expected a model folder; "make model" makes one', file=sys.stderr)
        return 2
    if options.tasks < 1 or min(options.sizes) < 4:
        print('expected at least 1 task and sizes of at least 4 objects', file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    examiner = Examiner(options.model)
    console = Console(stderr=True)
    right: dict[tuple[str, int, int], float] = {}
    failures: dict[int, list[Outcome]] = defaultdict(list)
    runs: list[tuple[Wordings, int, int]] = [
        (wordings, size, kind) for size in options.sizes for wordings in WORDINGS for kind in KINDS
    ]
    for wordings, size, kind in track(runs, 'evaluating', console=console):
        outcomes = examiner.examine(held_out_tasks(kind, size, options.tasks, wordings))
        wrong = [outcome for outcome in outcomes if outcome.wrong_at is not None]
        failures[kind] += wrong
        right[wordings, size, kind] = 1 - len(wrong) / len(outcomes)
    for kind in KINDS if options.failures else ():
        for outcome in failures[kind][: options.failures]:
            task = outcome.task
            print(
                f'{kind} {len(task.scene.objects)} {task.instruction!r}\n   {task.plan}\n'
                f'   wrong at token {outcome.wrong_at}: {outcome.wrong_token!r}'
            )
    report = summary(right, options.sizes, options.tasks)
    weights = options.model / 'model.safetensors'
    report['model_bytes'] = weights.stat().st_size
    report['targets'].append(
        _target('model.safetensors, bytes (at most)', weights.stat().st_size, MODEL_LIMIT_BYTES)
    )
    for wordings in WORDINGS:
        print_table(Console(), right, options.sizes, wordings)
    for target in report['targets']:
        print(f'{"ok  " if target["ok"] else "MISS"} {target["name"]}: {target["value"]}')
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + '\n', encoding='utf-8')
    return 0 if all(target['ok'] for target in report['targets']) else 1


def mean_over_kinds(
    right: dict[tuple[str, int, int], float], sizes: Sequence[int], wordings: str
) -> float:
    """Return the share of right plans, every kind and size weighing the same."""
    shares = [right[wordings, size, kind] for size in sizes for kind in KINDS]
    return sum(shares) / len(shares)


def summary(
    right: dict[tuple[str, int, int], float], sizes: Sequence[int], tasks: int
) -> dict[str, Any]:
    """Return the content of the result file."""
    small = [size for size in sizes if size <= TARGET_UP_TO]
    targets = [
        _target(
            f'exact plans, held-out scenes, {name} wordings, '
            f'up to {TARGET_UP_TO} objects (at least)',
            round(mean_over_kinds(right, small, wordings), 4),
            TARGET,
        )
        for wordings, name in (('held_out', 'held-out'), ('trained', 'trained'))
        if small
    ]
    return {
        'benchmark': 'model',
        'date': datetime.now(UTC).date().isoformat(),
        'machine': f'{os.cpu_count()} cores, {platform.machine()}, {platform.system()}',
        'tasks_per_cell': tasks,
        'curve': {
            wordings: {
                str(size): round(mean_over_kinds(right, [size], wordings), 4) for size in sizes
            }
            for wordings in WORDINGS
        },
        'by_kind': {
            f'{kind} {spec.name}': {
                wordings: {str(size): round(right[wordings, size, kind], 4) for size in sizes}
                for wordings in WORDINGS
            }
            for kind, spec in KINDS.items()
        },
        'targets': targets,
    }


def _target(name: str, value: float, target: float) -> dict[str, Any]:
    ok = value <= target if 'at most' in name else value >= target
    return {'name': name, 'value': value, 'target': target, 'ok': ok}


def print_table(
    console: Console,
    right: dict[tuple[str, int, int], float],
    sizes: Sequence[int],
    wordings: str,
) -> None:
    """Print the share of exactly right plans by kind and size."""
    table = Table(title=f'exactly right plans, held-out scenes, {wordings} wordings')
    table.add_column('kind')
    for size in sizes:
        table.add_column(f'{size}', justify='right')
    for kind, spec in KINDS.items():
        cells = [f'{right[wordings, size, kind]:.3f}' for size in sizes]
        table.add_row(f'{kind} {spec.name}', *cells)
    means = [f'{mean_over_kinds(right, [size], wordings):.3f}' for size in sizes]
    table.add_row('all', *means, style='bold')
    console.print(table)


if __name__ == '__main__':
    raise SystemExit(main())
