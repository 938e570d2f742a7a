"""The scripted engine of a fleet, for tests that look into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.testing import ScriptedEngine

if TYPE_CHECKING:
    from timely_llm_ros.testing import Fleet


def engine_of(fleet: Fleet) -> ScriptedEngine:
    """Return a fleet's engine as the scripted one that it is."""
    assert isinstance(fleet.engine, ScriptedEngine)
    return fleet.engine
