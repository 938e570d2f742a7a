"""Tables on what is earned when more is asked than can be served."""

from __future__ import annotations

from typing import Any

from benchmarks.pages.writing import Recorded, read, table
from timely_llm_ros.errors import TaskRefusedError, WorthlessError

FILES = {150: 'overload', 10: 'overload_10'}
"""Which file has a fleet of so many robots."""


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    fleets = {}
    for robots in FILES:
        made = _made(robots)
        fleets[robots] = {
            'source': made.source,
            'seeds': made.figures['seeds'],
            'goodput': goodput(robots),
            'ours': ours(robots),
            'targets': [one for one in made.targets if one.name.startswith(f'{robots} robots')],
        }
    return {
        'made': read('overload').figures,
        'fleets': fleets,
        'actions': {name: actions(one) for name, one in read('overload_actions').figures.items()},
        'recoveries': recoveries(),
        'hindsight': read('overload_hindsight').figures,
        'found': hindsight(),
        'kept': kept(10, 2),
    }


def goodput(robots: int) -> str:
    """Return what every way earned of a fleet, by load, and what no schedule exceeds."""
    bounds = {one['load']: one['goodput'] for one in _of('bounds', robots)}
    ways: dict[str, dict[float, float]] = {}
    for one in _of('earned', robots):
        ways.setdefault(one['way'], {})[one['load']] = one['goodput']
    rows = [
        (f'**{name}**' if name == 'ours' else name, *(f'{earned[load]:.2f}' for load in bounds))
        for name, earned in ways.items()
    ]
    if 'ours' in ways:
        shares = (f'{ways["ours"][load] / most:.2f}' for load, most in bounds.items())
        rows.append(('ours, share of the bound', *shares))
    rows.append(('bound', *(f'{most:.2f}' for most in bounds.values())))
    named = {
        one['load']: one['named']
        for one in _of('earned', robots)
        if one['way'] == 'ours' and 'named' in one
    }
    if named:
        shares = (f'{ways["ours"][load] / most:.2f}' for load, most in named.items())
        rows.append(('ours, share of the bound for the robots named', *shares))
        rows.append(('bound for the robots named', *(f'{most:.2f}' for most in named.values())))
    return table(('goodput at load', *(f'{load:g}' for load in bounds)), rows)


def ours(robots: int) -> str:
    """Return what became of the tasks that were served our way, by load."""
    rows = []
    for one in _of('earned', robots):
        if one['way'] != 'ours':
            continue
        ended = {int(code): count for code, count in one['codes'].items()}
        rows.append(
            (
                f'{one["load"]:g}',
                one['tasks'],
                ended.get(0, 0),
                ended.get(TaskRefusedError.code, 0),
                ended.get(WorthlessError.code, 0),
                one['late'],
                f'{one["utility"]:.2f}',
                f'{one["urgent_p50_s"]:.2f} / {one["urgent_p99_s"]:.2f}',
                '-' if one['kept'] is None else f'{one["kept"]:.3f}',
            )
        )
    head = (
        'load', 'tasks', 'served', 'refused', 'worthless', 'served late', 'mean utility',
        'urgent response p50 / p99 (s)', 'promises kept',
    )  # fmt: skip
    return table(head, rows)


def kept(robots: int, load: float) -> dict[str, str]:
    """Return which share of promises every way kept."""
    return {
        one['way']: f'{one["kept"]:.2f}'
        for one in _of('earned', robots)
        if one['load'] == load and one['kept'] is not None
    }


def hindsight() -> str:
    """Return what was earned by whoever knew what would come, beside ours and the bound."""
    rows = [
        (
            f'{one["load"]:g}',
            *(f'{one[key]:.2f}' for key in ('ours', 'hindsight', 'bound')),
            f'{one["ours"] / one["hindsight"]:.2f}',
            f'{one["hindsight"] / one["bound"]:.2f}',
        )
        for one in read('overload_hindsight').figures['rows']
    ]
    head = (
        'load', 'ours', 'in hindsight', 'bound', 'ours, share of hindsight',
        'hindsight, share of the bound',
    )  # fmt: skip
    return table(head, rows)


def recoveries() -> str:
    """Return what was earned once an overload was over, and what was kept in memory."""
    rows = [
        (
            one['robots'],
            one['tasks'],
            f'{one["after"]:.2f}',
            f'{one["calm"]:.2f}',
            ', '.join(f'{size / 1024:.0f}' for size in one['kept_bytes']),
        )
        for one in read('overload_recovery').figures['recoveries']
    ]
    head = ('robots', 'goals', 'after the overload', 'without it', 'kept after each overload (KiB)')
    return table(head, rows)


def actions(one: dict[str, Any]) -> str:
    """Return what became of one fleet's tasks over real actions, by load."""
    rows = [
        (
            f'{row["load"]:g}',
            row['tasks'],
            f'{row["earned"]:.2f}',
            f'{row["urgent_p50_s"]:.2f} / {row["urgent_p99_s"]:.2f}',
            f'{1000 * row["answered_p50_s"]:.0f} / {1000 * row["answered_p99_s"]:.0f}',
            f'{row["planner_mb"]:.0f}',
            ', '.join(f'{count} {how}' for how, count in sorted(row['ends'].items())),
        )
        for row in one['loads']
    ]
    head = (
        'load', 'tasks', 'earned per s', 'urgent response p50 / p99 (s)', 'answered p50 / p99 (ms)',
        'planner (MB)', 'ends',
    )  # fmt: skip
    return table(head, rows)


def _made(robots: int) -> Recorded:
    return read(FILES[robots])


def _of(what: str, robots: int) -> list[dict[str, Any]]:
    return [one for one in _made(robots).figures[what] if one['robots'] == robots]
