"""vLLM with our scheduler beside vLLM without, on the embedded model.

    make bench-vllm [ARGS='--quick | --only a d']

a  overhead of segments, in all and per boundary; a resume to the next token against a plain step,
   by our scheduler's choice and by a message to an engine that sleeps
b  contention of 16 and 64 robots with mixed time utilities, a closed loop in which they ask for
   0.8 and for 1.2 of what stock vLLM serves at most: stock first come first served, stock with
   priorities, stock streaming, segments made outside of vLLM, and ours, each at its best largest
   batch; stock and ours write within the same grammar
c  8 to 512 suspended generations, with room for their KV and without
d  what choosing costs per step

Every round has every way, in turns. All takes about 28 minutes (a 7, b 17, c 4), ``--quick`` about
six (a 1.5, b 3, c 1.5). What a part found is written when it ends; figures of parts that are not
run again stay in the file.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import sys
import time
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.table import Table

# A script's folder comes first on the path: nothing in it may be named as a package it uses.
from benchmarks.common import (
    COUNT,
    FOLDER,
    FROM_ZERO,
    POSITIVE,
    Number,
    Target,
    arguments,
    command,
    machine,
    save,
)
from benchmarks.vllm.contention import contention, settings, ways_of
from benchmarks.vllm.overhead import overhead
from benchmarks.vllm.plots import draw
from benchmarks.vllm.suspended import suspended
from lrtrace.statistics import percentile
from timely_llm_ros.engines import GenerationRequest
from timely_llm_ros.engines.core import CoreOptions
from timely_llm_ros.engines.vllm.plugin import UNCUT_TEXT, FreezeCore, New, Work
from timely_llm_ros.skills import Prompt, Scene
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from timely_llm_ros.engines.texts import TokenTexts

PICTURE = Path(__file__).resolve().parents[2] / 'docs' / 'images' / 'vllm_contention.png'


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def ordering(counts: tuple[int, ...] = (8, 64, 512, 4096)) -> dict[str, Any]:
    """Time the choice of the next step's generations, with so many in the table."""

    class Texts:
        end_ids = frozenset({1})

        def bytes_of(self, _token: int) -> bytes:
            return b'x'

    found = {}
    for count in counts:
        core = FreezeCore(
            cast('TokenTexts', Texts()), append=lambda _name, _ids: None, kv_tokens=lambda: 0,
            options=CoreOptions(max_running=4, policy='least_loss'),
        )  # fmt: skip
        for number in range(count):
            request = GenerationRequest(
                f'{number}', Prompt('', ''), UNCUT_TEXT, Scene(), NORMAL, number / count
            )
            core.add(request, 10)
        choices, steps = [], []
        for number in range(300):
            now_s = 1.0 + number / 1000
            start_s = time.perf_counter()
            chosen = core.choose(now_s)
            middle_s = time.perf_counter()
            step = core.begin_step([Work(name, 1, 10 + number) for name in chosen], now_s)
            core.finish_step(step, [New(name, [2]) for name in chosen], now_s + 0.003)
            end_s = time.perf_counter()
            choices.append(middle_s - start_s)
            steps.append(end_s - start_s)
        found[f'{count}'] = {
            'choose_p50_us': 1e6 * statistics.median(choices),
            'choose_p99_us': 1e6 * percentile(choices, 0.99),
            'step_p50_us': 1e6 * statistics.median(steps),
        }
    return found


def targets(figures: dict[str, Any]) -> list[Target]:
    """Return what the figures should be."""
    found: list[Target] = []
    if 'a' in figures:
        for at_once in ('1 at once', '4 at once'):
            part = figures['a'][at_once]
            found += [
                Target(f'{at_once}: overhead of segments (%)', 100 * part['overhead'], '<=', 2.5),
                Target(f'{at_once}: per boundary (ms)', part['per_boundary_ms'], '<=', 0.4),
            ]
        resume = figures['a']['resume']
        for way, what in (
            ('chosen', 'chosen to its next token'),
            ('asked', 'asked for, from idle'),
        ):
            if f'{way}_p50_ms' in resume:
                ratio = resume[f'{way}_p50_ms'] / resume[f'{way}_step_p50_ms']
                found.append(Target(f'resume {what}, over a plain step, p50', ratio, '<=', 1.3))
    part = figures.get('b', {'runs': []})
    for robots, load in settings(part):
        if load > 1:  # Below, everybody is in time and nobody has anything to gain.
            name = f'{robots} robots, load {load:g}'
            found += _contention_targets(ways_of(part, robots, load), name)
    for name, part in figures.get('c', {}).items():
        found.append(Target(f'{name} suspended: wrong texts', part['wrong'], '<=', 0))
    return found


