"""``timely-llm``: parses the command line and hands over to the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.cli import (
    compose_command,
    demo_command,
    doctor_command,
    generate_command,
    plan_command,
    profile_command,
    profile_robot_command,
    resume_command,
    serve_command,
    skills_command,
    train_commands,
    what_if_command,
)
from timely_llm_ros.command_line import make_parser, run_command

if TYPE_CHECKING:
    import argparse
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
  timely-llm what-if --policy utility,edf,fcfs demo_output/latest/segmented
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = make_parser(
        'timely-llm',
        description='Plan for a fleet of robots with a language model, segment by segment.',
        examples=_EXAMPLES,
    )
    commands = parser.add_subparsers(required=True, metavar='COMMAND', title='commands')
    for command in (
        demo_command, plan_command, serve_command, skills_command, doctor_command,
        profile_command, profile_robot_command, compose_command, generate_command,
        what_if_command, resume_command, train_commands,
    ):  # fmt: skip
        command.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    return run_command(build_parser(), arguments)
