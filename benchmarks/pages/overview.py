"""The figures that matter first, and every target that was missed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.common import FOLDER
from benchmarks.pages.writing import Recorded, Verdict, present_command, read
from benchmarks.vllm import ways_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MEASURED_BY = {
    'scheduling': (
        'scheduling', 'scale', 'thousands', 'overhead', 'first_action', 'first_action_gpu',
        'first_action_general', 'drafts', 'warm_scenes', 'warm_scenes_vllm', 'written_ahead',
        'written_ahead_vllm',
    ),
    'overload': (
        'overload', 'overload_10', 'overload_actions', 'overload_recovery', 'overload_hindsight',
    ),
    'field': (
        'field_wid1', 'field_wid2', 'field_wid3', 'field_others', 'field_others_long', 'kept',
    ),
    'timelyllm': (
        'timelyllm_fig5', 'timelyllm_fig6', 'timelyllm_fig7', 'timelyllm_admission',
        'timelyllm_fig8', 'timelyllm_fig9', 'timelyllm_fig10', 'timelyllm_bounds',
        'timelyllm_tables45', 'contention', 'reference',
        'llm_serving', 'llm_segmentation',
    ),
    'timebill': ('timebill', 'rlp', 'llm_budget'),
    'trail': ('trail', 'calibration', 'llm_lengths'),
    'batching': ('background', 'multibin_theory', 'multibin', 'pipeline'),
    'vllm': (
        'vllm', 'first_action_vllm', 'first_action_vllm_general',
    ),
    'tasks': ('tasks', 'tasks_models'),
    'robots': (
        'safety', 'deaths', 'server_deaths', 'fleet_stop', 'window', 'soak', 'chaos_1', 'chaos_2',
        'chaos_3', 'envelope', 'durations', 'scene', 'world', 'libero',
        'ros', 'planners', 'fleet',
    ),
    'recorder': ('recorder_kills', 'recorder', 'report', 'replay'),
    'llm': ('llm',),
    'operation': ('metrics', 'cluster', 'unit_restart', 'pure_wheel'),
}  # fmt: skip
"""The files of results that each page shows."""


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure that matters to whoever runs robots.

    Attributes:
        what: What was measured.
        measured: What it is.
        instead: What it is without this package, or what was wanted.
        title: The page's name.
        page: Where on the page it is.
        command: How to measure it.
        date: When it was measured.
    """

    what: str
    measured: str
    instead: str
    title: str
    page: str
    command: str
    date: str


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {'headlines': [DEMO, *headlines()], 'missed': list(missed())}


DEMO = Headline(
    'Demo, 24 tasks on eight robots: median response; robots that acted in time',
    '0.08 s; 24 of 24',
    '0.35 s; 19 of 24 with whole plans, first come, first served',
    'demo',
    '../how_to/demo.md',
    'make demo',
    '2026-11-23',
)


