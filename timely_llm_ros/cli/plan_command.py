"""``timely-llm plan``: one task for a running planner, with live feedback."""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from timely_llm_ros.cli.client_process import ClientProcess
from timely_llm_ros.cli.shared import add_planner
from timely_llm_ros.command_line import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NO_PLANNER, seconds
from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.utility import NORMAL, URGENT, TimeUtility

if TYPE_CHECKING:
    import argparse

MOST_OBJECTS = 1000
"""Of a drawn scene: more than any model reads."""

_RESULT = (
    'status', 'error_code', 'error', 'response_s', 'waiting_s', 'execution_s', 'completion_s',
    'utility', 'tokens', 'segments', 'generation_s',
)  # fmt: skip
_BUDGETED = ('predicted_tokens', 'predicted_s', 'worst_s', 'eviction_ratio')
"""What the result of a task with a time budget says beside."""

_EXAMPLES = """\
examples:
  timely-llm plan drone_1 "look for the cat" --scene scene.yaml
  timely-llm plan arm_1 --sample sort --seed 3
  timely-llm plan drone_2 "fly back" --urgent --queue
  timely-llm plan drone_1 "check on the dog" --scene scene.json --deadline 0.5 --budget 3 --json

A scene file is a list of objects, for example
  - {name: cat_3, kind: cat, attribute: black, relation: under, support: table, x_m: 2.0, y_m: -1.0}
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Give a running planner one task and follow it until it ends. The exit code '
        'is 0 if the task succeeded, 1 if not, 3 if no planner answers, 130 after Ctrl-C, which '
        'cancels the task.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('robot', help='name of the robot')
    parser.add_argument('instruction', nargs='?', help='what to do, in words')
    parser.add_argument('--scene', type=Path, metavar='FILE', help='objects, as YAML or JSON')
    parser.add_argument(
        '--sample',
        metavar='KIND',
        help='draw scene and instruction of that kind of task instead, for example look_for',
    )
    parser.add_argument('--objects', type=int, default=10, help='of a drawn scene (default: 10)')
    parser.add_argument('--seed', type=int, default=0, help='of a drawn scene (default: 0)')
    parser.add_argument('--skill-set', default='', help="default: the robot's own")
    parser.add_argument(
        '--kind', default='', help='label of the task; those of one kind are expected to cost alike'
    )
    parser.add_argument('--client', default='', help='who asks, where the planner looks at that')
    parser.add_argument('--urgent', action='store_true', help='use the utility of urgent tasks')
    parser.add_argument(
        '--deadline', type=float, metavar='SECONDS', help='expected response time (default: 1.0)'
    )
    parser.add_argument(
        '--slope', type=float, help='utility lost per second after that (default: -2.0)'
    )
    parser.add_argument('--peak', type=float, help='highest utility (default: 1.0)')
    parser.add_argument(
        '--budget',
        type=seconds,
        metavar='SECONDS',
        help='the whole generation must end within this',
    )
    parser.add_argument(
        '--overrun', choices=('kill', 'skip_next'), default='kill', help='what happens if not'
    )
    parser.add_argument(
        '--queue', action='store_true', help="wait behind the robot's task, not abort it"
    )
    add_planner(parser)
    parser.add_argument('--json', action='store_true', help='print the result as JSON only')
    parser.set_defaults(run=_run)


def task_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the task that the options describe.

    Raises:
        TimelyError: An option cannot be used.
    """
    if (options.instruction is None) == (options.sample is None):
        raise ConfigurationError('expected either an instruction or --sample KIND')
    if options.budget == 0:
        raise ConfigurationError('--budget 0: expected more than 0 s, or no budget')
    if options.sample is not None:
        instruction, scene = _sampled(options.sample, options.objects, options.seed)
    else:
        instruction = options.instruction
        scene = Scene() if options.scene is None else read_scene(options.scene)
    base = URGENT if options.urgent else NORMAL
    utility = TimeUtility(
        base.expected_response_s if options.deadline is None else options.deadline,
        base.slope_per_s if options.slope is None else options.slope,
        base.peak if options.peak is None else options.peak,
    )
    return {
        'key': 'task',
        'robot': options.robot,
        'skill_set': options.skill_set,
        'task_kind': options.kind or options.sample or '',
        'client': options.client,
        'overrun': options.overrun,
        'when_busy': 'queue' if options.queue else 'abort',
        'time_budget_s': options.budget,
        'instruction': instruction,
        'scene': [asdict(item) for item in scene.objects],
        'utility': utility.as_dict(),
    }


