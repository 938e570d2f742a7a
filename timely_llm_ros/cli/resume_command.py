"""``timely-llm resume``: submits the tasks of a trace that had not ended to a running planner."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from timely_llm_ros.cli.client_process import ClientProcess
from timely_llm_ros.cli.shared import add_planner
from timely_llm_ros.command_line import EXIT_FAILED, EXIT_NO_PLANNER
from timely_llm_ros.errors import ConfigurationError, EngineError, ShutdownError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from lrtrace.run import RecordedTask, Run

_EXAMPLES = """\
examples:
  timely-llm resume runs/monday --dry-run
  timely-llm resume runs/monday
  timely-llm resume runs/monday --interrupted --robot drone_1 --namespace /site_a
"""

INTERRUPTED = (ShutdownError.code, EngineError.code)
"""Error codes of tasks that ended because planner or engine went down."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'After a crash: submit to a running planner the tasks that a trace accepted '
        'and never ended, in their order, each from its beginning, since nobody knows where its '
        'robot is now. Tasks of one robot wait for each other. The exit code is 0 if all '
        'succeeded, 1 if not, 3 if no planner answers.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('trace', help='a trace folder or an MCAP file; it may be cut off')
    parser.add_argument('--dry-run', action='store_true', help='list them and submit nothing')
    parser.add_argument(
        '--interrupted',
        action='store_true',
        help='also those that ended because planner or engine went down',
    )
    parser.add_argument(
        '--robot', action='append', default=[], help='only of this one; may be given again'
    )
    add_planner(parser)
    parser.set_defaults(run=_resume)


def open_tasks(
    run: Run, *, interrupted: bool = False, robots: Sequence[str] = ()
) -> list[RecordedTask]:
    """Return the tasks of these robots, by default of all, that had not ended.

    They are in the order of acceptance. ``interrupted`` adds those that ended because planner or
    engine went down.
    """
    return [
        task
        for task in run.tasks
        if (task.ended_s is None or (interrupted and task.error_code in INTERRUPTED))
        and (not robots or task.robot in robots)
    ]


def task_json(task: RecordedTask) -> dict[str, Any]:
    """Return a task as the plan client takes it."""
    return {
        'key': task.plan_id,
        'robot': task.robot,
        'skill_set': task.skill_set,
        'task_kind': '' if task.kind == 'other' else task.kind,
        'history': task.history,
        'instruction': task.instruction,
        'scene': [asdict(item) for item in task.scene.objects],
        'utility': {
            'expected_response_s': task.expected_response_s,
            'slope_per_s': task.slope_per_s,
            'peak': task.peak,
        },
        'time_budget_s': task.time_budget_s,
        'when_busy': 'queue',
    }


def _resume(options: argparse.Namespace) -> int:
    from lrtrace.storage import Trace
    from lrtrace.timeline import read_run

    run = read_run(Trace(options.trace))
    for robot in options.robot:
        if robot not in run.robots:
            raise ConfigurationError(
                f'robot {robot!r}: expected one of the trace: {", ".join(run.robots) or "none"}'
            )
    tasks = open_tasks(run, interrupted=options.interrupted, robots=options.robot)
    if run.damage:
        print(f'note: {run.damage}', file=sys.stderr)
    print(f'{len(tasks)} of {len(run.tasks)} tasks had not ended')
    if options.dry_run or not tasks:
        for task in tasks:
            done = sum(segment.ended_s is not None for segment in task.segments.values())
            print(f'  {task.robot}  {done} segments done  {task.instruction}')
        return 0
    return _submit(tasks, namespace=options.namespace, wait_s=options.wait)


def _submit(tasks: Sequence[RecordedTask], *, namespace: str, wait_s: float) -> int:
    with ClientProcess(namespace) as client:
        if not client.meets_planner(wait_s):
            return EXIT_NO_PLANNER
        for task in tasks:
            client.send(task_json(task))
        return _follow(client, {task.plan_id: task for task in tasks})


def _follow(client: ClientProcess, tasks: Mapping[str, RecordedTask]) -> int:
    left, failed = dict(tasks), 0
    while left:
        event = client.event_within(1.0)
        if event is None:
            continue
        if event['event'] == 'lost':
            print(f'error: {event["error"]}', file=sys.stderr)
            return EXIT_FAILED
        if event['event'] not in ('rejected', 'result') or event['key'] not in left:
            continue
        task = left.pop(event['key'])
        status = event.get('status', 'refused')
        failed += status != 'succeeded'
        why = f': {event["error"]}' if event['error'] else ''
        print(f'  {task.robot}  {status}  {task.instruction}{why}', flush=True)
    return EXIT_FAILED if failed else 0
