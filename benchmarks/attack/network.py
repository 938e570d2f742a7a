"""Two hosts on this machine, with a link between them that loses, doubles and delays packets.

Each host is a network namespace with shared memory of its own, so that programs on one reach those
on the other through the link alone; the first one is where the attack runs. The link is a program
that carries Ethernet frames between two TAP devices: not every kernel has netem.

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
import struct
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.common import own_shared_memory
from timely_llm_ros.drivers.tello.mock import Link
from timely_llm_ros.processes import take_precedence

if TYPE_CHECKING:
    from collections.abc import Sequence

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
FRAME_BYTES = 1 << 16


def on_second_host(link_pid: int, command: Sequence[str]) -> list[str]:
    """Return the command that runs a program on the second host."""
    return ['nsenter', '--target', str(link_pid), '--net', '--mount', '--', *command]


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
    own_shared_memory()


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
