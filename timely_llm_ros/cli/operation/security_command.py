"""``timely-llm security``: policies of least right for the programs of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

_EXAMPLES = """\
examples:
  timely-llm security init fleet.yaml -o policy.xml
  ros2 security generate_artifacts -k keystore -p policy.xml
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Write what each program of a fleet may do on the ROS graph, in the format from which '
        '"ros2 security" makes keys, certificates and signed permissions.'
    )
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(metavar='ACTION', title='actions', required=True)
    init = actions.add_parser(
        'init',
        help='write the policy of a fleet',
        description='Write the policy of a fleet: an enclave with the least rights for each of its '
        'programs, one for clients that send tasks, and one for operators.',
    )
    init.add_argument('file', help='YAML file of the fleet, as timely-llm fleet takes it')
    init.add_argument('-o', '--output', default='policy.xml', help='default: %(default)s')
    init.add_argument('--force', action='store_true', help='write over a file that is there')
    init.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    from timely_llm_ros.cli.operation.fleet_file import read_fleet_file
    from timely_llm_ros.cli.operation.security_policy import fleet_profiles, policy_xml

    profiles = fleet_profiles(read_fleet_file(Path(options.file)))
    output = Path(options.output)
    if output.exists() and not options.force:
        raise ConfigurationError(f'{output}: expected no such file yet (--force writes over it)')
    output.write_text(policy_xml(profiles), encoding='utf-8')
    print(f'{output}: {len(profiles)} enclaves')
    for profile in profiles:
        print(f'  {profile.enclave}')
    return 0
