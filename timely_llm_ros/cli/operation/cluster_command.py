"""``timely-llm cluster``: a Ray cluster for the engine ``ray``, by Ray's own tools."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from timely_llm_ros.engines.ray import connect, replicas, scale
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

JOIN_LIMIT_S = 5.0
"""How long the first machine may take to answer (s)."""

_EXAMPLES = """\
examples:
  timely-llm cluster up                          the first machine
  timely-llm cluster up --join FIRST_MACHINE:6379    the others
  timely-llm cluster status                      which replicas there are
  timely-llm cluster scale 6                     have six of them
  timely-llm cluster drain                       have one less, once its plans have ended
  timely-llm cluster down                        end what runs on this machine
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Start and end Ray on this machine, and look after the replicas of the engine ray.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('--address', default='auto', help="the cluster (default: this machine's)")
    parser.add_argument('--app', default='timely-llm', help='name of the replicas (%(default)s)')
    parts = parser.add_subparsers(required=True, metavar='WHAT')
    up = parts.add_parser('up', help='start Ray on this machine')
    up.add_argument('--join', default='', metavar='HOST:PORT', help='of the first machine')
    up.set_defaults(run=_up)
    parts.add_parser('down', help='end Ray on this machine').set_defaults(run=_down)
    parts.add_parser('status', help='show the replicas').set_defaults(run=_status)
    some = parts.add_parser('scale', help='have another number of replicas; too many drain')
    some.add_argument('replicas', type=int, help='how many')
    some.set_defaults(run=_scale)
    parts.add_parser('drain', help='have one replica less').set_defaults(run=_drain)


def _ray(*arguments: str) -> int:
    if find_spec('ray') is None:
        raise ConfigurationError('no Ray here: expected it (pip install "timely-llm-ros[ray]")')
    command = [sys.executable, '-m', 'ray.scripts.scripts', *arguments]
    return subprocess.run(command, check=False).returncode


def _require_reachable(address: str) -> None:
    """Require that somebody listens there: Ray itself tries for minutes and says little.

    Raises:
        ConfigurationError: Nobody does, or it is no address.
    """
    host, _, port = address.rpartition(':')
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigurationError(f'--join {address!r}: expected HOST:PORT of the first machine')
    try:
        socket.create_connection((host.strip('[]'), int(port)), JOIN_LIMIT_S).close()
    except OSError as err:
        raise ConfigurationError(
            f'--join {address}: {err.strerror or err}: expected the address that '
            '"timely-llm cluster up" told on the first machine'
        ) from err


def _up(options: argparse.Namespace) -> int:
    if options.join:
        _require_reachable(options.join)
    return _ray('start', *([f'--address={options.join}'] if options.join else ['--head']))


def _down(_: argparse.Namespace) -> int:
    return _ray('stop')


def _status(options: argparse.Namespace) -> int:
    connect(options.address)
    found = replicas(options.app)
    if not found:
        print(f'no replicas of {options.app!r}: the first planner with engine ray starts them')
    for one in found:
        print(f'{one.name:<16}{one.state:<12}{one.address:<18}{one.pid or ""}')
    return 0


def _scale(options: argparse.Namespace) -> int:
    return _set(options, options.replicas)


def _drain(options: argparse.Namespace) -> int:
    connect(options.address)
    running = sum(one.state == 'RUNNING' for one in replicas(options.app))
    if running < 2:
        raise ConfigurationError(f'{running} replicas run: expected 2 or more to drain one')
    return _set(options, running - 1)


def _set(options: argparse.Namespace, wanted: int) -> int:
    if wanted < 1:
        raise ConfigurationError(f'{wanted} replicas: expected at least 1')
    connect(options.address)
    scale(options.app, wanted)
    print(f'{options.app}: {wanted} replicas from now on; what is too many ends its plans first')
    return 0
