"""Whether a robot is halted: brought to its safe action, and to stay so until it is released."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


class Halt:
    """Remembers in a file that a robot is halted, for the executor that follows this one.

    Args:
        folder: Where files of halted robots are.
        robot: Full name of the robot, with its namespace.
    """

    def __init__(self, folder: Path, robot: str) -> None:
        # A name has slashes, and two names must not become one; nor must robots of two domains.
        domain = os.environ.get('ROS_DOMAIN_ID', '') or '0'
        digest = hashlib.sha256(f'{domain} {robot}'.encode()).hexdigest()[:8]
        self._file = folder / f'{robot.strip("/").replace("/", "_")}.{digest}.halted'
        self.there = self._file.exists()
        """Whether the robot is halted."""

    def set(self) -> None:
        """Halt the robot, for good once this returns.

        Raises:
            OSError: It cannot be remembered; the robot is halted as long as this program lives.
        """
        self.there = True
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.touch()

    def release(self) -> None:
        """Release the robot.

        Raises:
            OSError: The file cannot be removed; the robot stays halted.
        """
        self._file.unlink(missing_ok=True)
        self.there = False


def halted_folder() -> Path:
    """Return where this user's halted robots are remembered, beside the logs of ROS."""
    home = os.environ.get('ROS_HOME') or Path.home() / '.ros'
    return Path(home) / 'timely_llm_ros' / 'halted'
