"""How many steps a model takes to a first action and to a plan, against one for each token.

``make bench-first_action``: held-out tasks are planned on the torch engine's core in this process,
on one thread, greedily and within the grammar: once one token a step, once with the tokens that the
grammar leaves no choice about, and those that other plans of late make likely, computed together
with the next one. Both ways have a copy of the model each and serve the same tasks in turns, a few
at a time. Nothing of a task is there before it comes but the beginning that all prompts of a skill
set share; where scenes are known, both ways have computed the robot's scene too. Times are CPU
time, which other programs on the machine disturb less than they do the clock's.

Other models are measured too where ``--models`` names their folders.
"""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import COUNT, Target, arguments, save
from timely_llm_ros.engines import (
    GenerationEnded,
    GenerationRequest,
    Resume,
    SegmentGenerated,
    Submit,
    Warm,
)
from timely_llm_ros.engines.core import CoreOptions, LanedCore
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.engines.torch.compute import TorchBackend, load_model
from timely_llm_ros.evaluation.plans import Written, draw_cases, judge
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Call
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.evaluation.plans import Case

SHIPPED = 'timely-planner'
BATCHES = (1, 8)
MOST_TOKENS = 200
KV_TOKENS = 8192
"""For each generation at once, with the scenes that are known."""

RESAMPLES = 2000
"""Times that pieces are drawn anew for a standard error."""

FEWEST = 2
"""Tasks of a kind in scenes of any size."""

PIECE = 16
"""Tasks served one way before it is the other's turn."""

STEPS_PER_TOKEN, STEPS_PER_TOKEN_GENERAL = 0.55, 0.45
"""What is wanted of the shipped model, and of a general one, whose tokens are shorter."""

GAIN = 1.5
"""How many times as many plans per second are wanted at the larger batch."""

SAME = 0.995
"""Share of plans wanted to have the text that they have with one token a step."""

COLUMNS = {
    'model': 18, 'objects': 9, 'scenes': 8, 'batch': 7, 'plans': 7, 'steps/token': 13,
    'old /s': 9, 'new /s': 9, 'times': 7, '+-': 6, 'decoding': 9, 'old first ms': 14,
    'new first ms': 14, 'same text': 11,
}  # fmt: skip


