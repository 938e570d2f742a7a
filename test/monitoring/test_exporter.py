"""What serves a node's figures: what it needs, when it refuses, and whether it serves old ones."""

from __future__ import annotations

import importlib.util
import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.ros import Exporter, Metric, MetricsOptions, metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS = Metric('timely_test_tasks', 'gauge', 'Tasks.', ('robot',))


@pytest.fixture
def port() -> int:
    with socket.create_server(('127.0.0.1', 0)) as free:
        number: int = free.getsockname()[1]
    return number


@pytest.fixture
def exporter(port: int) -> Iterator[Exporter]:
    made = Exporter(MetricsOptions(metrics_port=port), 'planner')
    yield made
    made.close()


def read(port: int) -> str:
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10) as answer:
        return str(answer.read().decode())


def test_the_latest_figures_are_served(exporter: Exporter, port: int) -> None:
    for value in (1, 2):
        exporter.show({TASKS: [(('drone_1',), value)]})
    assert 'timely_test_tasks{robot="drone_1"} 2.0' in read(port)


def test_old_figures_are_an_error(
    exporter: Exporter, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter.show({TASKS: []})
    monkeypatch.setattr(metrics, 'STALE_S', -1.0)
    with pytest.raises(urllib.error.HTTPError, match='500'):
        read(port)


def test_without_a_port_nothing_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    exporter = Exporter(MetricsOptions(), 'planner')
    assert not exporter.serves
    exporter.show({TASKS: []})
    exporter.close()


def test_who_misses_the_package_is_told_what_to_install(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, 'find_spec', lambda name: None)
    with pytest.raises(ConfigurationError, match=r'timely_llm_ros\[metrics\]'):
        Exporter(MetricsOptions(metrics_port=port), 'planner')


def test_a_port_that_is_taken_is_named(exporter: Exporter, port: int) -> None:
    with pytest.raises(ConfigurationError, match=str(port)):
        Exporter(MetricsOptions(metrics_port=port), 'planner')
