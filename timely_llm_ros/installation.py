"""Where the package's own files lie: in a checkout, or installed with ROS or with this Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def checkout() -> Path | None:
    """Return the checkout that this package runs from; None where it is installed."""
    root = Path(__file__).resolve().parents[1]
    return root if (root / 'package.xml').is_file() else None


def prefixes() -> list[Path]:
    """Return where packages are installed: the prefixes of ROS first, then this Python's."""
    of_ros = os.environ.get('AMENT_PREFIX_PATH', '').split(':')
    return list(dict.fromkeys(Path(entry) for entry in (*of_ros, sys.prefix) if entry))


def shipped_folders(name: str) -> list[Path]:
    """Return the folders of that name, such as ``skills``, in which the package's files ship."""
    root = checkout()
    folders = [prefix / 'share' / 'timely_llm_ros' / name for prefix in prefixes()]
    if root is not None:
        folders.insert(0, root / name)
    return [folder for folder in folders if folder.is_dir()]