class Server:
    """Serves tasks one way, at most ``batch`` at a time, and keeps what came of them."""

    def __init__(
        self,
        path: str,
        loaded: LoadedModel,
        batch: int,
        kv_tokens: int,
        *,
        fast_forward: bool = True,
        drafts: bool = False,
    ) -> None:
        self.plans: dict[str, tuple[Written, tuple[int, ...]]] = {}
        """Each task's plan, and its token ids."""
        self.first_s: list[float] = []
        """Time from each task's coming to its first segment (s)."""
        self.steps = 0
        """Steps made."""
        self.chosen = 0
        """Tokens that the model chose, the ends of plans included."""
        self.decoding_s = 0.0
        """Time of full steps without a prompt's tokens (s)."""
        self.decoded = 0
        """Tokens that these brought."""
        self._batch = batch
        self._clock = time.process_time if loaded.device.type == 'cpu' else time.perf_counter
        self._prompts = load_prompts('auto', path)
        self._backend = TorchBackend(loaded, fast_forward=fast_forward)
        self.drafter = self._backend.drafter
        """Guesses tokens, where ``drafts`` are computed."""
        self._core = LanedCore(
            self._backend,
            CoreOptions(
                policy='fcfs',
                max_running=batch,
                max_kv_tokens=kv_tokens,
                context_limit=loaded.context_limit,
                prefill_chunk=TorchConfig(device=loaded.device.type).chunk,
                scheduling=SchedulingOptions(admission='fixed'),
            ),
            drafter=self.drafter if drafts else None,
        )

    def learn(self, cases: Sequence[Case]) -> None:
        """Compute the scenes of tasks that are to come."""
        core, clock = self._core, self._clock
        for case in cases:
            scene = case.task.scene
            known = self._prompts.known(case.skill_set, scene)
            core.apply(Warm(case.name, known, case.skill_set, scene))
        while (plan := core.plan(clock())) is not None or core.prepare():
            if plan is not None:
                core.complete(plan, self._backend.execute(plan), clock(), clock())

    def forget(self, cases: Sequence[Case]) -> None:
        """Drop their scenes."""
        for case in cases:
            self._core.apply(Warm(case.name, None, case.skill_set, case.task.scene))

    def serve(self, cases: Sequence[Case]) -> float:
        """Have these planned; return how long it took (s)."""
        core, clock = self._core, self._clock
        began_s = clock()
        waiting = iter(cases)
        live: dict[str, tuple[Case, float]] = {}
        text: dict[str, str] = {}
        while True:
            while len(live) < self._batch and (case := next(waiting, None)) is not None:
                live[case.name], text[case.name] = (case, clock()), ''
                core.apply(Submit(self._request(case)))
            if not live:
                return clock() - began_s
            started_s = clock()
            plan = core.plan(started_s)
            if plan is not None:
                core.complete(plan, self._backend.execute(plan), started_s, clock())
                self.steps += 1
                self.chosen += sum(row.samples for row in plan.rows)
                if plan.decodes_only and len(plan.rows) == self._batch:
                    self.decoding_s += clock() - started_s
                    self.decoded += sum(row.generation.brought for row in plan.rows)
            for event in core.take_events():
                if isinstance(event, SegmentGenerated):
                    segment, name = event.segment, event.generation_id
                    case, came_s = live[name]
                    if not text[name]:
                        self.first_s.append(clock() - came_s)
                    text[name] += segment.text
                    call = segment.statements[0]
                    if segment.awaits_value and isinstance(call, Call):
                        text[name] += f'#{case.value(call)} '
                        core.apply(Resume(name, case.value(call)))
                elif isinstance(event, GenerationEnded):
                    name = event.generation_id
                    written = Written(text.pop(name), event.reason, event.error, event.tokens)
                    self.plans[name] = written, event.token_ids
                    del live[name]

    def _request(self, case: Case) -> GenerationRequest:
        task = case.task
        prompt = self._prompts.build(case.skill_set, task.scene, task.instruction)
        return GenerationRequest(
            case.name, prompt, case.skill_set, task.scene, NORMAL, 0.0, max_tokens=MOST_TOKENS,
            scene_of=case.name,
        )  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument('--models', nargs='*', default=[], metavar='FOLDER')
    parser.add_argument('--objects', nargs='+', type=COUNT, default=[10, 50, 200])
    parser.add_argument(
        '--tasks',
        type=COUNT,
        default=20,
        help='of each of the eleven kinds with 10 objects, fewer with more (%(default)s)',
    )
    parser.add_argument('--batches', nargs='+', type=COUNT, default=list(BATCHES))
    parser.add_argument('--device', default='cpu', help='where torch computes (%(default)s)')
    parser.add_argument('--threads', type=COUNT, default=1)
    options = parser.parse_args(given)
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    print(''.join(f'{name:>{width}}' for name, width in COLUMNS.items()))
    for name in (SHIPPED, *options.models):
        path = find_model(name)
        # A copy for each way, so that neither finds what the other has compiled.
        copies = [
            load_model(
                path,
                max_kv_tokens=KV_TOKENS * max(options.batches) * len(options.batches),
                device=options.device,
                threads=options.threads,
            )
            for _ in '12'
        ]
        rows = figures[Path(path).name] = []
        largest = max(options.batches)
        for objects in options.objects:
            tasks = _tasks(options.tasks, objects)
            ways = [(batch, False) for batch in options.batches] + [(largest, True)]
            rows += [_measure(path, copies, objects, tasks, *way, largest) for way in ways]
        targets += _targets(Path(path).name, rows)
        found = {'device': options.device, 'models': figures}
        save('first_action', found, targets, path=options.json)


