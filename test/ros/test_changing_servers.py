"""The servers of a planner that is active, by its parameter ``server_urls``."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from rcl_interfaces.msg import ParameterType, ParameterValue
from support.engines.completion_server import CompletionServer
from support.loopback import free_port
from support.ros.programs import wait_for
from support.ros.ros_client import ABORTED, SUCCEEDED
from support.ros.scraping import Watch

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
    port = free_port()
    fleet = start_fleet(
        planner={
            'engine': 'openai',
            'server_urls': [old.url],
            'server_health_period_s': 0.2,
            'server_give_up_s': 0.5,
            'profile': '',
            'max_running': 2,
            'metrics_port': port,
        }
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

    watch = Watch(planner=port)
    alerts = 'TimelyServerLost', 'TimelyEngineDown'
    assert not any(map(watch.fires, alerts))
    new.health = 503
    wait_for(lambda: watch.fires(*alerts), 'the alerts')
