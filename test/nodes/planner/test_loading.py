"""What the planner says while its engine loads, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.engines.engine import LOADING, MEASURING
from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.nodes.planner.loading import start_within
from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.testing import ScriptedEngine
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineInfo


class SlowEngine(ScriptedEngine):
    """Loads for 15 s, then measures for 20 s; stands for the planner that starts it, too."""

    stage = LOADING

    @property
    def doing(self) -> str:
        return self.stage

    async def start(self, *_: Any) -> EngineInfo:
        await asyncio.sleep(15.0)
        self.stage = MEASURING
        try:
            await asyncio.sleep(20.0)
        except asyncio.CancelledError:
            await asyncio.sleep(30.0)  # It takes its time to close.
            raise
        return self.INFO


def start(load_limit_s: float) -> tuple[list[str], str]:
    """Return what was said, and the error's text."""
    said: list[str] = []
    engine: Any = SlowEngine()
    parameters = replace(PlannerParameters(), load_limit_s=load_limit_s)
    try:
        run_virtual(start_within(engine, engine, parameters, said.append))
    except ModelLoadError as err:
        return said, str(err)
    return said, ''


def test_every_10_s_it_says_what_the_engine_does() -> None:
    said, error = start(300.0)
    assert said == [
        'engine torch: still loading the model after 10 s',
        'engine torch: still measuring how long steps take after 20 s',
        'engine torch: still measuring how long steps take after 30 s',
    ]
    assert not error


@pytest.mark.parametrize(
    ('limit_s', 'stage', 'names_profile'), [(12.0, LOADING, False), (33.0, MEASURING, True)]
)
def test_the_limit_is_named_and_what_took_so_long(
    limit_s: float, stage: str, *, names_profile: bool
) -> None:
    said, error = start(limit_s)
    assert len(said) == limit_s // 10
    assert f'still {stage} after {limit_s:g} s' in error
    assert 'load_limit_s' in error
    assert ('profile ""' in error) == names_profile
