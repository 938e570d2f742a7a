"""``timely-llm serve``, as far as it needs no vLLM."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.loopback import free_port

from timely_llm_ros.cli import serve_command
from timely_llm_ros.cli.main import build_parser, main
from timely_llm_ros.engines.openai.options import API_KEY_VARIABLE
from timely_llm_ros.engines.vllm.server import ServeOptions, vllm_arguments

if TYPE_CHECKING:
    import argparse

MODEL = Path(__file__).resolve().parents[2] / 'models' / 'timely-planner'


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(['serve', *arguments])


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)


def test_what_vllm_is_told() -> None:
    options = serve_command.read_options(
        parsed('--port', '8123', '--max-running', '4', '--vllm=--tensor-parallel-size 2')
    )
    assert ServeOptions.from_json(options.to_json()) == options
    arguments = vllm_arguments(options, on_cpu=False, scheduler='a.Scheduler')
    assert arguments[:2] == ['serve', str(MODEL)]
    assert arguments[-2:] == ['--tensor-parallel-size', '2']

    def value(name: str) -> str:
        return arguments[arguments.index(name) + 1]

    assert value('--served-model-name') == 'timely-planner'
    assert (value('--host'), value('--port')) == ('127.0.0.1', '8123')
    assert (value('--scheduler-cls'), value('--max-num-seqs')) == ('a.Scheduler', '128')
    assert json.loads(value('--structured-outputs-config')) == {'backend': 'guidance'}
    plugin = json.loads(value('--additional-config'))['timely']
    assert plugin == {'policy': 'least_loss', 'max_running': 4, 'skill_sets': ['tello', 'arm']}
    assert '--enforce-eager' not in arguments
    stock = vllm_arguments(options, on_cpu=True, scheduler='')
    assert '--enforce-eager' in stock
    assert '--scheduler-cls' not in stock
    assert stock[stock.index('--max-num-seqs') + 1] == '4'


def test_adapters_are_served_beside_their_base_model(tmp_path: Path) -> None:
    pytest.importorskip('vllm', reason='vLLM is left out on this machine')
    from support.engines.tiny_model import write_adapter, write_model

    base = write_model(tmp_path / 'small')
    adapters = [
        str(write_adapter(base, base / 'adapters' / name, seed=1, rank=9))
        for name in ('arm', 'tello')
    ]

    def told(model: str) -> str:
        options = serve_command.read_options(parsed(model))
        return ' '.join(vllm_arguments(options, on_cpu=True, scheduler=''))

    several = told(str(base))
    assert f'serve {base} --served-model-name small ' in several
    assert f'--lora-modules arm={adapters[0]} tello={adapters[1]} --tokenizer {base} ' in several
    assert '--enable-lora ' in several
    assert '--max-lora-rank 16 ' in several
    one = told(adapters[0])
    assert f'serve {base} --served-model-name arm-base ' in one
    assert f'--lora-modules arm={adapters[0]} --tokenizer {adapters[0]} ' in one
    assert '--lora' not in told(str(MODEL))


@pytest.mark.parametrize(
    ('arguments', 'problem'),
    [
        (['--host', '0.0.0.0'], '--host 0.0.0.0 without an API key'),
        (['--port', '70000'], '--port 70000: expected 1 to 65535'),
        (['--max-running', '0'], '--max-running 0'),
        (['--kv-gb', '0'], '--kv-gb 0'),
        (['--vllm=--a "b'], '--vllm'),
        (['--max-context', '3'], '--max-context 3'),
        (['--tls-key', 'x'], 'expected both or neither'),
        (['--tls-key', '/no/key', '--tls-certificate', '/no/cert'], "'/no/cert'"),
        (
            ['--tls-key', '/etc', '--tls-certificate', '/etc'],
            "'/etc': expected a readable PEM file",
        ),
        (['--tls-key', __file__, '--tls-certificate', __file__], 'expected a certificate in PEM'),
        (['--skill-sets', 'tello', 'robbie'], "skill set 'robbie': expected"),
        (['/no/model'], "model '/no/model': no config.json there"),
        (['--api-key-file', '/no/key'], "api_key_file '/no/key'"),
    ],
)
def test_what_cannot_be_served_is_refused(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['serve', *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith('error: ')
    assert problem in error


@pytest.mark.parametrize('host', ['127.0.0.1', '0.0.0.0'])
def test_a_port_that_another_program_has_is_refused(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, 'a-key')
    # What is beyond the port must not be reached.
    monkeypatch.setattr(serve_command, '_serve', lambda *_: pytest.fail('vLLM was started'))
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        assert main(['serve', '--host', host, '--port', str(port)]) == 1
    assert capsys.readouterr().err == f'error: --port {port}: in use, expected a free one\n'


def test_an_address_of_another_machine_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, 'a-key')
    monkeypatch.setattr(serve_command, '_serve', lambda *_: pytest.fail('vLLM was started'))
    # Of a network for documentation, which no machine has.
    assert main(['serve', '--host', '192.0.2.1']) == 1
    error = capsys.readouterr().err
    assert error.startswith('error: --host 192.0.2.1 --port 8000: ')
    assert 'expected an address of this machine' in error


_CHILD = """\
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_server_is_announced_once_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip('psutil', reason='vLLM brings psutil')
    serve = ServeOptions('/models/a', name='a', port=free_port())
    with subprocess.Popen(
        [sys.executable, '-c', _CHILD, str(serve.port)], stderr=subprocess.DEVNULL
    ) as child:
        serve_command._announce(serve, child)
        child.kill()
    assert f'a is served at http://127.0.0.1:{serve.port} after' in capsys.readouterr().err