def headlines() -> Iterator[Headline]:
    """Return the figures that matter first, those that programs wrote."""
    fleet = {
        row['system']: row['groups']
        for row in read('timelyllm_fig5').figures['systems']
        if row['workload'] == 'wid2'
    }
    ours, whole = fleet['lookahead (ours)'], fleet['whole plan (vLLM)']
    urgent_s = [way['groups']['urgent']['response_s'] for way in (ours, whole)]
    yield _of(
        read('timelyllm_fig5'),
        'Busy fleet on a simulated GPU: mean utility; response of urgent tasks',
        f'{ours["utility"]:.2f}; {urgent_s[0]:.2f} s',
        f'{whole["utility"]:.2f}; {urgent_s[1]:.2f} s with whole plans, at their best batch',
        'timelyllm.md#end-to-end-fig-5',
    )
    less = read('timelyllm_fig9').target('waiting less than whole plan by')
    yield _of(
        read('timelyllm_fig9'),
        'Arms with plans of a hundred tokens, simulated: time spent waiting',
        f'{100 * less.value:.1f} % less',
        'whole plans, at their best batch',
        'timelyllm.md#arms-fig-9',
    )
    yield _contention()
    found = read('vllm')
    ways = ways_of(found.figures['b'], 64, 1.2)
    run = found.figures['made']['b']
    stock = max(
        (name for name in ways if name.startswith('stock')), key=lambda name: ways[name]['utility']
    )
    yield Headline(
        '64 robots on one vLLM under overload: urgent p99; mean utility',
        f'{ways["ours"]["urgent_p99_ms"]:.0f} ms; {ways["ours"]["utility"]:.2f}',
        f'{ways[stock]["urgent_p99_ms"]:.0f} ms; {ways[stock]["utility"]:.2f} with {stock}, '
        "the best of stock vLLM's ways",
        'vllm',
        'vllm.md#contention',
        present_command(run['command']),
        run['date'],
    )
    delivery = read('overhead').figures['delivery']['token_to_action_s']
    yield _of(
        read('overhead'),
        "From a segment's last token to the robot's start, p50 / p99",
        f'{1000 * delivery["p50"]:.1f} / {1000 * delivery["p99"]:.1f} ms',
        'p99 wanted: at most 16.6 ms',
        'scheduling.md#segments-and-the-way-to-the-robot',
    )
    faults = read('safety').figures
    yield _of(
        read('safety'),
        f'From a fault to a safe robot, the worst of {len(faults)} kinds of faults on mocks',
        f'{1000 * max(row["worst_s"] for row in faults.values()):.0f} ms',
        'wanted: at most 500 ms',
        'robots.md#from-a-fault-to-a-robot-that-is-safe',
    )
    lane = read('background').figures
    yield _of(
        read('background'),
        "Idle capacity that background work uses; rise of the robots' urgent p99",
        f'{100 * lane["share"]:.0f} %; {100 * lane["rise"]:.1f} ± '
        f'{100 * lane["errors"]["rise"]:.1f} %',
        'wanted: at least 80 %; at most 10 %',
        'batching.md#the-background-lane',
    )
    kills, flood = read('recorder_kills'), read('recorder').figures
    yield _of(
        kills,
        f'Recorder: lost by the worst of {kills.figures["kills"]} kills; missing of '
        f'{flood["sent"]:,} messages',
        f'{kills.figures["lost_s"]["most"]:.2f} s; {flood["missing"]}',
        'wanted: at most 1 s; none',
        'recorder.md',
    )
    scale = read('scale').figures[-1]
    yield _of(
        read('scale'),
        f'Simulating {scale["robots"]:,} robots for 5 minutes on one core',
        f'{scale["wall_s"]:.0f} s',
        'wanted: at most 180 s',
        'scheduling.md#a-fleet-of-thousands-on-virtual-time',
    )


def _contention() -> Headline:
    found = read('contention')
    served = found.figures['served']
    ours = [row for row in served if row['way'] == 'segmented least_loss, lookahead']
    others = [row for row in served if row not in ours]
    best = max(ours, key=lambda row: row['utility'])
    next_best = max(others, key=lambda row: row['utility'])
    return _of(
        found,
        'Busy fleet on a real small model: mean utility; response of urgent tasks',
        f'{best["utility"]:.2f}; {1000 * best["urgent_response_s"]:.0f} ms',
        f'{next_best["utility"]:.2f}; {1000 * next_best["urgent_response_s"]:.0f} ms with '
        f'{next_best["way"]}, the best of the others',
        'timelyllm.md#the-same-contention-on-the-real-model',
    )


def missed() -> Iterator[tuple[str, Verdict]]:
    """Return every target that was missed, with its page."""
    for page, names in MEASURED_BY.items():
        for name in names:
            for verdict in read(name).targets:
                if not verdict.ok:
                    yield page, verdict
    content = json.loads((FOLDER / 'model.json').read_text(encoding='utf-8'))
    for one in content['targets']:
        if not one['ok']:
            yield 'model', Verdict(one['name'], f'>= {one["target"]}', one['value'], ok=False)


def _of(result: Recorded, what: str, measured: str, instead: str, page: str) -> Headline:
    title = page.partition('.')[0]
    return Headline(what, measured, instead, title, page, result.command, result.date)
