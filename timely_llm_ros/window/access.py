"""Who may look through the window: addresses, names of hosts, and the token."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import check_options, option

LEAST_TOKEN = 16
"""Letters that a token must have."""


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """Where the window is and who may use it.

    Raises:
        ConfigurationError: The token is too short.
    """

    host: str = option(
        '127.0.0.1',
        'Address that the window is served on. Any other than one of this machine alone asks for '
        'the token.',
    )
    port: int = option(
        8095, 'Its port; 0 for any that is free.', minimum=0, maximum=65535
    )  # fmt: skip
    token: str = option(
        '',
        'What a page must know, 16 letters at least; "" for none on 127.0.0.1, and for one that is '
        'drawn at the start and printed on other addresses.',
    )
    commands: bool = option(
        True, 'Whether pages may send and cancel tasks, and stop and release robots.'
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.token and len(self.token) < LEAST_TOKEN:
            raise ConfigurationError(
                f'token of {len(self.token)} letters: expected at least {LEAST_TOKEN}'
            )


class Access:
    """Decides who is let in.

    Other pages in the same browser can reach an address of this machine as well, so where no token
    is asked for, both the host that a browser believes to talk to and the page that it talks for
    must be this window.
    """

    def __init__(self, options: WindowOptions) -> None:
        self._local = is_loopback(options.host)
        self.token = options.token or ('' if self._local else secrets.token_urlsafe(24))

    def knows_host(self, host: str) -> bool:
        """Whether a request's ``Host`` may be meant for this window.

        With a token every host may: whoever lures a browser here does not know it.
        """
        return bool(self.token) or is_loopback(urlsplit(f'//{host}').hostname or '')

    @staticmethod
    def same_origin(host: str, origin: str | None) -> bool:
        """Whether a socket is opened by a page of this window; programs tell no origin."""
        return origin is None or urlsplit(origin).netloc.lower() == host.lower()

    def admits(self, token: object) -> bool:
        """Whether a page's token is the right one."""
        return isinstance(token, str) and hmac.compare_digest(token.encode(), self.token.encode())

    def address(self, host: str, port: int) -> str:
        """Return what to open in a browser."""
        if host in ('0.0.0.0', '::', ''):  # noqa: S104  It is compared.
            host = socket.gethostname()
        name = f'[{host}]' if ':' in host else host
        # What follows the # is never sent, and so is in nobody's log.
        return f'http://{name}:{port}/' + (f'#token={self.token}' if self.token else '')


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's alone."""
    if host == 'localhost':
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
