"""``timely-llm cluster``, as far as it needs no Ray."""

from __future__ import annotations

import socket
import subprocess
from typing import Any

import pytest
from support.loopback import free_port

from timely_llm_ros.cli.main import main
from timely_llm_ros.cli.operation import cluster_command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that would have been run."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, 'run', run)
    monkeypatch.setattr(cluster_command, 'find_spec', lambda _name: object())
    return commands


@pytest.mark.parametrize('address', ['gpu-1', ':6379', 'gpu-1:', 'gpu-1:0', 'gpu-1:70000'])
def test_what_is_no_address_is_not_joined(
    address: str, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['cluster', 'up', '--join', address]) == 1
    expected = f'error: --join {address!r}: expected HOST:PORT of the first machine\n'
    assert capsys.readouterr().err == expected
    assert not started


def test_where_nobody_listens_is_not_joined(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f'127.0.0.1:{free_port()}'
    assert main(['cluster', 'up', '--join', address]) == 1
    assert capsys.readouterr().err.startswith(f'error: --join {address}: Connection refused: ')

    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, 'Name or service not known')

    monkeypatch.setattr(socket, 'getaddrinfo', unknown)
    assert main(['cluster', 'up', '--join', 'nosuchhost:6379']) == 1
    error = capsys.readouterr().err
    assert error.startswith('error: --join nosuchhost:6379: Name or service not known: expected ')
    assert not started


def test_a_machine_that_listens_is_joined(started: list[list[str]]) -> None:
    with socket.create_server(('127.0.0.1', 0)) as first:
        address = f'127.0.0.1:{first.getsockname()[1]}'
        assert main(['cluster', 'up', '--join', address]) == 0
    assert main(['cluster', 'up']) == 0
    assert [command[3:] for command in started] == [
        ['start', f'--address={address}'],
        ['start', '--head'],
    ]
