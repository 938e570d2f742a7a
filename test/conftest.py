"""Makes the helpers beside this file importable from every test; says in which order tests run."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure: how long an example takes says nothing about it. Without a number
# of examples in FUZZ, the same tree draws the same ones each time: a failure is somebody's change.
# `make fuzz` looks for new ones.
FUZZ = int(os.environ.get('FUZZ', '0'))
settings.register_profile(
    'untimed',
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=FUZZ or 100,
    derandomize=not FUZZ,
    print_blob=True,
)
# For `make coverage`: more examples reach few lines more, and its tracer is slow.
settings.register_profile('few', settings.get_profile('untimed'), max_examples=10)
settings.load_profile('untimed')

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and every program that a test starts
    # would inherit that: Ctrl-C could not be tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)

MOST_WORKERS = 4
"""Each may run a model, a server and a fleet: more would want more memory than machines have."""

STARTS_PROGRAMS = tuple(
    f'/test/{folder}/'
    for folder in ('engines/vllm', 'ros', 'demo', 'launch', 'training', 'drivers', 'engines')
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say how many tests run at once; the plug-in is not there where colcon runs the tests.

    One more than there are cores: those over DDS wait for most of their time.
    """
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)) + 1)


class _Told:
    """Tells of each failure as it happens: a run may be ended before its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._terminal: Any = config.pluginmanager.get_plugin('terminalreporter')

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome not in ('passed', 'skipped'):
            crash = getattr(report.longrepr, 'reprcrash', None)
            why = crash.message if crash is not None else str(report.longrepr)
            self._terminal.write_line(f'{report.outcome} {report.nodeid}: {why[:300]}')


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin('terminalreporter'):
        config.pluginmanager.register(_Told(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that wait for programs of their own first: last, they would have a core alone."""

    def rank(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((n for n, part in enumerate(STARTS_PROGRAMS) if part in path), 99)

    items.sort(key=rank)
