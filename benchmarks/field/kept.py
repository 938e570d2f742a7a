"""Whose KV is kept where it is short, on virtual time: ours against LRU and a time to live.

    .venv/bin/python -m benchmarks.field.kept [--seeds 20] [--searched 2] [--bursts 15]
        [--json FILE]

The engine is the simulated one with the step times of an RTX 4090 and Llama 3 8B, and has room for
a fraction of the KV that its robots' plans would hold. Scenes have 5 to 90 objects; every segment
but the last ends with a look at something whose value the plan waits for, so KV is held while a
robot executes, whose actions take their expected time give or take a fifth. The workloads are
TimelyLLM's; everything but the choice of whose KV to drop is the node's default.

* ``ours``: latest return first, nobody without need, and a lost prompt is a prompt when it is
  chosen again. In idle time lost KV is computed again before its robot is back.
* ``not restored``: the same, but for that.
* ``by the host``: the same as ours, but what is lost is copied to the host's memory, and back in
  place of being computed again. Copies take 5 us a token each way, within steps.
* ``nobody spared``: the same, dropped in this order until there is room.
* ``for free``: the same as ours, but admission takes a lost prompt for a row, as it once did.
* ``lru``: who was generated for longest ago goes first. Neither this nor the next knows of returns,
  so they compute nothing again before.
* ``ttl``: after Continuum (Li et al., arXiv 2511.02230). Read: KV is pinned for a time to live when
  a call begins, and may be dropped once that has passed; programs are served first come first
  served. Filled in: those whose time has passed go first, least recently used first; where none
  has, the program that came last loses its KV, so that nothing blocks. Continuum weighs
  recomputation and queueing to set the time for each tool; here it is the best of 1, 2, 4 and 8 s,
  searched on other draws.
* ``room for all``: what it would be if KV were not short.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from benchmarks.common import Target, arguments, save, standard_error
from benchmarks.field import OURS
from benchmarks.field.field import (
    FIRST_SEARCHED_SEED,
    Cell,
    Setting,
    figures_of,
    read_draws,
)
from benchmarks.overload import Shape, serve
from benchmarks.workloads import WORKLOADS
from lrtrace.statistics import percentile
from timely_llm_ros.engines import Resume
from timely_llm_ros.engines.core import Generation, Generations
from timely_llm_ros.engines.core.lanes import LostKv
from timely_llm_ros.scheduling import Phase
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.skills.loading import parse_skill_set

if TYPE_CHECKING:
    from timely_llm_ros.engines import Command
    from timely_llm_ros.evaluation import WorkloadTask

HARDWARE = 'rtx4090_llama3_8b'
CELLS = (('wid2', 1.0, 3000), ('wid2', 2.0, 4000), ('wid3', 1.0, 6000), ('wid3', 2.0, 8000))
"""Workload, load, and the tokens of KV that there is room for."""

TTLS_S = (1.0, 2.0, 4.0, 8.0)

LOOKING = parse_skill_set(
    """
name: looking
description: a robot whose actions take about as long as the plan says
safe_action: halt
skills:
  act:
    description: act for that long
    arguments: {duration: {kind: int, unit: ms, minimum: 0, maximum: 1000000}}
    duration: {model: linear, base_s: 0.0, per: {duration: 1.0}, variation: 0.2}
  look:
    description: look for that long
    arguments: {duration: {kind: int, unit: ms, minimum: 0, maximum: 1000000}}
    blocking: true
    returns: bool
    duration: {model: linear, base_s: 0.0, per: {duration: 1.0}, variation: 0.2}
  halt:
    description: stop
    duration: {model: constant, seconds: 0.0}
""",
    'benchmarks.field.kept',
)
"""The skill set of the robots."""


def plan(task: WorkloadTask) -> list[str]:
    """Return a plan of the task's shape that waits for what each segment but the last sees."""
    pieces: list[str] = []
    for number, shape in enumerate(task.segments, 1):
        skill = 'act' if number == len(task.segments) else 'look'
        pieces += [''] * (shape.tokens - 1)
        pieces.append(f'{skill}({round(shape.execution_s * 1000)});')
    return pieces


def scene(number: int) -> Scene:
    """Draw what the robot of a task knows."""
    count = random.Random(f'scene {number}').randint(5, 90)
    return Scene(
        tuple(
            SceneObject(f'cup_{place}', 'cup', 'red', 'on', 'table', x_m=1.0, y_m=0.5)
            for place in range(1, count + 1)
        )
    )


SHAPE = Shape(LOOKING, plan, scene)

Harm = Callable[['Uses', Generation], float]
"""Sort key of whose KV goes first."""


class Uses:
    """When each generation was last generated for, on the loop's clock (s)."""

    def __init__(self) -> None:
        self._at_s: dict[str, float] = {}

    def note(self, served: Sequence[Generation]) -> None:
        """Note that these were in a step."""
        now_s = asyncio.get_running_loop().time()
        self._at_s |= dict.fromkeys((one.generation_id for one in served), now_s)

    def idle_s(self, generation: Generation) -> float:
        """Return for how long a generation was in no step (s)."""
        now_s = asyncio.get_running_loop().time()
        return now_s - self._at_s.get(generation.generation_id, -1e9)


