"""The demo from its first to its last line: two runs of the same tasks, tables, a report."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import importlib.util
import os
import shlex
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from lrtrace.report import write_report
from lrtrace.storage import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.demo.bodies import Bodies, MockBodies, RosBodies
from timely_llm_ros.demo.live_view import plain_line, render
from timely_llm_ros.demo.model_server import start_server, wait_until_served
from timely_llm_ros.demo.processes import Children, ProcessEndedError
from timely_llm_ros.demo.run import DemoRun
from timely_llm_ros.demo.summary import budget_table, headline, slow_engine, summary_table
from timely_llm_ros.demo.window_page import show_address
from timely_llm_ros.demo.workload import (
    fleet,
    make_rooms,
    make_workload,
    ros_fleet,
    with_budgets,
)
from timely_llm_ros.demo.world_bodies import WorldBodies, room_makers
from timely_llm_ros.demo.world_verdict import verdict_line
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.errors import ConfigurationError, TimelyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from timely_llm_ros.demo.options import DemoOptions
    from timely_llm_ros.demo.workload import Robot
    from timely_llm_ros.skills import Scene

MODES = (('segmented', 'least_loss'), ('whole_plan', 'fcfs'))
"""Serving mode and policy of the runs, the one that the demo is about first."""

SHOW_PERIOD_S = 0.1
PLAIN_PERIOD_S = 5.0


def run_demo(options: DemoOptions, console: Console) -> int:
    """Run the demo; return the exit code: 0, 1 if anything failed, 130 after Ctrl-C.

    Raises:
        ConfigurationError: An option cannot be used.
    """
    started_s = time.monotonic()
    robots = (ros_fleet if options.drivers == 'ros' else fleet)(options.robots)
    rooms = _rooms(options, robots)
    tasks = make_workload(robots, options.tasks, options.seed, rooms)
    if not options.model:
        tasks = with_budgets(tasks)
    folder = _make_folder(options.output)
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    os.environ.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    children = Children(folder / 'logs')
    bodies = _bodies(options, robots, folder, rooms)
    tasks = tuple(map(bodies.fit, tasks))
    runs = [
        DemoRun(
            options, mode, policy, robots, tasks, folder=folder, children=children, bodies=bodies
        )
        for mode, policy in MODES
    ]
    _introduce(options, len(robots), tasks[-1].at_s, console)
    code = asyncio.run(_serve(runs, children, options, console))
    if code == 130:
        console.print('Stopped. The robots are safe and the traces whole; see', str(folder))
        return code
    if code != 0:
        console.print(f'Logs: {folder / "logs"}', style='dim')
        return code
    _conclude(runs, options.pace_s, folder, console)
    failures = [f'{run.title}: {line}' for run in runs for line in run.failed]
    for failure in failures:
        console.print(Text(f'failed: {failure}', style='yellow' if options.model else 'red'))
    console.print(f'{time.monotonic() - started_s:.0f} s in all', style='dim')
    return 1 if failures and not options.model else 0


def _make_folder(output: Path | None) -> Path:
    if output is None:
        output = Path('demo_output') / f'{datetime.datetime.now():%Y%m%d_%H%M%S}'
    try:
        output.mkdir(parents=True)
        (output / 'logs').mkdir()
    except OSError as err:
        raise ConfigurationError(
            f'output folder {str(output)!r}: expected one that does not exist and can be made: '
            f'{err.strerror}'
        ) from err
    return output.resolve()


def _rooms(options: DemoOptions, robots: tuple[Robot, ...]) -> dict[Robot, Scene]:
    if options.drivers != 'world':
        return {}
    return make_rooms(robots, options.seed, room_makers())


def _bodies(
    options: DemoOptions, robots: tuple[Robot, ...], folder: Path, rooms: dict[Robot, Scene]
) -> Bodies:
    file = folder / 'drivers.yaml'
    match options.drivers:
        case 'simulated':
            return Bodies()
        case 'mock':
            if importlib.util.find_spec('djitellopy') is None:
                raise ConfigurationError(
                    "drivers 'mock': expected djitellopy to be installed "
                    "(make setup-dev, or pip install 'timely_llm_ros[tello]')"
                )
            return MockBodies(robots, file)
        case 'ros':
            return RosBodies(robots, file)
        case 'world':
            return WorldBodies(robots, folder, rooms, options.seed)


def _introduce(options: DemoOptions, robots: int, last_s: float, console: Console) -> None:
    kind = 'mock' if options.drivers in ('mock', 'ros') else 'simulated'
    place = ' in a world with physics' if options.drivers == 'world' else ''
    console.print(
        f'[bold]{robots} {kind} robots{place}, {options.tasks} tasks, planned twice by a language '
        f'model over ROS 2[/bold] (domain {os.environ["ROS_DOMAIN_ID"]}).'
    )
    if options.model:
        console.print(
            f'{Path(options.model).name} plans. What it was not taught it may plan wrongly: then '
            'its tasks fail, and those that take too long are cancelled.'
        )
    elif options.engine == 'torch' and options.pace_s:
        console.print(
            f'The shipped model is small and fast; its engine is paced to '
            f'{options.pace_s * 1000:g} '
            f'ms per step and serves {options.batch} generations at once, '
            'so that robots have to share it as they would a large model.'
        )
    about = f'up to {last_s + 150:.0f}' if options.model else f'about {last_s + 15:.0f}'
    console.print(f'Each run takes {about} s. Ctrl-C stops safely.', style='dim')


async def _serve(
    runs: Sequence[DemoRun], children: Children, options: DemoOptions, console: Console
) -> int:
    loop = asyncio.get_running_loop()
    work = asyncio.create_task(_serve_all(runs, children, options, console))
    interrupted = asyncio.Event()

    def interrupt() -> None:
        # Once: a second Ctrl-C must not interrupt the safe end.
        if not interrupted.is_set():
            interrupted.set()
            work.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        await work
    except asyncio.CancelledError:
        return 130
    except ProcessEndedError as err:
        console.print(Text(f'error: {err}. The end of its log:', style='bold red'))
        console.print(Text(err.log_tail or '(nothing)'))
        return 1
    except TimelyError as err:
        console.print(Text(f'error: {err}', style='bold red'))
        return 1
    finally:
        await children.stop_all()
    return 0


async def _start_server(
    runs: Sequence[DemoRun], children: Children, options: DemoOptions, console: Console
) -> None:
    model = find_model(options.model)
    console.print(f'Starting a vLLM server with {Path(model).name}.')
    server, url = start_server(children, options.batch, model)
    await wait_until_served(
        server,
        children,
        lambda passed_s: console.print(f'the server is loading: {passed_s:.0f} s', style='dim'),
    )
    for run in runs:
        run.options = replace(run.options, servers=(url,))


async def _serve_all(
    runs: Sequence[DemoRun], children: Children, options: DemoOptions, console: Console
) -> None:
    if options.engine == 'openai' and not options.servers:
        await _start_server(runs, children, options, console)
    page = asyncio.create_task(show_address(children, console))
    try:
        await _fly_all(runs, options, console)
    finally:
        page.cancel()


async def _fly_all(runs: Sequence[DemoRun], options: DemoOptions, console: Console) -> None:
    for number, run in enumerate(runs, 1):
        title = f'run {number} of {len(runs)}: {run.title}'
        showing = asyncio.create_task(_show(run, title, options.live, console))
        try:
            await run.start()
            await run.serve()
        finally:
            showing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await showing
            await run.stop()
        console.print(
            f'{title}: {run.model.done} of {len(run.results)} tasks succeeded, '
            f'{run.model.late} late responses, {run.refused} refused as it should be'
        )
        if run.verdicts:
            console.print(Text(verdict_line(run.verdicts.values())), style='bold')


async def _show(run: DemoRun, title: str, live: bool, console: Console) -> None:
    if not live:
        while True:
            console.print(
                Text(plain_line(run.model, title=title, progress=run.progress)), soft_wrap=True
            )
            await asyncio.sleep(PLAIN_PERIOD_S)
    with Live(console=console, auto_refresh=False, transient=True) as screen:
        while True:
            screen.update(
                render(run.model, title=title, progress=run.progress, now_s=time.monotonic()),
                refresh=True,
            )
            await asyncio.sleep(SHOW_PERIOD_S)


def _conclude(runs: Sequence[DemoRun], pace_s: float, folder: Path, console: Console) -> None:
    records = [read_run(Trace(run.trace)) for run in runs]
    report = write_report(records, folder / 'report.html')
    console.print(summary_table(records))
    console.print(headline(records), style='bold')
    if slow := slow_engine(records, pace_s):
        console.print(slow, style='yellow')
    if any(run.budgeted for run in runs):
        console.print(budget_table([(run.mode, run.budgeted) for run in runs]))
    for run in runs:
        console.print(Text(f'trace   {run.trace}'), soft_wrap=True)
    console.print(Text(f'report  {report}'), soft_wrap=True)
    console.print(Text(f'next    {next_command(runs[0].trace)}', style='bold'), soft_wrap=True)


def next_command(trace: Path) -> str:
    """Return what to try after the demo: the same tasks under other policies, from a trace."""
    program = Path(sys.executable).with_name('timely-llm')
    here = Path.cwd()
    words = [
        str(path.relative_to(here) if path.is_relative_to(here) else path)
        for path in (program, trace)
    ]
    if not program.is_file():
        words[0] = program.name
    return shlex.join([words[0], 'what-if', '--policy', 'utility,edf,fcfs', words[1]])