def test_another_program_on_the_port_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip('psutil', reason='vLLM brings psutil')
    child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)

    class Other(BaseHTTPRequestHandler):
        asked = 0

        def do_GET(self) -> None:
            Other.asked += 1
            self.send_response(200)
            self.end_headers()
            if Other.asked == 2:
                # It was not taken for the child the first time.
                child.kill()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with child, HTTPServer(('127.0.0.1', 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        serve = ServeOptions('/models/a', name='a', port=other.server_port)
        serve_command._announce(serve, child)
        child.kill()
        other.shutdown()
    assert Other.asked >= 2
    assert capsys.readouterr().err == ''


def test_what_is_missing_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad, memory = (tmp_path / name for name in ('good', 'bad', 'memory'))
    good.write_text('processor\t: 0\nflags\t\t: sse avx2 fma\n')
    bad.write_text('processor\t: 0\nflags\t\t: sse avx fma\n')
    memory.write_text('MemTotal:  4000000 kB\nMemAvailable:  1500000 kB\n')

    def obstacle(cpuinfo: Path, meminfo: str = '/dev/null') -> str:
        return serve_command.vllm_obstacle(
            str(MODEL), 2, cpuinfo=str(cpuinfo), meminfo=str(meminfo)
        )

    monkeypatch.setattr(importlib.util, 'find_spec', lambda _name: None)
    assert 'vLLM is not installed' in obstacle(good)
    monkeypatch.setattr(importlib.util, 'find_spec', lambda _name: object())
    monkeypatch.setattr(importlib.metadata, 'version', lambda _name: '0.32.0')
    assert obstacle(good) == ''
    assert 'no AVX2' in obstacle(bad)
    assert '1.5 GB of memory are free: expected at least 4.5 GB' in obstacle(good, str(memory))

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    # vLLM's build for GPUs asks nothing of the processor.
    monkeypatch.setattr(importlib.metadata, 'version', version)
    assert obstacle(bad, str(memory)) == ''


def test_the_demo_says_at_once_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, 'find_spec', lambda _name: None)
    assert main(['demo', '--engine', 'openai']) == 1
    assert 'vLLM is not installed' in capsys.readouterr().err
    assert main(['demo', '--server', 'http://gpu-1:8000']) == 1
    assert 'expected --engine openai' in capsys.readouterr().err
    assert main(['demo', '--engine', 'openai', '--server', 'gpu-1']) == 1
    assert "'gpu-1': expected http" in capsys.readouterr().err
    assert main(['demo', '--engine', 'openai', '--server', 'http://a', '--pace', '1']) == 1
    assert '--pace with --engine openai' in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []
