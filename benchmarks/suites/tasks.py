"""Whether right plans of others survive our way, and what serving their tasks costs.

``make bench-tasks``: each of the 342 right plans of VirtualHome and the 100 of BEHAVIOR that
``eai-eval`` ships is written in the plan language, in the tokens that the decoding grammar allows;
the planner cuts and checks it and sends it to a simulated robot, whose executor runs it in virtual
time; what the robot did is written as the suite's own answers are, and judged by the suite's
evaluator. Its verdict must be that on the suite's own plan. To see that the judge can tell, plans
without their last action are judged too. The same is done with the 130 goals of LIBERO, whose right
plans are ours.

Then the tasks of eai-eval are a fleet's load on the simulated engine: `least_loss` with `lookahead`
against other policies, each at the largest batch at which it does best.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.common import COUNT, FROM_ZERO, Target, arguments, save
from benchmarks.suites.load import OURS, best_of, serve, systems
from benchmarks.workloads import ROBOTS, compose_of_others, describe_plans, shape_of
from timely_llm_ros.engines.texts import load_texts
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.errors import PlanError
from timely_llm_ros.evaluation.suites import (
    SUITES,
    SuiteArchives,
    constrained_tokens,
    suite_folder,
    travel,
)
from timely_llm_ros.skills import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.timelyllm import Summary
    from benchmarks.workloads import Shape
    from timely_llm_ros.engines.texts import TokenTexts
    from timely_llm_ros.evaluation.suites import Suite, SuiteTask

EXPECTED = {'virtualhome': 342, 'behavior': 100, 'libero': 130}
OWN_PLANS = 'libero'
"""The suite whose right plans are ours: they are no load that somebody else thought of."""

DURATION_S, HARDWARE = 240.0, 'toy'
LOADS: tuple[float, ...] = (0.5, 1.0)
"""Tasks per second; from their execution alone the fleet has room for about three."""


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--suites', nargs='+', choices=SUITES, default=list(SUITES))
    parser.add_argument('--every', type=COUNT, default=1, help='only each so many-th task')
    parser.add_argument(
        '--seeds', type=FROM_ZERO, default=5, help='draws of each load; 0 for no load'
    )
    options = parser.parse_args(given)
    archives = SuiteArchives(suite_folder())
    texts = load_texts(find_model(''))
    rows, shapes = {}, []
    for name in options.suites:
        rows[name] = Row(SUITES[name](archives), texts, options.every)
        shapes += rows[name].shapes if name != OWN_PLANS else []
    _print_rows(rows)
    same = {name: row.counts['same verdict'] for name, row in rows.items()}
    theirs = [name for name in rows if name != OWN_PLANS]
    wanted = sum(EXPECTED[name] for name in theirs)
    targets = []
    if theirs:
        whole = sum(same[name] for name in theirs)
        targets.append(Target(f'right plans judged as before, of {wanted}', whole, '>=', wanted))
    if OWN_PLANS in rows:
        goals = EXPECTED[OWN_PLANS]
        targets.append(Target(f'goals of LIBERO reached, of {goals}', same[OWN_PLANS], '>=', goals))
    figures: dict[str, Any] = {
        'suites': {name: row.figures() for name, row in rows.items()},
        'plans': describe_plans(shapes),
        'loads': {},
    }
    for load in LOADS if options.seeds else ():
        found = _serve(shapes, load, options.seeds)
        figures['loads'][f'{load:g}'] = {name: asdict(summary) for name, summary in found.items()}
        best = _best(found)
        others = max(it.utility for name, it in best.items() if name != OURS)
        ahead = found[OURS].utility - others
        targets.append(
            Target(f'{load:g} tasks/s: mean utility ahead of the others', ahead, '>=', 0)
        )
    save('tasks', figures, targets, path=options.json)


class Row:
    """What became of one suite's right plans."""

    def __init__(self, suite: Suite, texts: TokenTexts, every: int) -> None:
        self.counts: Counter[str] = Counter()
        self.gold: Counter[str] = Counter()
        self.shapes: list[Shape] = []
        self.not_expressed: dict[str, str] = {}
        self.differ: list[str] = []
        self._suite, self._texts = suite, texts
        names = suite.names()[::every]
        console = Console(stderr=True)
        for name in track(names, suite.name, console=console):
            self._take(suite.task(name))

    def figures(self) -> dict[str, Any]:
        return {
            'counts': dict(self.counts),
            'gold': dict(self.gold),
            'not_expressed': self.not_expressed,
            'differ': self.differ,
            'plans': describe_plans(self.shapes),
        }

    def _take(self, task: SuiteTask) -> None:
        suite, counts = self._suite, self.counts
        counts['tasks'] += 1
        gold = suite.judge_gold(task.name)
        for word, holds in (
            ('refused', gold.refused),
            ('executable', gold.executable),
            ('success', gold.success),
        ):
            self.gold[word] += bool(holds)
        try:
            statements = parse(task.gold, suite.skill_set, task.scene)
        except PlanError as err:
            self.not_expressed[task.name] = f'{type(err).__name__}: {err}; {gold.refused}'
            return
        counts['expressed'] += 1
        tokens = constrained_tokens(self._texts, task, suite.skill_set)
        counts['grammar'] += tokens is not None
        ids = tokens or self._texts.encode(task.gold)
        journey = travel(task, suite.skill_set, [self._texts.decode([it]) for it in ids])
        counts['executed'] += journey.result.ending.succeeded
        counts['segments'] += journey.result.segments
        same = suite.judge(task.name, suite.answer(task.name, journey.calls)) == gold
        counts['same verdict'] += bool(same and tokens is not None)
        if not same:
            self.differ.append(task.name)
        cut = suite.judge(task.name, suite.answer(task.name, journey.calls[:-1]))
        counts['success without the last action'] += cut.success
        self.shapes.append(shape_of(suite, task, statements, self._texts, ids))


