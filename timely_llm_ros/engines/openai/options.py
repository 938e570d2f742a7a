"""The options of the openai engine's servers, and the API key."""

from __future__ import annotations

import logging
import os
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import check_options, option

_logger = logging.getLogger(__name__)

API_KEY_VARIABLE = 'TIMELY_LLM_API_KEY'
"""Environment variable that holds the API key where no file is given."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The servers of an ``openai`` engine.

    The key itself is no option, so that it is in no parameter dump, trace or command line.

    Raises:
        ConfigurationError: A value cannot be used.
    """

    urls: tuple[str, ...] = option(
        (),
        'Engine openai: the servers that generate, for example "https://gpu-1:8000"; model_path is '
        'then the folder of their tokenizer.',
        live=True,
    )
    model: str = option(
        '',
        'Engine openai: name under which the servers serve the model; "" for the only one that '
        'they serve.',
    )
    api: str = option(
        'completions',
        'Engine openai: what the servers have: completions with token ids and grammars, as vLLM '
        'has them, or only chat, as cloud services, Ollama and LM Studio have it.',
        choices=('completions', 'chat'),
    )
    api_key_file: str = option(
        '',
        'Engine openai: file that holds the API key; "" for the environment variable '
        'TIMELY_LLM_API_KEY.',
    )
    ca_file: str = option(
        '',
        'Engine openai: certificates (PEM) that sign those of the servers; "" for the system\'s.',
    )
    connect_timeout_s: float = option(
        3.0, 'Engine openai: how long a connection may take (s).', minimum=0.05, maximum=60.0
    )
    silence_s: float = option(
        30.0,
        'Engine openai: how long a server may take for the next token (s) before it counts as '
        'lost and others go on with its generations.',
        minimum=0.1,
        maximum=3600.0,
    )
    health_period_s: float = option(
        2.0,
        'Engine openai: how often each server is asked whether it is well (s).',
        minimum=0.05,
        maximum=3600.0,
    )
    start_limit_s: float = option(
        120.0,
        'Engine openai: how long the first server may take to answer at configuration (s).',
        minimum=0.0,
        maximum=3600.0,
    )
    give_up_s: float = option(
        60.0,
        'Engine openai: with no server for so long (s), the generations end with an error.',
        minimum=0.0,
        maximum=86400.0,
    )
    priority: bool = option(
        False,
        "Engine openai: send each request's due time as its priority, for servers that several "
        'planners share; they must run with --scheduling-policy priority.',
    )

    def __post_init__(self) -> None:
        if not self.urls:
            raise ConfigurationError(
                'server_urls []: expected at least one, for example "http://gpu-1:8000"'
            )
        urls = tuple(map(_checked_url, self.urls))
        if len(set(urls)) < len(urls):
            raise ConfigurationError(f'server_urls {list(urls)}: expected each only once')
        object.__setattr__(self, 'urls', urls)
        check_options(self)

    def ssl_context(self) -> ssl.SSLContext:
        """Return a context that checks certificates always, against ``ca_file`` if it is given.

        Raises:
            ConfigurationError: The file cannot be read or has no certificate.
        """
        try:
            return ssl.create_default_context(cafile=self.ca_file or None)
        except (OSError, ssl.SSLError) as err:
            raise ConfigurationError(
                f'ca_file {self.ca_file!r}: expected a readable file of PEM certificates: {err}'
            ) from err


def read_api_key(file: str) -> str:
    """Return the API key of a file, or else of the environment; empty for none.

    Raises:
        ConfigurationError: The file cannot be read or holds no key.
    """
    if file:
        source = f'api_key_file {file!r}'
        try:
            key = Path(file).read_text(encoding='utf-8').strip()
        except (OSError, UnicodeDecodeError) as err:
            reason = err.strerror if isinstance(err, OSError) else 'no UTF-8 text'
            raise ConfigurationError(f'{source}: expected a readable file: {reason}') from err
        if not key:
            raise ConfigurationError(f'{source}: expected a key, found nothing')
        mode = stat.S_IMODE(Path(file).stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            _logger.warning('%s: mode %04o lets others at the key: expected 0600', source, mode)
    else:
        key, source = os.environ.get(API_KEY_VARIABLE, '').strip(), f'${API_KEY_VARIABLE}'
    if not key.isascii() or not key.isprintable() or ' ' in key:
        # The key is not shown.
        raise ConfigurationError(f'{source}: expected one word of printable ASCII characters')
    return key


def _checked_url(url: str) -> str:
    """Return a server's address without a trailing ``/v1`` or slash.

    Raises:
        ConfigurationError: It is no such address.
    """
    problem = (
        f'server url {url[:200]!r}: expected http(s)://HOST[:PORT], for example http://gpu-1:8000'
    )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as err:
        raise ConfigurationError(f'{problem}: {err}') from err
    if parts.username or parts.password:
        raise ConfigurationError(
            f'server url of host {host!r}: expected no user name or password in it; '
            'give a key by api_key_file'
        )
    path = parts.path.rstrip('/').removesuffix('/v1')
    if parts.scheme not in ('http', 'https') or not host or parts.query or parts.fragment:
        raise ConfigurationError(problem)
    return f'{parts.scheme}://{parts.netloc}{path}'
