"""A ROS domain for these tests alone."""

from __future__ import annotations

import os
import socket

_DOMAINS = 100
"""With higher numbers DDS would use ports that Linux gives to anybody."""


def free_domain() -> int:
    """Return a domain of which nobody on this machine uses the first participant's port.

    Tests that run beside these look at the same time: each worker has domains of its own.
    """
    workers = int(os.environ.get('PYTEST_XDIST_WORKER_COUNT', '1'))
    worker = int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw'))
    candidates = [
        domain
        for offset in range(_DOMAINS)
        if (domain := 1 + (os.getpid() + offset) % _DOMAINS) % workers == worker
    ]
    for domain in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(('', 7410 + 250 * domain))
            except OSError:
                continue
        return domain
    return candidates[0]
