"""Every worker of a test run has ROS domains of its own."""

from __future__ import annotations

import pytest

from timely_llm_ros.testing import free_domain


def domains(monkeypatch: pytest.MonkeyPatch, worker: str, workers: int) -> int:
    monkeypatch.setenv('PYTEST_XDIST_WORKER_COUNT', str(workers))
    monkeypatch.setenv('PYTEST_XDIST_WORKER', worker)
    return free_domain() % workers


def test_workers_share_no_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [domains(monkeypatch, f'gw{worker}', 3) for worker in range(3)] == [0, 1, 2]


@pytest.mark.parametrize('worker', [3, 4, 17])
def test_who_replaces_a_worker_that_crashed_has_one(
    monkeypatch: pytest.MonkeyPatch, worker: int
) -> None:
    assert domains(monkeypatch, f'gw{worker}', 3) == worker % 3
