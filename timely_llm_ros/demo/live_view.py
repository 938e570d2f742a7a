"""Shows a fleet in the terminal: one row per robot and one line for the engine."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from timely_llm_ros.demo.fleet_model import FleetModel, RobotView, TaskView

_PHASE_STYLES = {
    'executing': 'bold green',
    'generating': 'bold magenta',
    'waiting': 'bold yellow',
    'idle': 'dim',
    'safe': 'bold cyan',
    'lost': 'bold red',
    'unknown': 'dim red',
}


def render(model: FleetModel, *, title: str, progress: str, now_s: float) -> RenderableType:
    """Return the view of a fleet at a moment of the clock of the model's events (s)."""
    # Eighty columns are enough for all but long skill calls; wider terminals show those too.
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=0, pad_edge=False)
    table.add_column('robot', style='bold', no_wrap=True, min_width=8)
    table.add_column('phase', no_wrap=True, min_width=10)
    table.add_column('task', no_wrap=True, min_width=12)
    table.add_column('current skill', no_wrap=True, ratio=1, overflow='ellipsis')
    table.add_column('next', no_wrap=True, min_width=7)
    table.add_column('deadline', justify='right', no_wrap=True, min_width=11)
    table.add_column('utility', justify='right', no_wrap=True, min_width=7)
    table.add_column('done', justify='right', no_wrap=True, min_width=4)
    for robot in model.robots.values():
        table.add_row(*_row(robot, now_s))
    return Panel(
        Group(table, _engine_line(model)),
        title=Text(title, style='bold'),
        subtitle=Text(progress),
        border_style='blue',
    )


def plain_line(model: FleetModel, *, title: str, progress: str) -> str:
    """Return the state of a fleet as one line of text, for logs."""
    acting = [
        f'{robot.name} {robot.call}'
        for robot in model.robots.values()
        if robot.phase == 'executing' and robot.call
    ]
    engine = model.engine
    return (
        f'{title} | {progress} | engine {engine.running} running, {engine.suspended} suspended, '
        f'{engine.queued} queued | {", ".join(acting) or "no robot acts"}'
    )


def _row(robot: RobotView, now_s: float) -> list[Text]:
    failed = f' ({robot.failed})' if robot.failed else ''
    done = Text(f'{robot.done}{failed}', style='red' if robot.failed else '')
    name, phase = Text(robot.name), Text(robot.phase, style=_PHASE_STYLES.get(robot.phase, ''))
    task = robot.task
    if task is None:
        return [name, phase, *[Text('')] * 5, done]
    urgent = task.utility is not None and task.utility.peak > 1.0
    return [
        name,
        phase,
        Text(task.kind.replace('_', ' '), style='bold red' if urgent else ''),
        Text(robot.call),
        Text('ready', style='green') if task.next_ready else Text('not yet', style='dim'),
        _deadline(task, now_s),
        _utility(task, now_s),
        done,
    ]


def _deadline(task: TaskView, now_s: float) -> Text:
    if task.utility is None:
        return Text('')
    if task.response_s is not None:
        kept = task.response_s <= task.utility.expected_response_s
        return Text(
            f'{"kept" if kept else "late"} {task.response_s:.2f} s',
            style='green' if kept else 'red',
        )
    left_s = task.deadline_left_s(now_s) or 0.0
    return Text(f'{left_s:.1f} s left' if left_s >= 0 else f'{-left_s:.1f} s over',
                style='yellow' if left_s >= 0 else 'bold red')  # fmt: skip


def _utility(task: TaskView, now_s: float) -> Text:
    value = task.utility_now(now_s)
    if value is None or task.utility is None:
        return Text('')
    full = value >= task.utility.peak - 1e-9
    return Text(f'{value:.2f}', style='green' if full else 'red' if value < 0 else 'yellow')


def _engine_line(model: FleetModel) -> Text:
    engine = model.engine
    line = Text('engine ', style='bold')
    line.append(f'{engine.engine or "starting"}  ', style='')
    for name, count, style in (
        ('running', engine.running, 'magenta'),
        ('suspended', engine.suspended, 'blue'),
        ('held', engine.held, 'cyan'),
        ('queued', engine.queued, 'yellow'),
    ):
        line.append(f'{name} ', style='dim')
        line.append(f'{count}  ', style=f'bold {style}' if count else 'dim')
    line.append('step ', style='dim')
    line.append(f'{engine.step_s * 1000:.1f} ms  ', style='')
    line.append('KV ', style='dim')
    line.append(f'{engine.kv_tokens}/{engine.kv_capacity_tokens}', style='')
    if model.responses_s:
        line.append('  median response ', style='dim')
        line.append(f'{median(model.responses_s):.2f} s', style='bold')
        line.append(f', {model.late} late', style='red' if model.late else 'dim')
    return line
