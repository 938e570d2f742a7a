"""What the openai engine asks of servers and of its options before it serves."""

from __future__ import annotations

import asyncio
import logging
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.engines.completion_server import CompletionServer
from support.engines.server_runs import Run, config_of, request

from timely_llm_ros.engines.openai.options import API_KEY_VARIABLE, ServerOptions, read_api_key
from timely_llm_ros.errors import ConfigurationError, ModelLoadError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures('quick_retries')


@pytest.mark.parametrize(
    ('server', 'options', 'problem'),
    [
        ({'shift': 1}, {}, r'tokenizer in .*timely-planner.*expected the same; set model_path'),
        ({'obeys_grammar': False}, {}, r'structured outputs.*"backend":"guidance"'),
        ({'tells_ids': False}, {}, 'return_token_ids'),
        ({'model': 'other'}, {'model': 'mine'}, r"serves \['other'\]: expected 'mine'"),
        ({'api_key': 'right'}, {}, 'answered 401: expected it to accept the API key'),
    ],
)
async def test_a_server_that_serves_something_else_is_refused(
    server: dict[str, Any], options: dict[str, Any], problem: str
) -> None:
    wrong = await CompletionServer(**server).start()
    with pytest.raises(ModelLoadError, match=problem) as raised:
        async with Run([wrong.url], options):
            pass
    assert wrong.url in str(raised.value)
    await wrong.stop()


async def test_without_a_server_the_start_says_where_it_looked() -> None:
    server = await CompletionServer().start()
    await server.stop()
    with pytest.raises(ModelLoadError, match=r'no server after 0\.2 s') as raised:
        async with Run([server.url], {'start_limit_s': 0.2}):
            pass
    assert server.url in str(raised.value)


async def test_a_server_that_is_not_there_is_told_at_once_and_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    absent = await CompletionServer().start()
    await absent.stop()
    busy = await CompletionServer().start()
    busy.health = 503
    run = Run([absent.url, busy.url], {'start_limit_s': 3600.0})
    starting = asyncio.create_task(run.__aenter__())
    # Nothing else ends the wait: each is tried again and again meanwhile.
    while busy.asked < 3:
        await asyncio.sleep(0)
    told = [message for message in caplog.messages if 'not reached' in message]
    assert len(told) == 2
    assert {absent.url, busy.url} == {message.split(': ')[1] for message in told}
    assert all(message.endswith('; it is tried again for up to 3600 s') for message in told)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await busy.stop()


async def test_the_key_comes_from_a_file_or_the_environment_and_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = await CompletionServer(api_key='s3cret').start()
    file = tmp_path / 'key'
    file.write_text('s3cret\n')
    async with Run([server.url], {'api_key_file': str(file)}) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason != 'error'
    monkeypatch.setenv(API_KEY_VARIABLE, 's3cret')
    async with Run([server.url]):
        pass
    monkeypatch.setenv(API_KEY_VARIABLE, 'wr0ng')
    with pytest.raises(ModelLoadError) as raised:
        async with Run([server.url]):
            pass
    told = caplog.text + str(raised.value) + repr(ServerOptions((server.url,)))
    assert 's3cret' not in told
    assert 'wr0ng' not in told
    await server.stop()


async def test_certificates_are_checked(tmp_path: Path) -> None:
    if shutil.which('openssl') is None:
        pytest.skip('no openssl to make a certificate with')
    key, certificate = tmp_path / 'key.pem', tmp_path / 'cert.pem'
    subprocess.run(
        ['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2',
         '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost',
         '-keyout', key, '-out', certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await CompletionServer(tls=context).start()
    async with Run([server.url], {'ca_file': str(certificate)}) as run:
        run.engine.submit(request(0))
        await run.all_ended([0])
        assert run.ended['g0'].reason != 'error'
    # Who would try again would do it for an hour.
    with pytest.raises(ModelLoadError, match=r'(?i)certificate.*: expected .* server_ca_file'):
        async with Run([server.url], {'start_limit_s': 3600.0}):
            pass
    await server.stop()


@pytest.mark.parametrize(
    ('options', 'problem'),
    [
        ({'urls': ()}, r'server_urls \[\]'),
        ({'urls': ('gpu-1:8000',)}, r"'gpu-1:8000': expected http"),
        ({'urls': ('ftp://gpu-1',)}, 'ftp'),
        ({'urls': ('http://gpu-1:99999',)}, '99999'),
        ({'urls': ('http://gpu-1', 'http://gpu-1/v1')}, 'only once'),
        ({'urls': ('http://gpu-1?key=1',)}, 'key=1'),
        ({'silence_s': 0.0}, r'silence_s 0\.0: expected 0\.1 to 3600\.0'),
        ({'mode': 'all'}, 'all'),
        ({'policy': 'best'}, 'best'),
        ({'max_running': 0}, 'max_running 0'),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        config_of(**{'urls': ('http://gpu-1',), **options})


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match='api_key_file') as raised:
        ServerOptions(('https://me:s3cret@gpu-1',))
    assert 's3cret' not in str(raised.value)


@pytest.mark.parametrize('content', ['', 'two words', 'ö'])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / 'key'
    file.write_text(content)
    with pytest.raises(ConfigurationError, match='key'):
        read_api_key(str(file))
    with pytest.raises(ConfigurationError, match='absent'):
        read_api_key(str(tmp_path / 'absent'))
    with pytest.raises(ConfigurationError, match='ca_file'):
        ServerOptions(('https://a',), ca_file=str(file)).ssl_context()


def test_a_key_that_others_may_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / 'key'
    file.write_text('s3cret')
    file.chmod(0o600)
    assert read_api_key(str(file)) == 's3cret'
    assert not caplog.messages
    file.chmod(0o644)
    assert read_api_key(str(file)) == 's3cret'
    assert caplog.messages == [
        f'api_key_file {str(file)!r}: mode 0644 lets others at the key: expected 0600'
    ]