def least_recently_used(uses: Uses, generation: Generation) -> float:
    """Rank by how long ago it was used."""
    return -uses.idle_s(generation)


def time_to_live(ttl_s: float) -> Harm:
    """Rank those first whose time has passed."""

    def harm(uses: Uses, generation: Generation) -> float:
        idle_s = uses.idle_s(generation)
        return -idle_s - 1e9 if idle_s > ttl_s else -generation.request.arrival_s

    return harm


@dataclass(frozen=True, slots=True)
class Choice:
    """How it is chosen whose KV goes.

    Attributes:
        name: What tables call it.
        harm: Who goes first; None for ours.
        spares: Whether nobody loses KV without need, where it is ours.
        counts: Whether a lost prompt counts as one.
        restores: Whether lost KV is computed again before its robot is back.
        host_tokens: Room for lost KV in the host's memory (tokens).
    """

    name: str
    harm: Harm | None = None
    spares: bool = True
    counts: bool = True
    restores: bool = True
    host_tokens: int = 0


HOSTED = Choice('by the host', host_tokens=100_000)
"""With 13 GB in the host's memory."""

RETURNS = Choice(OURS)
CHOICES = (
    RETURNS,
    HOSTED,
    Choice('not restored', restores=False),
    Choice('nobody spared', spares=False),
    Choice('for free', counts=False),
    Choice('lru', least_recently_used, restores=False),
)


@dataclass(frozen=True, slots=True)
class Served:
    """What became of one draw.

    Attributes:
        utility: Mean utility of all tasks; 0 for what was not served.
        later_s: Mean time that robots waited after their first action, of those served (s).
        urgent_s: Responses of the urgent ones, of all where none is urgent (s).
        drops: How often a plan lost its KV, per task.
        prompts: Share of the values after which a plan's KV had to be computed again.
    """

    utility: float
    later_s: float
    urgent_s: tuple[float, ...]
    drops: float
    prompts: float


def serve_draw(cell: Cell, seed: int, room: int | None, choice: Choice) -> Served:
    """Serve one draw with room for so many tokens; None for what the hardware has."""
    workload, uses, lost, resumed = cell.draw(seed), Uses(), list[str](), list[bool]()
    way = Setting(max_running=8).way('least_loss')
    system = replace(way.system, max_kv_tokens=room, host_kv_tokens=choice.host_tokens)
    way = replace(way, system=system)
    with ExitStack() as patches:
        for name, method in _patches(choice, uses, lost, resumed):
            patches.enter_context(patch.object(Generations, name, method))
        if not choice.restores:
            patches.enter_context(patch.object(LostKv, 'first', None))
        outcomes = serve(workload, way, hardware=HARDWARE, shape=SHAPE)
    shown = 'urgent' if 'urgent' in workload.groups else 'normal'
    done = [one.result for one in outcomes if one.result is not None and not one.code]
    return Served(
        statistics.fmean(one.utility for one in outcomes),
        statistics.fmean(one.waiting_s - (one.response_s or 0.0) for one in done),
        tuple(
            one.response_s
            for one in outcomes
            if one.task.group == shown and not one.code and one.response_s is not None
        ),
        len(lost) / len(outcomes),
        statistics.fmean(resumed),
    )


def _patches(
    choice: Choice, uses: Uses, lost: list[str], resumed: list[bool]
) -> list[tuple[str, Any]]:
    """Return the methods that make an engine choose so and tell what was lost."""
    count, drop_order = Generations.count, Generations.drop_order
    lose_kv, set_phase, apply = Generations.lose_kv, Generations.set_phase, Generations.apply

    def counting(self: Generations, served: Sequence[Generation]) -> None:
        uses.note(served)
        count(self, served)

    def losing(self: Generations, generation_id: str) -> None:
        generation = self.get(generation_id)
        # What is written ahead of a value is none of them, nor what was computed again.
        lost.extend([generation_id] * (generation is not None and not generation.context.spare))
        lose_kv(self, generation_id)

    def applying(self: Generations, command: Command) -> None:
        one = self.get(command.generation_id) if isinstance(command, Resume) else None
        if one is not None and one.awaits_value:
            resumed.append(one.lacks_kv and (one.context.spare or not one.context.computed))
        apply(self, command)

    def ordering(self: Generations, some: Sequence[Generation], missing: int) -> list[Generation]:
        if choice.harm is None:
            return drop_order(self, some, missing if choice.spares else 0)
        harm = choice.harm
        return sorted(some, key=lambda one: harm(uses, one))

    def moving(self: Generations, generation: Generation, phase: Phase) -> None:
        amid = phase is Phase.QUEUED and generation.segments and not choice.counts
        set_phase(self, generation, Phase.SUSPENDED if amid else phase)

    return [
        ('count', counting),
        ('lose_kv', losing),
        ('drop_order', ordering),
        ('set_phase', moving),
        ('apply', applying),
    ]


