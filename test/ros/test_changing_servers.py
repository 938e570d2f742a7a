"""The servers of a planner that is active, by its parameter ``server_urls``."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from rcl_interfaces.msg import ParameterType, ParameterValue
from support.engines.completion_server import CompletionServer
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.ros.fleet import Fleet


@pytest.fixture
def servers() -> Iterator[list[CompletionServer]]:
    """Return two servers that run on a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def do(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    made = [CompletionServer(), CompletionServer()]
    try:
        for server in made:
            do(server.start())
        yield made
        for server in made:
            do(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_an_active_planner_takes_another_list_of_servers_or_says_why_not(
    start_fleet: Callable[..., Fleet], servers: list[CompletionServer]
) -> None:
    old, new = servers
    fleet = start_fleet(
        planner={'engine': 'openai', 'server_urls': [old.url], 'profile': '', 'max_running': 2}
    )

    def set_servers(*urls: str) -> Any:
        kind = ParameterType.PARAMETER_STRING_ARRAY
        value = ParameterValue(type=kind, string_array_value=list(urls))
        return fleet.set_parameter('server_urls', value)

    for urls, reason in (((), 'at least one'), (('gpu-1',), 'gpu-1'), ((old.url,) * 2, 'once')):
        refused = set_servers(*urls)
        assert not refused.successful
        assert reason in refused.reason
    assert set_servers(new.url).successful
    wait_for(lambda: new.asked, 'a question for the health of the new server')
    before = len(old.requests)
    status, result = fleet.plan('look for the cat', objects=('cat_1',)).result()
    assert status in (SUCCEEDED, ABORTED), result.error_msg
    assert len(old.requests) == before
    assert new.requests
    assert {one.session for one in new.requests} != {''}
