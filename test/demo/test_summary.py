"""What the demo says at its end."""

from __future__ import annotations

import pytest

from lrtrace.run import EngineSample, Run
from timely_llm_ros.demo.summary import slow_engine


def run(step_s: float, running: int = 2) -> Run:
    return Run('x', samples=[EngineSample(0.0, running, 0, 0, 0, 0, step_s)] * 3)


@pytest.mark.parametrize(
    ('runs', 'pace_s', 'told'),
    [
        ([run(0.022), run(0.03)], 0.0217, ''),
        ([run(0.071), run(0.081)], 0.0217, '76 ms in the median, not 21.7'),
        ([run(0.071)], 0.0, ''),
        ([run(0.071, running=0)], 0.0217, ''),
        ([Run('x')], 0.0217, ''),
    ],
    ids=['in time', 'slow', 'without a pace', 'at rest', 'nothing recorded'],
)
def test_an_engine_that_does_not_keep_its_pace_is_told_of(
    runs: list[Run], pace_s: float, told: str
) -> None:
    assert told in slow_engine(runs, pace_s)
    assert bool(slow_engine(runs, pace_s)) == bool(told)
