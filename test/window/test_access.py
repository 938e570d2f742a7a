"""Who may look through the window, and who may not."""

from __future__ import annotations

import pytest

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.window import WindowOptions
from timely_llm_ros.window.access import Access, is_loopback


@pytest.mark.parametrize('host', ['127.0.0.1', 'localhost', '::1', '127.3.4.5'])
def test_this_machine_alone_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    access = Access(WindowOptions(host=host))
    assert access.admits('')
    assert '#' not in access.address(host, 80)


@pytest.mark.parametrize('host', ['0.0.0.0', '::', '10.0.0.7'])
def test_on_any_other_address_a_token_is_drawn_and_told_in_the_address(host: str) -> None:
    access = Access(WindowOptions(host=host))
    assert len(access.token) >= 24
    assert access.address(host, 80).endswith(f'#token={access.token}')
    for wrong in ('', access.token[:-1], None, 7, 'é'):
        assert not access.admits(wrong)
    assert access.admits(access.token)
    assert Access(WindowOptions(host=host)).token != access.token


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='token of 3 letters: expected at least 16'):
        WindowOptions(token='abc')  # noqa: S106  It is too short.


def test_a_page_of_another_site_opens_no_socket_here() -> None:
    access = Access(WindowOptions())
    assert access.same_origin('127.0.0.1:8095', 'http://127.0.0.1:8095')
    assert access.same_origin('127.0.0.1:8095', None)
    for origin in ('http://evil.example', 'http://127.0.0.1:9', 'null', ''):
        assert not access.same_origin('127.0.0.1:8095', origin)
    # A name of another site that leads to this address.
    assert access.knows_host('localhost:8095')
    assert not access.knows_host('evil.example:8095')
    assert not access.knows_host('')
