"""Launch files and the command line, as users of ROS 2 have them; skipped where they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from support.ros.ros2_tools import TOOLS, Ros2, missing_tools

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 4.0
"""Silence (s) after which programs miss each other: a busy machine is no fault here."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, and skip them all where there is no command line of ROS 2."""
    missing = missing_tools()
    where = TOOLS or 'this Python'
    for item in items:
        if 'test/launch/' not in item.path.as_posix():
            continue
        item.add_marker(pytest.mark.ros)
        if missing:
            reason = f'no {", ".join(missing)} in {where}: source an installed ROS 2'
            item.add_marker(pytest.mark.skip(reason))


@pytest.fixture(scope='module')
def ros2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ros2]:
    """Return the command line, with parameter files for robots that take little time."""
    ros2 = Ros2(tmp_path_factory.mktemp('ros2'))
    files = {
        'planner': {'engine': 'simulated', 'robot_timeout_s': PATIENCE_S},
        'executor': {
            'time_scale': 0.1,
            'journal_path': str(ros2.folder / '{robot}.jsonl'),
            'planner_timeout_s': PATIENCE_S,
            'worker_timeout_s': PATIENCE_S,
        },
    }
    for name, parameters in files.items():
        content = yaml.safe_dump({'/**': {'ros__parameters': parameters}})
        (ros2.folder / f'{name}.yaml').write_text(content, encoding='utf-8')
    yield ros2
    ros2.close()