def _contention_targets(ways: dict[str, dict[str, Any]], name: str) -> list[Target]:
    ours, stock, ranked = ways['ours'], ways['stock fcfs'], ways['stock priority']
    others = [run for way, run in ways.items() if way != 'ours']
    gains = []
    for figure, what in (('utility', 'mean utility'), ('utility_per_s', 'utility per second')):
        best = max(others, key=itemgetter(figure))
        error = math.hypot(ours[f'{figure}_error'], best[f'{figure}_error'])
        ahead = ours[figure] - best[figure]
        gains.append(Target(f'{name}: {what} ahead of {best["way"]} by', ahead, '>=', error))
    urgent = ours['urgent_p99_ms']
    rate = ours['plans_per_s'] / stock['plans_per_s']
    return [
        Target(f'{name}: urgent p99 over stock fcfs', urgent / stock['urgent_p99_ms'], '<=', 0.25),
        Target(
            f'{name}: urgent p99 over stock priority', urgent / ranked['urgent_p99_ms'], '<=', 0.5
        ),
        *gains,
        Target(f'{name}: plans per second over stock fcfs', rate, '>=', 1.2),
    ]


def show(figures: dict[str, Any]) -> None:
    """Print what was measured."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    part = figures.get('b', {'runs': []})
    for robots, load in settings(part):
        table = Table(title=f'{robots} robots, load {load:g} of {part["most_plans_per_s"]:.1f}/s')
        heads = (
            'way', 'batch', 'mean U', 'plans/s', 'U/s', 'urgent p50/p99', 'urgent',
            'normal p50/p99',
        )  # fmt: skip
        for head in heads:
            table.add_column(head, justify='left' if head == 'way' else 'right')
        for way, run in ways_of(part, robots, load).items():
            table.add_row(
                way,
                str(run['batch']),
                f'{run["utility"]:.3f} ({run["utility_error"]:.3f})',
                f'{run["plans_per_s"]:.1f} ({run["plans_per_s_error"]:.1f})',
                f'{run["utility_per_s"]:.1f} ({run["utility_per_s_error"]:.1f})',
                f'{run["urgent_p50_ms"]:.0f} / {run["urgent_p99_ms"]:.0f} '
                f'({run["urgent_p99_error_ms"]:.0f}) ms',
                f'{run["urgent_tasks"]}',
                f'{run["normal_p50_ms"]:.0f} / {run["normal_p99_ms"]:.0f} ms',
            )
        console.print(table)
    for name in ('a', 'c', 'd'):
        if name in figures:
            console.print(name, figures[name])


def main() -> None:
    parser = arguments(__doc__)
    parts = ('a', 'b', 'c', 'd')
    parser.add_argument('--only', nargs='+', choices=parts, default=parts)
    parser.add_argument('--quick', action='store_true', help='fewer starts, rounds and counts')
    parser.add_argument(
        '--rounds', type=FROM_ZERO, default=0, help='default: 5 of a, 3 of b; quick 3, 1'
    )
    parser.add_argument('--starts', type=FROM_ZERO, default=0, help='of a; default: 3, quick 1')
    parser.add_argument('--robots', type=COUNT, nargs='+', default=[16, 64])
    parser.add_argument('--batches', type=COUNT, nargs='+', default=[4, 16])
    parser.add_argument('--loads', type=POSITIVE, nargs='+', default=[0.8, 1.2], help='of b')
    parser.add_argument(
        '--seconds', type=Number(0, whole=False), default=0.0, help='of a run of b; default: 7'
    )
    parser.add_argument(
        '--search-s', type=POSITIVE, default=6.0, help='of a run for the best batch; default: 6'
    )
    parser.add_argument('--suspended', type=COUNT, nargs='+', help='default: 8 32 128 512')
    options = parser.parse_args()
    quick = options.quick
    path = Path(options.json) if options.json else FOLDER / 'vllm.json'
    figures: dict[str, Any] = json.loads(path.read_text())['figures'] if path.is_file() else {}

    def keep(part: str, found: Any) -> None:
        figures[part] = found
        figures.setdefault('made', {})[part] = {
            'command': command(),
            'date': time.strftime('%Y-%m-%d', time.gmtime()),
            'machine': machine(),
        }
        if part == 'b' and not options.json:
            draw({place: ways_of(found, *place) for place in settings(found)}, PICTURE)
        save('vllm', figures, targets(figures), path=path)

    if 'd' in options.only:
        keep('d', ordering())
    if 'a' in options.only:
        rounds = options.rounds or (3 if quick else 5)
        keep('a', asyncio.run(overhead(options.starts or (1 if quick else 3), rounds, say)))
    if 'b' in options.only:
        rounds = options.rounds or (1 if quick else 3)
        seconds = options.seconds or (3.0 if quick else 7.0)
        batches, loads = options.batches, options.loads
        found = asyncio.run(
            contention(options.robots, batches, loads, seconds, options.search_s, rounds, say)
        )
        keep('b', found)
    if 'c' in options.only:
        counts = options.suspended or ([8, 128] if quick else [8, 32, 128, 512])
        keep('c', asyncio.run(suspended(counts, say)))
    show(figures)


if __name__ == '__main__':
    main()
