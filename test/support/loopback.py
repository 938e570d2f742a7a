"""Addresses of this machine that no other test uses, whatever runs at the same time."""

from __future__ import annotations

import random
import socket

_random = random.SystemRandom()


def free_addresses(count: int, *, ports: tuple[int, ...] = (8889, 8890)) -> list[str]:
    """Return addresses of 127.0.0.0/8 on which the UDP ports are free; each time other ones."""
    while True:
        # Six million rows; the lowest ones are left to people.
        row = f'127.{_random.randrange(16, 250)}.{_random.randrange(256)}'
        first = _random.randrange(1, 255 - count)
        addresses = [f'{row}.{first + offset}' for offset in range(count)]
        if all(_is_free(address, port) for address in addresses for port in ports):
            return addresses


def free_port(*more: int) -> int:
    """Return a TCP port that nobody has now, nor those that are so much further.

    The system gives it to nobody who does not name it: a connection of another test would have one
    of its choice before the server starts that this is for.
    """
    while True:
        port = _random.randrange(20_000, 32_000)
        try:
            for further in (0, *more):
                socket.create_server(('127.0.0.1', port + further)).close()
        except OSError:
            continue
        return port


def _is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
