"""Real processes over real DDS, on a domain of this session's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.testing import free_domain

# Before rclpy is imported anywhere in this process.
os.environ['ROS_DOMAIN_ID'] = str(free_domain())
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'

from support.ros.fleet import Fleet
from support.ros.ros_client import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests over DDS; one that fails has a second try, which the summary counts.

    Discovery has no order and no time: on a busy machine one of hundreds of moments goes wrong.
    """
    again = config.pluginmanager.hasplugin('rerunfailures')
    for item in items:
        if 'test/ros/' in item.path.as_posix():
            item.add_marker(pytest.mark.ros)
            if again:
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope='module')
def client() -> Iterator[Client]:
    """Give each file a node of its own: what one has broken is not the next one's."""
    client = Client()
    yield client
    client.close()


@pytest.fixture(scope='module')
def start_fleet(
    client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Fleet]]:
    """Start fleets, each in a namespace of its own; they end with the module."""
    fleets: list[Fleet] = []

    def start(**options: Any) -> Fleet:
        folder: Path = tmp_path_factory.mktemp('fleet')
        fleet = Fleet(client, folder, **options)
        fleets.append(fleet)
        fleet.wait_ready()
        return fleet

    yield start
    for fleet in fleets:
        fleet.close()
