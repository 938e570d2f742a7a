"""``timely-llm``: parses the command line and hands over to the command.

Only the module of the command that was asked for is loaded, so that help and short commands come at
once.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from importlib import import_module
from typing import TYPE_CHECKING

from timely_llm_ros.command_line import EXIT_INTERRUPTED, make_parser, missing_package, run_command

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMPLES = """\
examples:
  timely-llm demo                              fly a simulated fleet and compare two ways to plan
  timely-llm doctor                            check this machine
  timely-llm skills                            list what robots can do
  timely-llm skills check my_robot.yaml        check a skill-set file
  timely-llm serve                             serve the shipped model to planners elsewhere
  timely-llm profile                           measure the model on this machine
  timely-llm train-probe                       learn to predict how long plans will be
  timely-llm plan drone_1 "look for the cat" --scene scene.yaml
  timely-llm fleet fleet.yaml                  start planner, executors, recorder and window
  timely-llm halt                              bring every robot to rest, now
  timely-llm window                            see the fleet in a browser, and command it
  timely-llm what-if --policy utility,edf,fcfs demo_output/*/segmented
"""


COMMANDS = {
    'demo': ('demo_command', 'fly a simulated fleet and compare two ways to plan'),
    'plan': ('plan_command', 'give a running planner one task and follow it'),
    'resume': ('resume_command', 'submit the tasks of a trace again that had not ended'),
    'halt': (
        'operation.halt_command:add_halt_options', 'bring robots to rest until they are released',
    ),
    'release': (
        'operation.halt_command:add_release_options', 'have halted robots take tasks again',
    ),
    'fleet': (
        'operation.fleet_command', 'start a whole fleet: planner, executors, recorder, window',
    ),
    'cluster': (
        'operation.cluster_command', 'start Ray on this machine and look after its replicas',
    ),
    'security': (
        'operation.security_command', 'write what each program of a fleet may do, for SROS2',
    ),
    'logs': ('operation.logs_command', 'make JSON lines of what programs log'),
    'window': (
        'operation.window_command', 'show a fleet in a browser, or play recorded runs again',
    ),
    'approve': (
        'operation.approve_command', 'decide on what waits for approval before a robot does it',
    ),
    'audit': ('operation.audit_command', "check a planner's audit log"),
    'serve': ('serve_command', 'start a vLLM server for planners on other machines'),
    'skills': ('skills_command', 'list skill sets, or check a skill-set file'),
    'prompt': ('models.prompt_command', 'show what a model is told, and what it costs'),
    'doctor': ('doctor_command', 'check this machine and say what is missing'),
    'profile': ('profile_command', 'measure a model on this machine'),
    'profile-robot': ('profile_robot_command', 'fit the durations of skills from traces'),
    'evaluate': (
        'models.evaluate_command', 'have a model write plans for held-out tasks and judge them',
    ),
    'tune': ('models.tune_command', 'teach a general model the plans of one skill set'),
    'train-rlp': ('train_commands:add_rlp_options', 'train a predictor of response lengths'),
    'train-probe': ('train_commands:add_probe_options', 'train a probe of remaining lengths'),
    'generate': ('generate_command', 'generate plans for a file of prompts'),
    'what-if': (
        'what_if_command',
        'ask what if: the tasks of a trace under other policies, hardware or fleets',
    ),
    'compose': ('compose_command', 'make a workload of recorded tasks'),
}  # fmt: skip
"""The module of a command, whose ``add_options`` or the function that is named says what it takes,
and what the list of commands says of it."""


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Args:
        command: The one whose options it shall know; None for all of them.
    """
    parser = make_parser(
        'timely-llm',
        description='Plan for a fleet of robots with a language model, segment by segment.',
        examples=_EXAMPLES,
    )
    parsers = parser.add_subparsers(required=True, metavar='COMMAND', title='commands')
    for name, (place, what) in COMMANDS.items():
        one = parsers.add_parser(
            name, help=what, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if command in (name, None):
            module, _, function = place.partition(':')
            getattr(import_module(f'timely_llm_ros.cli.{module}'), function or 'add_options')(one)
            if one.description and '\n' not in one.description:
                one.description = textwrap.fill(one.description, 100)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    command = given[0] if given else ''
    try:
        # Loading the command takes a moment as well.
        return run_command(build_parser(command), given)
    except ModuleNotFoundError as err:
        print(f'error: {missing_package(err)}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
