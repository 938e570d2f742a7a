"""A ROS domain that a test has for itself."""

from __future__ import annotations

import os
import socket

_DOMAINS = 100
"""Higher numbers would have DDS use ports that Linux hands out to anybody."""


def free_domain() -> int:
    """Return a ROS domain of which no program on this machine has the first participant's port.

    Under pytest-xdist every worker has domains of its own, so two workers never pick the same one.
    """
    workers = int(os.environ.get('PYTEST_XDIST_WORKER_COUNT', '1'))
    # One that takes the place of a worker that crashed has a number above.
    worker = int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')) % workers
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
