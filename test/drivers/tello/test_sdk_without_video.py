"""The Tello driver needs nothing of what decodes video."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == 'av' else find(name, *more)
from timely_llm_ros.drivers.tello.ports import load_sdk
assert load_sdk().Tello
assert 'av' not in sys.modules and 'cv2' not in sys.modules
"""


def test_the_sdk_is_imported_where_av_is_not_installed() -> None:
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
