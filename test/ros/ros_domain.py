"""A ROS domain for these tests alone."""

from __future__ import annotations

import os
import socket

_DOMAINS = 100
"""With higher numbers DDS would use ports that Linux gives to anybody."""


def free_domain() -> int:
    """Return a domain of which nobody on this machine uses the first participant's port."""
    candidates = [1 + (os.getpid() + offset) % _DOMAINS for offset in range(_DOMAINS)]
    for domain in candidates:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(('', 7410 + 250 * domain))
            except OSError:
                continue
        return domain
    return candidates[0]