def _serve(shapes: Sequence[Shape], load: float, seeds: int) -> dict[str, Summary]:
    draws = [compose_of_others(shapes, load, ROBOTS, DURATION_S, seed) for seed in range(seeds)]
    title = f'{load:g} tasks/s'
    everyone = track(systems(), title, console=Console(stderr=True))
    found = {system.name: serve(system, draws, HARDWARE) for system in everyone}
    table = Table(title=f'{title}, {ROBOTS} robots, each at its best largest batch')
    for head in ('system', 'mean U', 'sd', 'U urgent', 'U normal', 'R urgent s', 'W s'):
        table.add_column(head, justify='left' if head == 'system' else 'right')
    for name, it in _best(found).items():
        urgent, normal = it.groups['urgent'], it.groups['normal']
        values = (it.utility, it.spread, urgent.utility, normal.utility, urgent.response_s)
        table.add_row(name, *(f'{value:.3f}' for value in (*values, it.waiting_s)))
    Console().print(table)
    return found


def _best(found: dict[str, Summary]) -> dict[str, Summary]:
    names = best_of({name: it.utility for name, it in found.items()})
    return {name: found[name] for name in names}


def _print_rows(rows: dict[str, Row]) -> None:
    table = Table(title='right plans of others')
    table.add_column('')
    for name in rows:
        table.add_column(name, justify='right')
    words = dict.fromkeys(word for row in rows.values() for word in row.counts)
    for word in words:
        table.add_row(word, *(str(row.counts[word]) for row in rows.values()))
    for word in dict.fromkeys(word for row in rows.values() for word in row.gold):
        table.add_row(f'gold: {word}', *(str(row.gold[word]) for row in rows.values()))
    Console().print(table)
    for name, row in rows.items():
        for task, why in row.not_expressed.items():
            print(f'{name} {task}: {why}')
        if row.differ:
            print(f'{name}: judged otherwise: {", ".join(row.differ)}')


if __name__ == '__main__':
    main()
