"""``timely-llm profile-robot``: fits the durations of a robot's skills from recorded traces."""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING

from timely_llm_ros.cli.shared import add_force
from timely_llm_ros.command_line import require_new, write_new
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

_EXAMPLES = """\
examples:
  timely-llm profile-robot runs/monday runs/tuesday
  timely-llm profile-robot runs/* --skill-set tello --output tello_hall.yaml
  timely-llm profile-robot runs/monday --skill goto --skill move_up --min-calls 20 --force
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Fit how long the skills of a robot take, from traces of it, and write an '
        'overlay of its skill set with the evidence. Prints every duration before and after, and '
        'which skills had too few calls.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('trace', nargs='+', help='a trace folder or an MCAP file')
    parser.add_argument(
        '--skill-set', help='name or path (default: the one whose segments the traces have)'
    )
    parser.add_argument(
        '--skill', action='append', default=[], help='fit only this one; may be given again'
    )
    parser.add_argument(
        '--min-calls', type=int, default=10, help='fewer leave a skill alone (default: %(default)s)'
    )
    parser.add_argument('-o', '--output', help='the overlay (default: ./<skill set>_measured.yaml)')
    add_force(parser)
    parser.set_defaults(run=_profile)


def _profile(options: argparse.Namespace) -> int:
    from lrtrace.storage import Trace
    from timely_llm_ros.calibration import LEAST_CALLS, overlay_text, profile_skills, profile_table
    from timely_llm_ros.skills.loading import (
        compose,
        find_skill_file,
        find_skill_set,
        read_skill_file,
    )

    if options.min_calls < LEAST_CALLS:
        raise ConfigurationError(f'--min-calls {options.min_calls}: expected {LEAST_CALLS} or more')
    skill_set = None
    if options.skill_set is not None:
        file = find_skill_file(options.skill_set)
        if compose(read_skill_file(file), str(file)).has('extends'):
            raise ConfigurationError(
                f'skill set {options.skill_set!r}: is an overlay: expected the one that it extends'
            )
        skill_set = find_skill_set(options.skill_set)
    if options.output is not None:
        # Before the work: nobody waits for a fit that cannot be written.
        require_new(options.output, force=options.force)
    traces = [Trace(path) for path in options.trace]
    profile = profile_skills(
        traces, skill_set=skill_set, skills=options.skill, min_calls=options.min_calls
    )
    for trace in traces:
        if trace.damage:
            print(f'warning: {trace.path}: {trace.damage}', file=sys.stderr)
        if 'robots_are' in trace.custom_data:
            print(f'note: {trace.path}: robots are {trace.custom_data["robots_are"]}')
    print(profile_table(profile))
    if not profile.fits:
        raise ConfigurationError(
            f'skill set {profile.skill_set.name!r}: no skill was fitted: expected '
            f'{options.min_calls} measured calls of one; nothing is written'
        )
    output = options.output or f'{profile.skill_set.name}_measured.yaml'
    text = overlay_text(
        profile,
        extends=options.skill_set or profile.skill_set.name,
        output=output,
        date=datetime.datetime.now(datetime.UTC).date(),
    )
    write_new(output, text, force=options.force)
    print(f'\n{output}')
    return 0
