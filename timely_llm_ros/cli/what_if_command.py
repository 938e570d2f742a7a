"""``timely-llm what-if``: what if the tasks of a trace had been served otherwise."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from lrtrace.report import write_report
from lrtrace.storage import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.engines import ModelConfig, create_engine, find_engine
from timely_llm_ros.engines.simulated import find_hardware
from timely_llm_ros.errors import ConfigurationError, TraceError
from timely_llm_ros.evaluation.what_if import (
    AS_RECORDED,
    WhatIf,
    draw,
    hardware_of,
    model_error,
    outcome,
    own_way,
    recording_of,
    replay,
    replay_live,
    require_matplotlib,
    table,
    what_ifs,
)
from timely_llm_ros.scheduling import SchedulingOptions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lrtrace.run import Run
    from timely_llm_ros.engines import Engine
    from timely_llm_ros.evaluation.what_if import ModelError, Outcome, Recording

MOST_ROBOTS = 100_000
"""A larger fleet than anybody has: more is a slip of the keyboard, and would never end."""

_DESCRIPTION = """\
Serve the tasks of a trace again, with the real planner on virtual time and a simulated engine,
and compare. Arrivals, robots, time utilities, tokens and execution times are the recorded ones.
Values joined by commas are tried in every combination."""

_EXAMPLES = """\
examples:
  timely-llm what-if my_run
  timely-llm what-if --policy utility,edf,fcfs --hardware recorded,h200_llama3_8b my_run
  timely-llm what-if --mode segmented,whole_plan --html what_if.html my_run
  timely-llm what-if --robots 10,20,40 --figure what_if.png my_run
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    parser.add_argument('trace', help='a trace folder or an MCAP file')
    parser.add_argument(
        '--policy', default='least_loss,utility,edf,fcfs', help='policies (default: %(default)s)'
    )
    parser.add_argument('--mode', default='segmented', help='serving modes (default: %(default)s)')
    parser.add_argument(
        '--hardware',
        default='recorded',
        help='presets or profile files; recorded: fitted to the trace (default: %(default)s)',
    )
    parser.add_argument(
        '--robots', default='', help='sizes of the fleet (default: the recorded robots)'
    )
    parser.add_argument(
        '--max-running',
        type=int,
        help='most generations in one engine step (default: the most that the trace shows)',
    )
    parser.add_argument(
        '--admission',
        default=SchedulingOptions().admission,
        help="the scheduler's admission (default: %(default)s)",
    )
    parser.add_argument(
        '--engine',
        default='simulated',
        help='simulated: on virtual time, with the recorded plans. torch or another that runs a '
        'model: in real time, with plans of its own (default: %(default)s)',
    )
    parser.add_argument('--model', help='model of another engine than simulated (default: its own)')
    parser.add_argument('--figure', help='draw a PNG; needs matplotlib (pip install matplotlib)')
    parser.add_argument('--html', help='write a report of all runs that opens offline')
    parser.add_argument('--json', action='store_true', help='print the figures as JSON only')
    parser.set_defaults(run=_replay)


def _replay(options: argparse.Namespace) -> int:
    chosen = _chosen(options)
    if options.engine != 'simulated':
        _require_live(options)
    elif options.model:
        raise ConfigurationError(
            f'--model {options.model!r}: expected an engine that runs one, such as --engine torch'
        )
    if options.figure:
        require_matplotlib()
    for hardware in {what_if.hardware for what_if in chosen} - {AS_RECORDED}:
        find_hardware(hardware)
    trace = Trace(options.trace)
    run = read_run(trace, label='recorded')
    splits = any(what_if.mode != 'whole_plan' for what_if in chosen)
    recording = recording_of(run, split_plans=splits)
    plan_ids = {task.record.plan_id for task in recording.tasks if task.compared}
    own, again = own_way(recording, chosen[0]), None
    if own is not None:
        with suppress(TraceError):
            # Its step times cannot be fitted: then nothing can be said about the model's error.
            again = replay(recording, own, label='replayed as it was')
    several = len({what_if.hardware for what_if in chosen}) > 1
    if options.engine == 'simulated':
        replays = [
            replay(recording, what_if, label=what_if.label(hardware=several))
            for what_if in chosen
            # The run's own way is not served a second time under another name.
            if again is None or what_if != own
        ]
    else:
        replays = [_live(options, trace, recording, what_if) for what_if in chosen]
    runs = [*([again] if again is not None else []), *replays]
    recorded = outcome(run, plan_ids)
    outcomes = [outcome(one, plan_ids) for one in runs]
    error = model_error(run, again, plan_ids) if again is not None else None
    if options.json:
        print(_as_json(recording, recorded, outcomes, error))
    else:
        _print(recording, chosen, recorded, outcomes, error)
    if options.figure:
        print(draw([run, *runs], plan_ids, options.figure), file=sys.stderr)
    if options.html:
        print(write_report([run, *runs], options.html, title='What if'), file=sys.stderr)
    return 0