def read_scene(path: Path) -> Scene:
    """Read a list of objects from a YAML or JSON file.

    Raises:
        ConfigurationError: It cannot be read or is no list of objects.
        InvalidTaskError: An object is malformed.
    """
    try:
        loaded = yaml.safe_load(path.read_text(encoding='utf-8'))
    except OSError as err:
        raise ConfigurationError(f'scene {str(path)!r}: cannot be read: {err.strerror}') from err
    except (UnicodeDecodeError, yaml.YAMLError) as err:
        # YAML's own text has several lines.
        text = ' '.join(str(err).split())
        raise ConfigurationError(f'scene {str(path)!r}: cannot be read: {text}') from err
    if isinstance(loaded, dict):
        loaded = loaded.get('objects')
    if not isinstance(loaded, list):
        raise ConfigurationError(f'scene {str(path)!r}: expected a list of objects')
    objects = []
    for number, item in enumerate(loaded, 1):
        if not isinstance(item, dict):
            raise InvalidTaskError(
                f'scene {str(path)!r}, object {number}: {item!r}: expected keys with values'
            )
        where = f'scene {str(path)!r}, object {number}'
        names = [one.name for one in fields(SceneObject)]
        for key, value in item.items():
            if key not in names:
                raise InvalidTaskError(f'{where}: key {key!r}: expected one of {", ".join(names)}')
            kind = (int, float) if key.endswith(('_m', '_s')) else str
            if isinstance(value, bool) or not isinstance(value, kind):
                expected = 'text' if kind is str else 'a number'
                raise InvalidTaskError(f'{where}: {key} {value!r}: expected {expected}')
        for key in ('name', 'kind'):
            if key not in item:
                raise InvalidTaskError(f'{where}: expected the key {key!r}')
        try:
            objects.append(SceneObject(**item))
        except InvalidTaskError as err:
            raise InvalidTaskError(f'{where}: {err}') from err
    return Scene(tuple(objects))


def _sampled(kind: str, objects: int, seed: int) -> tuple[str, Scene]:
    from timely_llm_ros.sample_tasks import KINDS, sample_task

    numbers = {spec.name: spec.number for spec in KINDS.values()}
    if kind not in numbers:
        raise ConfigurationError(f'--sample {kind!r}: expected one of {", ".join(numbers)}')
    least = KINDS[numbers[kind]].min_objects
    if not least <= objects <= MOST_OBJECTS:
        expected = f'expected {least} to {MOST_OBJECTS} for --sample {kind}'
        raise ConfigurationError(f'--objects {objects}: {expected}')
    sample = sample_task(random.Random(seed), numbers[kind], objects)
    return sample.instruction, sample.scene


def _run(options: argparse.Namespace) -> int:
    task = task_of(options)
    with ClientProcess(options.namespace) as client:
        if not client.meets_planner(options.wait):
            return EXIT_NO_PLANNER
        return _follow(client, task, _Narrator(quiet=options.json))


def _follow(client: ClientProcess, task: dict[str, Any], say: _Narrator) -> int:
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    say.line(f'{task["robot"]}: {task["instruction"]}')
    client.send(task)
    canceled = False
    while True:
        if interrupted.is_set() and not canceled:
            canceled = True
            say.line('cancelling')
            client.send({'cancel': 'task'})
        event = client.event_within(0.1)
        if event is None:
            continue
        match event['event']:
            case 'feedback':
                say.feedback(event)
            case 'lost':
                print(f'error: {event["error"]}', file=sys.stderr)
                return EXIT_FAILED
            case 'rejected':
                print(f'error: refused: {event["error"]}', file=sys.stderr)
                return EXIT_FAILED
            case 'result':
                say.result(event)
                if canceled:
                    return EXIT_INTERRUPTED
                return 0 if event['status'] == 'succeeded' else EXIT_FAILED


class _Narrator:
    """Prints what happens to a task, once per change."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._start_s = time.monotonic()
        self._last: tuple[str, str] | None = None

    def line(self, text: str) -> None:
        if not self._quiet:
            print(f'{time.monotonic() - self._start_s:7.2f} s  {text}', flush=True)

    def feedback(self, event: dict[str, Any]) -> None:
        state = (event['phase'], event['call'])
        if state == self._last:
            return
        self._last = state
        call = f'  {event["call"]}' if event['call'] else ''
        self.line(f'{event["phase"]:<10} {event["segments"]} segments{call}')

    def result(self, event: dict[str, Any]) -> None:
        names = _RESULT + (_BUDGETED if event['predicted_tokens'] else ())
        if self._quiet:
            print(json.dumps({name: event[name] for name in names}))
            return
        for name in names:
            value = event[name]
            if name == 'error_code' and value:
                value = event['error_name']
            if value != '' and not (name == 'error_code' and value == 0):
                shown = f'{value:.3f}' if isinstance(value, float) else value
                print(f'  {name:<13} {shown}')
