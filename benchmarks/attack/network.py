"""Two hosts on this machine, with a link between them that loses, doubles and delays packets.

Each host is a network namespace with shared memory of its own, so that programs on one reach those
on the other through the link alone. The link is a program that carries Ethernet frames between two
TAP devices: not every kernel has netem.

    python -m benchmarks.attack.network --seed 0

creates the second host, prints a line once the link is up, and then reads from its input what the
link does: ``{"loss": 0.05, "double": 0.02, "delay_s": 0.01}``.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.tello.mock import Link
from timely_llm_ros.processes import take_precedence

if TYPE_CHECKING:
    from collections.abc import Sequence

INSIDE = 'TIMELY_ATTACK_HOST'
"""Environment variable that says that a program runs on the first host."""

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
SHARED_MEMORY = '/dev/shm'  # noqa: S108 (it is mounted, not written)
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
FRAME_BYTES = 1 << 16


def enter_first_host(module: str, arguments: Sequence[str]) -> bool:
    """Start this program again on the first host, if the system allows it; else return.

    Returns:
        Whether it runs on the first host now.
    """
    if os.environ.get(INSIDE):
        _own_shared_memory()
        _ip('link set lo up')
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


def on_second_host(link_pid: int, command: Sequence[str]) -> list[str]:
    """Return the command that runs a program on the second host."""
    return ['nsenter', '--target', str(link_pid), '--net', '--mount', '--', *command]


def lost_datagrams() -> tuple[int, int]:
    """Return how many UDP datagrams found no room in their socket on this host, and how many came.

    Counted since the host began, whoever they were for.
    """
    lines = Path('/proc/net/snmp').read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith('Udp:'))
    found = dict(zip(names, map(int, values), strict=True))
    return found['RcvbufErrors'], found['RcvbufErrors'] + found['InDatagrams']


def _ip(arguments: str) -> None:
    subprocess.run(['ip', *arguments.split()], check=True)


def _open_tap(name: str, address: str) -> int:
    """Return the descriptor of a new device, through which this host reaches the other."""
    tap = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack('16sH22x', name.encode(), IFF_TAP | IFF_NO_PI))
    _ip('link set lo up')
    _ip(f'address add {address}/24 dev {name}')
    _ip(f'link set {name} up')
    _ip(f'route add 224.0.0.0/4 dev {name}')
    return tap


def _leave_host() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), 'unshare')
    _own_shared_memory()


def _own_shared_memory() -> None:
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', SHARED_MEMORY], check=True)


def _carry(source: int, sink: int, link: Link) -> None:
    try:
        frame = os.read(source, FRAME_BYTES)
    except BlockingIOError:
        return
    for delay_s in link.delays_s():
        asyncio.get_running_loop().call_later(delay_s, _write, sink, frame)


def _write(sink: int, frame: bytes) -> None:
    try:
        os.write(sink, frame)
    except BlockingIOError:
        # A full queue loses packets, as any link does.
        return


async def _carry_on(seed: int) -> None:
    first = _open_tap('attack0', '10.77.0.1')
    _leave_host()
    second = _open_tap('attack1', '10.77.0.2')
    loop, links = asyncio.get_running_loop(), []
    for source, sink in ((first, second), (second, first)):
        links.append(link := Link(f'{seed} {source}'))
        loop.add_reader(source, partial(_carry, source, sink, link))
    print('up', flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        for link in links:
            link.set(**json.loads(line))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seed', type=int, default=0, help='of what the link does to packets')
    seed = parser.parse_args().seed
    # No other work delays a cable.
    take_precedence()
    asyncio.run(_carry_on(seed))


if __name__ == '__main__':
    main()
