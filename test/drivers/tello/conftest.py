"""What every test of the driver leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.robots.tello_bench import release_ports

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def free_ports() -> Iterator[None]:
    """One failure stays one, whatever it left open."""
    yield
    release_ports()