def _tasks(tasks: int, objects: int) -> int:
    """Return how many tasks of a kind to measure: of long prompts there are fewer."""
    return min(tasks, max(FEWEST, tasks * 10 // objects))


def _measure(
    path: str,
    copies: Sequence[LoadedModel],
    objects: int,
    tasks: int,
    batch: int,
    known: bool,
    largest: int,
) -> dict[str, Any]:
    """Have tasks in scenes of that size planned both ways, and return what was found.

    Scenes are ``known`` before their tasks come, or not. There are KV pools for the ``largest``
    batch.
    """
    cases = shuffled(objects, tasks)
    old, new = (
        Server(path, loaded, batch, KV_TOKENS * largest, fast_forward=whole, drafts=whole)
        for loaded, whole in zip(copies, (False, True), strict=True)
    )
    size = max(PIECE, 4 * batch)
    (old_s, new_s), gain, error = in_turns(cases, old, new, size, known=known)
    plans = [(case, old.plans[case.name], new.plans[case.name]) for case in cases]
    tokens = sum(written.tokens + 1 for _, _, (written, _) in plans)
    row: dict[str, Any] = {
        'objects': objects,
        'scenes': 'known' if known else 'new',
        'batch': batch,
        'plans': len(plans),
        'tokens': tokens,
        'steps': [old.steps, new.steps],
        'steps_per_token': new.chosen / tokens,
        'plans_per_cpu_s': [len(plans) / old_s, len(plans) / new_s],
        'decoding_gain': _decoding_gain(old, new),
        'gain': gain,
        'gain_error': error,
        'first_cpu_s': [statistics.median(server.first_s) for server in (old, new)],
        'same_text': _share(one[0].text == two[0].text for _, one, two in plans),
        'same_ids': _share(one[1] == two[1] for _, one, two in plans),
        'valid': _share(judge(case, written).valid for case, _, (written, _) in plans),
    }
    speeds, first = row['plans_per_cpu_s'], row['first_cpu_s']
    decoding = '-' if row['decoding_gain'] is None else f'{row["decoding_gain"]:.2f}'
    shown = (
        f'{Path(path).name:>18}{objects:9}{row["scenes"]:>8}{batch:7}{len(plans):7}'
        f'{row["steps_per_token"]:13.3f}'
        f'{speeds[0]:9.1f}{speeds[1]:9.1f}{row["gain"]:7.2f}{row["gain_error"]:6.2f}'
        f'{decoding:>9}{1e3 * first[0]:14.1f}{1e3 * first[1]:14.1f}'
        f'{row["same_text"]:11.4f}'
    )
    print(shown, flush=True)
    return row


def shuffled(objects: int, tasks: int) -> list[Case]:
    """Return so many held-out tasks of each kind, in the order in which they come."""
    cases = draw_cases((objects,), tasks, 'held_out')
    random.Random(objects).shuffle(cases)
    return cases


def in_turns(
    cases: Sequence[Case], old: Server, new: Server, size: int, *, known: bool = False
) -> tuple[tuple[float, float], float, float]:
    """Have tasks served both ways, ``size`` tasks a turn, with their scenes ``known`` or not.

    Returns:
        How long each took (s), how many times as fast the new one was, and its standard error.
    """
    took_s: list[tuple[float, float]] = []
    for start in range(0, len(cases), size):
        piece = cases[start : start + size]
        # Whoever goes first changes, because the second one finds warm caches.
        turns = (old, new) if len(took_s) % 2 else (new, old)
        took = {}
        for server in turns:
            if known:
                server.learn(piece)
            took[server] = server.serve(piece)
            if known:
                server.forget(piece)
        took_s.append((took[old], took[new]))
    old_s, new_s = np.array(took_s).T
    drawn = np.random.default_rng(0).integers(0, len(old_s), (RESAMPLES, len(old_s)))
    spread = old_s[drawn].sum(axis=1) / new_s[drawn].sum(axis=1)
    total = float(old_s.sum()), float(new_s.sum())
    return total, total[0] / total[1], float(spread.std())


def _decoding_gain(old: Server, new: Server) -> float | None:
    """Return how many times as fast full steps without a prompt bring tokens; None without any."""
    if not (old.decoded and new.decoded):
        return None
    return new.decoded / new.decoding_s * old.decoding_s / old.decoded


def _share(found: Iterable[bool]) -> float:
    """Return which share is true."""
    return statistics.fmean(found)


def _targets(model: str, rows: Sequence[dict[str, Any]]) -> list[Target]:
    def mean(name: str, weight: str) -> float:
        weights = [row[weight] for row in rows]
        return float(np.average([row[name] for row in rows], weights=weights))

    plans = sum(row['plans'] for row in rows)
    most = STEPS_PER_TOKEN if model == SHIPPED else STEPS_PER_TOKEN_GENERAL
    found = [
        Target(f'{model}: steps per token', mean('steps_per_token', 'tokens'), '<=', most),
        Target(f'{model}: equal texts of {plans}', mean('same_text', 'plans'), '>=', SAME),
        Target(f'{model}: valid plans', mean('valid', 'plans'), '>=', 1.0),
    ]
    for row in rows:
        if row['batch'] == max(one['batch'] for one in rows):
            place = (
                f'{model}, {row["objects"]} objects, batch {row["batch"]}, scenes {row["scenes"]}'
            )
            name = f'{place}: times as many plans'
            found.append(Target(name, row['gain'], '>=', GAIN))
    return found


if __name__ == '__main__':
    main()
