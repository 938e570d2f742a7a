"""A host of a benchmark's own on this machine: a network namespace with shared memory of its own.

Programs on it speak as fleets do. Where they must not reach the network, as on a machine that does
other things, rmw_fastrtps makes sockets without asking for room, and loses datagrams.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

INSIDE = 'TIMELY_OWN_HOST'
"""Environment variable that says that a program runs on a host of its own."""

SHARED_MEMORY = '/dev/shm'  # noqa: S108 (it is mounted, not written)


def enter_own_host(module: str, arguments: Sequence[str]) -> bool:
    """Start this program again on a host of its own, if the system allows it; else return.

    Returns:
        Whether it runs on a host of its own now.
    """
    if os.environ.get(INSIDE):
        own_shared_memory()
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
        return True
    ways = [['unshare', '--net', '--mount'], ['unshare', '--map-root-user', '--net', '--mount']]
    probe = [
        'sh',
        '-c',
        f'mount -t tmpfs tmpfs {SHARED_MEMORY} && ip tuntap add dev probe mode tap',
    ]
    if shutil.which('unshare') and shutil.which('nsenter') and shutil.which('ip'):
        for way in ways:
            if subprocess.run([*way, *probe], capture_output=True, check=False).returncode == 0:
                os.environ[INSIDE] = '1'
                os.execvp(way[0], [*way, sys.executable, '-m', module, *arguments])  # noqa: S606 (no shell is wanted)
    return False


def own_shared_memory() -> None:
    """Have shared memory that no program outside sees; in a mount namespace of its own."""
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', SHARED_MEMORY], check=True)


def lost_datagrams() -> tuple[int, int]:
    """Return how many UDP datagrams found no room in their socket on this host, and how many came.

    Counted since the host began, whoever they were for.
    """
    lines = Path('/proc/net/snmp').read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith('Udp:'))
    found = dict(zip(names, map(int, values), strict=True))
    return found['RcvbufErrors'], found['RcvbufErrors'] + found['InDatagrams']
