"""Tables of TimelyLLM's experiments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from benchmarks.pages.writing import read, table
from benchmarks.timelyllm import PAPER_MS, PAPER_PERCENT, PAPER_US, tolerance
from benchmarks.workloads import PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OURS = 'lookahead (ours)'


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {
        'end_to_end': end_to_end,
        'trace': trace(),
        'sweep': sweep(),
        'admission': admission(),
        'policies': {
            part: systems(read('timelyllm_fig8').figures[part], batches=part == 'own')
            for part in ('equal', 'own')
        },
        'arms': systems(read('timelyllm_fig9').figures['systems'], groups=('normal',)),
        'chat': chat(),
        'bounds': bounds(),
        'segmentation': segmentation(),
        'choosing': choosing(),
        'contention': contention(read('contention').figures['served']),
        'general': _general(),
        'cost': read('llm_segmentation').figures,
        'reference': reference,
        'factor': read('contention').figures['time_factor'],
        'ours': {name: _ours(name) for name in ('wid1', 'wid2')},
    }


def _ours(workload: str) -> dict[str, Any]:
    found = read('timelyllm_admission').figures['workloads'][workload][OURS][0]
    return dict(found)


def named(row: dict[str, Any]) -> str:
    """Return a system's name, with its batch where it has one."""
    batch = row['batch']
    return row['system'] if batch is None else f'{row["system"]}, batch {batch}'


def mean(summary: dict[str, Any]) -> str:
    """Return the mean utility and its deviation over draws."""
    return f'{summary["utility"]:.3f} ({summary["spread"]:.3f})'


def systems(
    rows: Iterable[dict[str, Any]],
    groups: Sequence[str] = ('normal', 'urgent'),
    *,
    batches: bool = True,
) -> str:
    """Return utility, response and waiting of each group, by system."""
    head = ['system']
    for group in groups:
        head += [f'{sign} {group}' for sign in 'URW']
    lines = []
    for row in rows:
        cells = [named(row) if batches else row['system']]
        for group in groups:
            found = row['groups']['groups'][group]
            cells += [f'{found[key]:.3f}' for key in ('utility', 'response_s', 'waiting_s')]
        lines.append([*cells, mean(row['groups'])])
    return table([*head, 'mean utility'], lines)


def end_to_end(workload: str) -> str:
    """Return figure 5's table of a workload."""
    rows = read('timelyllm_fig5').figures['systems']
    return systems(row for row in rows if row['workload'] == workload)


def trace() -> str:
    """Return figure 6's table."""
    return table(
        ('system', 'task', 'expected', 'response', 'waiting', 'utility'),
        (
            (
                row['system'],
                row['task'],
                f'{row["expected_response_s"]:g}',
                f'{row["response_s"]:.3f}',
                f'{sum(piece["waiting_s"] for piece in row["pieces"]):.3f}',
                f'{row["utility"]:.3f}',
            )
            for row in read('timelyllm_fig6').figures['lines']
        ),
    )


def sweep() -> str:
    """Return figure 7's table."""
    found = read('timelyllm_fig7').figures['systems']
    batches = next(iter(found.values()))
    return table(
        ('mean utility (sd)', *(f'batch {batch}' for batch in batches)),
        ((name, *map(mean, each.values())) for name, each in found.items()),
    )


def admission() -> str:
    """Return what fixed batches give and what admission by lookahead does."""
    found = read('timelyllm_admission').figures
    rows: list[Sequence[str]] = []
    for workload, each in found['workloads'].items():
        for name, summaries in each.items():
            cells = [mean(summary) for summary in summaries]
            if name == OURS:
                cells += ['by itself', *[''] * (len(found['batches']) - 2)]
            rows.append((workload, name, *cells))
    return table(
        ('workload', 'mean utility (sd)', *(f'batch {batch}' for batch in found['batches'])), rows
    )


def chat() -> str:
    """Return figure 10's table."""
    rows = []
    for row in read('timelyllm_fig10').figures['bars']:
        found = row['summary']['groups']['chat']
        batch = '' if 'lookahead' in row['way'] else f', batch {row["batch"]}'
        rows.append(
            (
                row['model'],
                f'{row["way"]}{batch}',
                mean(row['summary']),
                f'{found["response_s"]:.3f}',
                f'{found["waiting_s"]:.3f}',
            )
        )
    return table(('model', 'segments', 'mean utility (sd)', 'response (s)', 'waiting (s)'), rows)


