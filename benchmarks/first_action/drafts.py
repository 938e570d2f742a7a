"""How many steps a plan takes with drafts from other plans of late, and without.

``make bench-drafts``: held-out tasks are planned as by ``make bench-first_action``, both ways with
fast-forward. In one of them the engine also computes tokens that other plans went on with lately.
Both ways have a copy of the model each, begin without a plan to guess from and serve the same tasks
in turns. Times are CPU time.

Other models are measured too where ``--models`` names their folders.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, Target, arguments, save
from benchmarks.first_action.first_action import (
    BATCHES,
    KV_TOKENS,
    PIECE,
    SHIPPED,
    Server,
    in_turns,
    shuffled,
)
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch.compute import load_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.evaluation.plans import Case

SAVED = 0.15
"""Share of the steps behind prompts that drafts are to save."""

HARMLESS = 0.98
"""Times as many plans per second as without that there are to be at any batch."""

COLUMNS = {
    'model': 18, 'objects': 9, 'batch': 7, 'plans': 7, 'steps/token': 13, 'with': 7, 'drafts': 8,
    'true': 7, 'plans/s': 9, 'with /s': 9, 'times': 7, '+-': 6, 'same ids': 10,
}  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--models', nargs='*', default=[], metavar='FOLDER')
    parser.add_argument('--objects', nargs='+', type=COUNT, default=[10, 50])
    parser.add_argument(
        '--tasks', type=COUNT, default=20, help='of each of the eleven kinds (%(default)s)'
    )
    parser.add_argument('--batches', nargs='+', type=COUNT, default=list(BATCHES))
    parser.add_argument('--device', default='cpu', help='where torch computes (%(default)s)')
    parser.add_argument('--threads', type=COUNT, default=1)
    options = parser.parse_args(given)
    rows: list[dict[str, Any]] = []
    print(''.join(f'{name:>{width}}' for name, width in COLUMNS.items()))
    for name in (SHIPPED, *options.models):
        path = find_model(name)
        kv_tokens = KV_TOKENS * max(options.batches)
        # A core counts only its own KV, and beginnings of prompts stay when it has ended.
        pool = kv_tokens * len(options.batches) * len(options.objects)
        copies = [
            load_model(path, max_kv_tokens=pool, device=options.device, threads=options.threads)
            for _ in '12'
        ]
        for objects in options.objects:
            cases = shuffled(objects, options.tasks)
            rows += [_measure(path, copies, cases, it, kv_tokens) for it in options.batches]
    targets = [Target('plans with equal token ids', min(it['same_ids'] for it in rows), '>=', 1.0)]
    for row in rows:
        place = f'{row["model"]}, {row["objects"]} objects, batch {row["batch"]}'
        saved = 1.0 - row['steps_per_token'][1] / row['steps_per_token'][0]
        if row['batch'] == 1:
            targets.append(Target(f'{place}: share of steps saved', saved, '>=', SAVED))
        targets.append(Target(f'{place}: times as many plans', row['gain'], '>=', HARMLESS))
    save('drafts', {'device': options.device, 'rows': rows}, targets, path=options.json)


def _measure(
    path: str, copies: Sequence[LoadedModel], cases: list[Case], batch: int, kv_tokens: int
) -> dict[str, Any]:
    """Have tasks planned both ways, and return what was found."""
    old, new = (
        Server(path, loaded, batch, kv_tokens, drafts=drafts)
        for loaded, drafts in zip(copies, (False, True), strict=True)
    )
    took_s, gain, error = in_turns(cases, old, new, PIECE)
    tokens = sum(written.tokens + 1 for written, _ in old.plans.values())
    row: dict[str, Any] = {
        'model': Path(path).name,
        'objects': cases[0].objects,
        'batch': batch,
        'plans': len(cases),
        'tokens': tokens,
        'steps': [old.steps, new.steps],
        'steps_per_token': [old.chosen / tokens, new.chosen / tokens],
        'drafts': new.drafter.drafts,
        'came_true': new.drafter.came_true,
        'plans_per_cpu_s': [len(cases) / it for it in took_s],
        'gain': gain,
        'gain_error': error,
        'first_cpu_s': [statistics.median(server.first_s) for server in (old, new)],
        'same_ids': statistics.fmean(old.plans[it.name] == new.plans[it.name] for it in cases),
    }
    before, after = row['steps_per_token']
    speeds = row['plans_per_cpu_s']
    print(
        f'{row["model"]:>18}{row["objects"]:9}{batch:7}{len(cases):7}{before:13.3f}{after:7.3f}'
        f'{row["drafts"]:8}{row["came_true"]:7}{speeds[0]:9.2f}{speeds[1]:9.2f}{gain:7.2f}'
        f'{error:6.2f}{row["same_ids"]:10.4f}',
        flush=True,
    )
    return row


if __name__ == '__main__':
    main()