@dataclass(frozen=True, slots=True)
class Row:
    """How a choice fared in one cell, mean over draws; differences are from ours, draw by draw.

    Attributes:
        workload: The workload.
        load: Its load.
        room: Tokens of KV that there was room for; None for room for all.
        choice: The choice.
        utility: Mean utility.
        later_s: Mean wait after the first action (s).
        urgent_p99_s: 99 % of the urgent ones' responses, of all where none is urgent (s).
        drops: Drops of KV per task.
        prompts: Share of the values after which a plan's KV had to be computed again.
        behind: By how much the mean utility is behind ours.
        behind_error: Standard error of that.
        longer_s: By how much robots wait longer than with ours (s).
        longer_error_s: Standard error of that (s).
    """

    workload: str
    load: float
    room: int | None
    choice: str
    utility: float
    later_s: float
    urgent_p99_s: float
    drops: float
    prompts: float
    behind: float
    behind_error: float
    longer_s: float
    longer_error_s: float


def measure(cell: Cell, room: int, seeds: range, searched: int) -> list[Row]:
    """Serve one cell in every way."""
    others = range(FIRST_SEARCHED_SEED, FIRST_SEARCHED_SEED + searched)

    def utility(choice: Choice) -> float:
        return statistics.fmean(serve_draw(cell, it, room, choice).utility for it in others)

    lives = [Choice(f'ttl {ttl_s:g} s', time_to_live(ttl_s), restores=False) for ttl_s in TTLS_S]
    ways: list[tuple[int | None, Choice]] = [(room, choice) for choice in CHOICES]
    ways += [(room, max(lives, key=utility)), (None, replace(RETURNS, name='room for all'))]
    ours, rows = list[Served](), list[Row]()
    for held, choice in ways:
        draws = [serve_draw(cell, seed, held, choice) for seed in seeds]
        ours = ours or draws
        pairs = list(zip(ours, draws, strict=True))
        behind = [mine.utility - theirs.utility for mine, theirs in pairs]
        longer = [theirs.later_s - mine.later_s for mine, theirs in pairs]
        rows.append(
            Row(
                cell.workload,
                cell.load,
                held,
                choice.name,
                statistics.fmean(one.utility for one in draws),
                statistics.fmean(one.later_s for one in draws),
                percentile([it for one in draws for it in one.urgent_s], 0.99),
                statistics.fmean(one.drops for one in draws),
                statistics.fmean(one.prompts for one in draws),
                statistics.fmean(behind),
                standard_error(behind),
                statistics.fmean(longer),
                standard_error(longer),
            )
        )
        show(rows[-1])
    return rows


def show(row: Row) -> None:
    """Print a line of the table."""
    print(
        f'{row.workload:5} {row.load:4g} {row.room or "all":>6} {row.choice:14} '
        f'{row.utility:7.3f} {row.behind:7.3f} ±{row.behind_error:.3f} {row.later_s:7.3f} '
        f'{row.longer_s:7.3f} ±{row.longer_error_s:.3f} {row.urgent_p99_s:6.2f} '
        f'{row.drops:6.2f} {row.prompts:7.3f}',
        flush=True,
    )


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return what should have been found of ours: ahead of what knows less, behind the host."""
    made = []
    for row in rows:
        cell = f'{row.workload}, load {row.load:g}, {row.choice}'
        if row.choice == HOSTED.name:
            sign, than_ours, waits = -1, 'ahead of', 'shorter'
        elif row.choice in ('not restored', 'lru') or row.choice.startswith('ttl'):
            sign, than_ours, waits = 1, 'behind', 'longer'
        else:
            continue
        name = f'{cell}: mean utility {than_ours} ours (±{row.behind_error:.3f})'
        made.append(Target(name, sign * row.behind, '>=', 0))
        name = f'{cell}: waits {waits} (s, ±{row.longer_error_s:.3f} s)'
        made.append(Target(name, sign * row.longer_s, '>=', 0))
    return made


def main() -> None:
    options = read_draws(arguments(__doc__))
    print(
        f'{"work":5} {"load":>4} {"room":>6} {"choice":14} {"mean U":>7} {"behind":>7} {"":6} '
        f'{"wait s":>7} {"longer":>7} {"":6} {"p99 s":>6} {"drops":>6} {"prompts":>7}'
    )
    rows: list[Row] = []
    for workload, load, room in CELLS:
        cell = Cell(workload, load, options.bursts / WORKLOADS[workload].events_per_s)
        rows += measure(cell, room, range(options.seeds), options.searched)
    figures = figures_of(options, HARDWARE, map(asdict, rows))
    save('kept', figures, targets(rows), path=options.json)


if __name__ == '__main__':
    main()