def bounds() -> str:
    """Return how near lookahead comes to what no schedule exceeds."""
    rows = []
    runs = read('timelyllm_bounds').figures['runs']
    for workload in dict.fromkeys(run['workload'] for run in runs):
        each = [run for run in runs if run['workload'] == workload]

        def average(key: str, each: Sequence[dict[str, Any]] = each) -> float | None:
            values = [run[key] for run in each if run[key] is not None]
            return sum(values) / len(values) if values else None

        utility, greatest = average('utility'), average('greatest_utility')
        waiting, least = average('waiting_s'), average('least_waiting_s')
        assert utility is not None
        assert greatest is not None
        rows.append(
            (
                workload,
                f'{utility:.3f}',
                f'{greatest:.3f}',
                f'{100 * utility / greatest:.1f} %',
                f'{waiting:.3f}',
                '-' if least is None else f'{least:.3f}',
            )
        )
    return table(
        ('workload', 'mean utility', 'greatest', 'share', 'waiting (s)', 'least (s)'), rows
    )


def segmentation() -> str:
    """Return table 4."""
    rows = []
    for row, paper_ms, paper_percent in zip(
        read('timelyllm_tables45').figures['segmentation'], PAPER_MS, PAPER_PERCENT, strict=True
    ):
        profile, cost_ms = PROFILES[row['kind']], row['cost_ms']
        extra_ms = cost_ms['segmented'] - cost_ms['whole_plan']
        segments = len(profile.segment_tokens)
        rows.append(
            (
                row['kind'],
                profile.name,
                segments,
                f'{extra_ms:.3f}',
                f'{row["percent"]:.3f}',
                paper_ms,
                paper_percent,
            )
        )
    return table(
        ('kind', 'name', 'segments', 'ms', '% of the plan', 'paper (ms)', 'paper (%)'), rows
    )


def choosing() -> str:
    """Return table 5."""
    return table(
        ('waiting', '`utility` (us)', 'lookahead (us)', 'paper (us)'),
        (
            (
                count,
                f'{row["utility"]:.1f}',
                f'{row["lookahead"]:.1f}',
                f'{PAPER_US[int(count)]:.0f}',
            )
            for count, row in read('timelyllm_tables45').figures['scheduling_us'].items()
        ),
    )


def _general() -> dict[str, Any]:
    """Return what a general model's part names."""
    found = read('llm_serving').figures
    chats = table(
        ('chats in', 'batch', 'first response, mean (s)', 'longest (s)'),
        (
            (way, row['batch'], f'{row["response_s"]:.1f}', f'{row["longest_s"]:.1f}')
            for way, rows in found['chats'].items()
            for row in rows
        ),
    )
    same = next(it for it in read('llm_serving').targets if it.name.startswith('share of plans'))
    return {
        **found,
        'same': same.value,
        'ways': contention(found['contention']['served']),
        'chats': chats,
    }


def contention(served: Sequence[dict[str, Any]]) -> str:
    """Return what each way gives on a real model in real time."""
    compared = 'behind' in served[0]
    return table(
        (
            'way', 'batch', 'U urgent', 'U normal', 'mean utility', 'R urgent (ms)',
            'R normal (ms)', *['behind ours'] * compared,
        ),
        (
            (
                row['way'],
                row['batch'],
                *(f'{row[key]:.3f}' for key in ('urgent', 'normal', 'utility')),
                *(f'{1000 * row[f"{group}_response_s"]:.0f}' for group in ('urgent', 'normal')),
                *([f'{row["behind"]:.3f} ± {row["behind_error"]:.3f}'] if compared else []),
            )
            for row in served
        ),
    )  # fmt: skip


def reference(hardware: str) -> str:
    """Return our systems beside what an independent simulation found, on one preset."""
    found = read('reference')
    rows = {(r['workload'], r['hardware'], r['system']): r for r in found.figures['rows']}
    lines = []
    for verdict in found.targets:
        match = re.fullmatch(r'(\S+) (\S+) (.+): mean utility off (\S+) by', verdict.name)
        assert match is not None, verdict.name
        workload, preset, system, expected = match.groups()
        if preset != hardware:
            continue
        row = rows[workload, preset, system]
        cells: list[str] = []
        for group in ('normal', 'urgent'):
            part = row['groups'].get(group)
            cells += (
                [f'{part[key]:.3f}' for key in ('utility', 'response_s')] if part else ['-', '-']
            )
        calm = verdict.value <= tolerance(float(expected), row['spread'], preset)
        within = 'within' if calm else 'by the errors' if verdict.ok else '**outside**'
        lines.append((workload, system, *cells, mean(row), expected, within))
    return table(
        (
            'workload', 'system', 'U normal', 'R normal', 'U urgent', 'R urgent', 'mean utility',
            'expected', 'tolerance',
        ),
        lines,
    )  # fmt: skip
