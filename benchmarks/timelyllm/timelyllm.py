"""TimelyLLM's experiments: figs. 5 to 10, tables 4 and 5, on simulated hardware, many draws;
and how near our own way comes to what no schedule exceeds.

    .venv/bin/python -m benchmarks.timelyllm.timelyllm [--only fig5 ...] [--seeds 20]
        [--hardware toy]
        [--images docs/images] [--results benchmarks/results]

Each prints its tables, writes ``timelyllm_NAME.json`` and a self-contained ``timelyllm_NAME.html``
to the folder of results and draws ``timelyllm_NAME.png``. The planner, the scheduler, the
segmenters and the executors are the real ones on virtual time; steps take what the preset says and
robots take what the workload says. Baselines stand at their own best largest batch unless a table
says otherwise; ``lookahead`` is this project's own way and has none to choose. U of a group is a
share of its peak.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks.common import COUNT, arguments, command, machine, new_folder, save
from benchmarks.common import FOLDER as RESULTS
from benchmarks.timelyllm.figures import EXPERIMENTS, Runs, draw, print_tables, write_page
from timely_llm_ros.engines.simulated import HARDWARE, find_hardware
from timely_llm_ros.errors import TimelyError

IMAGES = Path(__file__).resolve().parents[2] / 'docs' / 'images'


def main() -> None:
    parser = arguments(__doc__, json=False)
    parser.add_argument('--only', nargs='+', choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument('--seeds', type=COUNT, default=20, help='how many draws of each workload')
    parser.add_argument(
        '--hardware',
        default='toy',
        help=f'{", ".join(sorted(HARDWARE))} or a file of `timely-llm profile` (default toy)',
    )
    parser.add_argument('--images', type=new_folder, default=IMAGES)
    parser.add_argument('--results', type=new_folder, default=RESULTS)
    options = parser.parse_args()
    try:
        find_hardware(options.hardware)
    except TimelyError as err:
        parser.error(f'--hardware: {err}')
    # Not cut where it is written to a file.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    runs = Runs(range(options.seeds), options.hardware, console)
    for name in options.only:
        experiment = EXPERIMENTS[name]
        started_s = time.monotonic()
        with runs.experiment(f'{name}: {experiment.title}'):
            result = experiment.run(runs)
        print_tables(console, result)
        picture = options.images / f'timelyllm_{name}.png'
        draw(result, picture)
        save(
            f'timelyllm_{name}',
            result.figures,
            result.targets,
            path=options.results / f'timelyllm_{name}.json',
        )
        facts = (
            f'{command()}, {time.strftime("%Y-%m-%d", time.gmtime())}, {machine()["cpu"]}, '
            f'{options.seeds} draws, preset {options.hardware}'
        )
        path = options.results / f'timelyllm_{name}.html'
        write_page(experiment, result, picture=picture, path=path, facts=facts)
        console.print(f'{picture}, {path}; {time.monotonic() - started_s:.0f} s\n')


if __name__ == '__main__':
    main()
