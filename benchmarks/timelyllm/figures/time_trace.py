"""Fig. 6: a normal and an urgent task of one event, served whole and served by urgency."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks.common import Target
from benchmarks.timelyllm.comparison import lookahead, whole_plan
from benchmarks.timelyllm.figures.common import OURS, TIMELY, WHOLE_PLAN, timely
from benchmarks.timelyllm.figures.experiment import Experiment, Result, Table
from benchmarks.workloads import PROFILES, WORKLOADS, System, compose, run_workload
from timely_llm_ros.planner import PlannerEvent, SegmentReady, SegmentStarted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.timelyllm.figures.runs import Runs
    from timely_llm_ros.evaluation import Workload

WORKLOAD = 'wid2'
NORMAL_KIND, URGENT_KIND = PROFILES[4].name, PROFILES[8].name
"""'find a toy' and 'evading animal pursuit'."""

WANTED = 71
"""The paper's normal task is the 71st, its urgent one the 72nd."""

SYSTEMS: dict[str, System] = {WHOLE_PLAN: whole_plan(12), TIMELY: timely(6), OURS: lookahead()}


@dataclass(frozen=True, slots=True)
class Piece:
    """One segment; times since the task came (s)."""

    generated_s: float
    started_s: float
    execution_s: float
    waiting_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """One task as one system served it."""

    system: str
    task: str
    expected_response_s: float
    utility: float
    response_s: float
    pieces: tuple[Piece, ...]


def run(runs: Runs) -> Result:
    """Serve one draw of ``wid2`` three ways and follow two tasks."""
    seed = runs.seeds[0]
    workload = compose(WORKLOADS[WORKLOAD], seed)
    normal, urgent = chosen(workload)
    lines = [
        line
        for name, system in SYSTEMS.items()
        for line in follow(runs, workload, name, system, (normal, urgent))
    ]
    rows = tuple(
        (
            line.system,
            line.task,
            f'{line.expected_response_s:g}',
            f'{line.response_s:.3f}',
            f'{sum(piece.waiting_s for piece in line.pieces):.3f}',
            f'{line.utility:.3f}',
        )
        for line in lines
    )
    at_s = workload.tasks[normal].at_s
    beside = sum(task.at_s == at_s for task in workload.tasks)
    title = f'{WORKLOAD}, draw {seed}, tasks {normal} and {urgent} of an event of {beside}'
    headers = ('system', 'task', 'expected (s)', 'response (s)', 'waiting (s)', 'utility')
    urgent_response = {line.system: line.response_s for line in lines if line.task.endswith('nt)')}
    return Result(
        (Table(title, headers, rows),),
        {'seed': seed, 'hardware': runs.hardware, 'lines': [asdict(line) for line in lines]},
        [
            Target(
                'urgent response of TimelyLLM over that of whole plan',
                urgent_response[TIMELY] / urgent_response[WHOLE_PLAN],
                '<=',
                1.0,
            )
        ],
        lambda figure: draw(figure, lines),
        (10.0, 3.6),
    )


def chosen(workload: Workload) -> tuple[int, int]:
    """Return the two neighbours of the wanted kinds in one event that are nearest the wanted."""
    tasks = workload.tasks
    pairs = [
        (n, m)
        for n, m in [*zip(range(len(tasks)), range(1, len(tasks)), strict=False)]
        if {tasks[n].kind, tasks[m].kind} == {NORMAL_KIND, URGENT_KIND}
        and tasks[n].at_s == tasks[m].at_s
    ]
    if not pairs:
        raise ValueError(f'{workload.name}: expected {NORMAL_KIND} and {URGENT_KIND} in one event')
    first, second = min(pairs, key=lambda pair: abs(pair[0] - WANTED))
    return (first, second) if tasks[first].kind == NORMAL_KIND else (second, first)


def follow(
    runs: Runs, workload: Workload, name: str, system: System, numbers: tuple[int, ...]
) -> list[Line]:
    """Serve the workload and return what became of some of its tasks."""
    ready: dict[str, list[float]] = {str(number): [] for number in numbers}
    started: dict[str, list[SegmentStarted]] = {str(number): [] for number in numbers}

    def see(event: PlannerEvent) -> None:
        if event.task_id not in ready:
            return
        if isinstance(event, SegmentReady):
            ready[event.task_id].append(event.token_at_s)
        elif isinstance(event, SegmentStarted):
            started[event.task_id].append(event)

    records = run_workload(workload, system, hardware=runs.hardware, on_event=see)
    lines = []
    for number in numbers:
        task, result = workload.tasks[number], records[number].result
        whole = system.mode == 'whole_plan'
        shapes_s = [shape.execution_s for shape in task.segments]
        executions_s = [sum(shapes_s)] if whole else shapes_s
        pieces = tuple(
            Piece(at_s - task.at_s, start.at_s - task.at_s, execution_s, start.waiting_s)
            for at_s, start, execution_s in zip(
                ready[str(number)], started[str(number)], executions_s, strict=True
            )
        )
        lines.append(
            Line(
                name,
                f'{task.kind} ({task.group})',
                workload.groups[task.group].expected_response_s,
                result.utility,
                result.response_s or 0.0,
                pieces,
            )
        )
    return lines


def draw(figure: Figure, lines: list[Line]) -> None:
    """Draw a bar per task: waiting, then segments being executed, dots where one was generated."""
    axis = figure.subplots()
    shades = ('#3b6fb6', '#7fa3d1')
    for place, line in enumerate(reversed(lines)):
        for number, piece in enumerate(line.pieces):
            axis.barh(
                place,
                piece.waiting_s,
                0.5,
                left=piece.started_s - piece.waiting_s,
                color='#d9705f',
            )
            axis.barh(place, piece.execution_s, 0.5, left=piece.started_s, color=shades[number % 2])
            axis.plot(piece.generated_s, place + 0.38, 'v', color='black', markersize=4)
        axis.plot([line.expected_response_s] * 2, [place - 0.4, place + 0.4], 'k--', linewidth=1)
    axis.set_yticks(
        range(len(lines)), [f'{line.system}\n{line.task}' for line in reversed(lines)], fontsize=8
    )
    axis.set_xlim(0, 4.0)
    axis.set_xlabel(
        's since the task came; red: the robot waits, blue: it acts (a shade per segment), '
        'triangle: segment generated, dashes: expected response',
        fontsize=8,
    )
    figure.tight_layout()


EXPERIMENT = Experiment(
    'fig6',
    'Time trace: a normal and an urgent task of one event of wid2',
    ('under whole plan (vLLM) the urgent task misses its 0.2 s, under TimelyLLM both are in time',),
    run,
)
