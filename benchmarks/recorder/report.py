"""The HTML report of 100 robots over 10 minutes: how large it is and how fast a browser has it.

    .venv/bin/python -m benchmarks.recorder.report [--robots 100] [--duration 600]
        [--pictures FOLDER]

The fleet is served on virtual time by the simulated engine and its trace written as a planner
node and a recorder would. A headless Chromium opens the report several times from its file, at
1440x900 and at a telephone's 390x844; the slowest of each counts, from the begin of the navigation
until everything is drawn and the next frame is free. Then it is used: filtered, zoomed, moved.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import COUNT, FROM_ZERO, POSITIVE, Browser, Target, arguments, save
from benchmarks.recorder.virtual_trace import apart, write_virtual_trace
from benchmarks.workloads import System, compose, fleet_spec
from lrtrace.report import write_report
from lrtrace.storage import Trace
from lrtrace.timeline import read_run

if TYPE_CHECKING:
    import argparse

SYSTEM = System('utility', policy='utility', max_running=8)
SCREENS = {'1440x900': (1440, 900, 1.0, False), '390x844': (390, 844, 3.0, True)}
MEBIBYTE = 1 << 20

USES = {
    'filter by robot': """
        const field = document.getElementById('filter-robot');
        field.value = 'robot_1'; field.dispatchEvent(new Event('input'));""",
    'no filter': """
        const field = document.getElementById('filter-robot');
        field.value = ''; field.dispatchEvent(new Event('input'));""",
    'only late': """
        const field = document.getElementById('filter-only');
        field.value = 'late'; field.dispatchEvent(new Event('change'));""",
    'all': """
        const field = document.getElementById('filter-only');
        field.value = ''; field.dispatchEvent(new Event('change'));""",
    'busiest': "document.querySelector('[data-do=busy]').click();",
    'zoom out': "document.querySelector('[data-do=out]').click();",
    'whole run': "document.querySelector('[data-do=fit]').click();",
    'every task': "document.querySelector('details').open = true;",
}
"""What a reader does, each timed until the frame after it was drawn."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--robots', type=COUNT, default=100)
    parser.add_argument('--duration', type=POSITIVE, default=600.0, help='virtual seconds')
    parser.add_argument('--seed', type=FROM_ZERO, default=1)
    parser.add_argument('--repeats', type=COUNT, default=5)
    parser.add_argument('--pictures', type=Path, help='folder for screenshots')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get('TMPDIR')) as folder:
        figures = measure(Path(folder), options)
    slowest = max(max(found['loads_s']) for found in figures['screens'].values())
    answers = [s for found in figures['screens'].values() for s in found['uses_s'].values()]
    targets = [
        Target('robots', figures['robots'], '>=', 100),
        Target('run (min)', figures['run_s'] / 60, '>=', 10),
        Target('size (MiB)', figures['bytes'] / MEBIBYTE, '<=', 10),
        Target('drawn and ready, slowest (s)', slowest, '<=', 2.0),
        Target('answer to a click, slowest (s)', max(answers), '<=', 1.0),
        Target('console messages', len(figures['logged']), '<=', 0),
    ]
    save('report', figures, targets, path=options.json)


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    workload = apart(compose(fleet_spec(options.robots, options.duration), options.seed))
    write_virtual_trace(folder / 'run', workload, SYSTEM)
    started_s = time.perf_counter()
    run = read_run(Trace(folder / 'run'))
    page = write_report([run], folder / 'report.html')
    made_s = time.perf_counter() - started_s
    print(f'{len(run.tasks)} tasks: {page.stat().st_size / MEBIBYTE:.1f} MiB in {made_s:.1f} s')
    browser = Browser(folder / 'profile')
    try:
        screens = {
            name: on_screen(browser, page, name, screen, options)
            for name, screen in SCREENS.items()
        }
    finally:
        browser.close()
    return {
        'robots': len(run.robots),
        'tasks': len(run.tasks),
        'segments': sum(len(task.segments) for task in run.tasks),
        'run_s': run.duration_s,
        'trace_bytes': Trace(folder / 'run').summary().size_bytes,
        'made_s': made_s,
        'bytes': page.stat().st_size,
        'screens': screens,
        'logged': browser.logged,
    }


def on_screen(
    browser: Browser,
    page: Path,
    name: str,
    screen: tuple[int, int, float, bool],
    options: argparse.Namespace,
) -> dict[str, Any]:
    width, height, ratio, mobile = screen
    browser.size(width, height, ratio=ratio, mobile=mobile)
    loads_s = [browser.open(page) for _ in range(options.repeats)]
    wide = browser.run('document.documentElement.scrollWidth')
    if wide > width:
        raise SystemExit(f'{name}: the page is {wide} wide: expected at most {width}')
    if options.pictures is not None:
        options.pictures.mkdir(parents=True, exist_ok=True)
        browser.picture(options.pictures / f'report_{name}.png')
    uses_s = {}
    for use, script in USES.items():
        took_ms = browser.run(
            f'new Promise((done) => {{ const begun = performance.now(); (() => {{ {script} }})(); '
            'requestAnimationFrame(() => requestAnimationFrame(() => '
            'done(performance.now() - begun))); })'
        )
        uses_s[use] = took_ms / 1000
        if use == 'only late' and options.pictures is not None:
            browser.picture(options.pictures / f'report_{name}_late.png')
    print(f'{name}: ready after {statistics.median(loads_s):.2f} s, at most {max(loads_s):.2f} s')
    return {'loads_s': loads_s, 'uses_s': uses_s}


if __name__ == '__main__':
    main()