def _require_live(options: argparse.Namespace) -> None:
    find_engine(options.engine)
    for name, default in (('hardware', 'recorded'), ('robots', '')):
        value = getattr(options, name)
        if value != default:
            raise ConfigurationError(
                f'--{name} {value!r}: expected engine simulated: others run as fast as this '
                'machine does, with the recorded robots'
            )


def _live(options: argparse.Namespace, trace: Trace, recording: Recording, what_if: WhatIf) -> Run:
    def make() -> Engine:
        config = find_engine(options.engine)(
            mode=what_if.mode,
            policy=what_if.policy,
            max_running=what_if.max_running or recording.max_running,
            scheduling=what_if.scheduling,
        )
        if options.model:
            if not isinstance(config, ModelConfig):
                raise ConfigurationError(
                    f'--model {options.model!r}: expected none, engine {config.name!r} has no model'
                )
            config = replace(config, model_path=options.model)
        return create_engine(config)

    label = f'{what_if.label(hardware=False)}, {options.engine}'

    def tell(ended: int, passed_s: float) -> None:
        print(
            f'\r{label}: {ended} of {len(recording.tasks)} tasks ended, {passed_s:.0f} s',
            end='',
            file=sys.stderr,
            flush=True,
        )

    shown = tell if sys.stderr.isatty() else None
    return replay_live(trace, recording, what_if, make, label=label, on_progress=shown)


def _chosen(options: argparse.Namespace) -> list[WhatIf]:
    return what_ifs(
        policies=_words('policy', options.policy),
        modes=_words('mode', options.mode),
        hardware=_words('hardware', options.hardware),
        robots=_sizes(options.robots),
        max_running=options.max_running,
        scheduling=SchedulingOptions(admission=options.admission),
    )


def _words(option: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(',')]
    if not all(words):
        raise ConfigurationError(f'--{option} {text!r}: expected names joined by commas')
    return words


def _sizes(text: str) -> list[int | None]:
    if not text:
        return [None]
    sizes: list[int | None] = []
    for word in _words('robots', text):
        size = int(word) if word.isdecimal() and len(word) <= len(str(MOST_ROBOTS)) else 0
        if not 1 <= size <= MOST_ROBOTS:
            raise ConfigurationError(
                f'--robots {word[:20]!r}: expected a whole number from 1 to {MOST_ROBOTS}'
            )
        sizes.append(size)
    return sizes


def _print(
    recording: Recording,
    chosen: Sequence[WhatIf],
    recorded: Outcome,
    outcomes: Sequence[Outcome],
    error: ModelError | None,
) -> None:
    run = recording.run
    way = ', '.join(filter(None, (run.mode.replace('_', ' '), run.policy))) or 'not in the trace'
    load = len(recording.tasks) - recording.compared
    print(f'trace      {run.path}: {len(run.robots)} robots, {run.duration_s:.1f} s')
    print(
        f'tasks      {recording.compared} compared'
        + (f'; {load} that did not succeed are only load' if load else '')
        + (
            f'; {recording.left_out} without a recorded segment left out'
            if recording.left_out
            else ''
        )
    )
    print(f'served     {way}; engine {run.engine or "unknown"}')
    for name in dict.fromkeys(what_if.hardware for what_if in chosen):
        print(f'hardware   {name}: {hardware_of(recording, name).about}')
    batch = chosen[0].max_running or recording.max_running
    print(
        f'replay     at most {batch} generations in a step, '
        f'{1000 * recording.network_s:.1f} ms from the engine to a robot'
    )
    if recording.split:
        print(
            '           whole plans are split by length of text: tokens per segment are estimates'
        )
    print()
    print(table(recorded, outcomes))
    print()
    print('times in s; differences to the recorded run in brackets; late: first action after the')
    print('expected response time, or never')
    if error is not None:
        print(f'model error, the run replayed as it was, task by task: {error}')
    else:
        print('model error: unknown, the trace does not say how the run was served or how long its')
        print('steps took')


def _as_json(
    recording: Recording,
    recorded: Outcome,
    outcomes: Sequence[Outcome],
    error: ModelError | None,
) -> str:
    content = {
        'trace': recording.run.path,
        'compared': recording.compared,
        'only_load': len(recording.tasks) - recording.compared,
        'left_out': recording.left_out,
        'plans_split': recording.split,
        'network_s': recording.network_s,
        'recorded': recorded.as_dict(),
        'replays': [outcome.as_dict() for outcome in outcomes],
        'model_error': None if error is None else asdict(error),
    }
    return json.dumps(content, indent=1, allow_nan=False)
