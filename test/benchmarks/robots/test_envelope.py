"""No text gets past an envelope, judged by somebody who integrates and samples for himself."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.robots.drawn_body import Body, LocatedBody, Told
from benchmarks.robots.envelope_judge import broken_rules
from benchmarks.robots.envelope_trial import TELLO, Trial, run_plan, try_drone
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.execution import SegmentCode, SegmentExecutor, read_envelope
from timely_llm_ros.skills import Call, Scene, SceneObject
from timely_llm_ros.virtual_time import run_virtual

SCENE = Scene(
    (
        SceneObject('cup_1', 'cup', x_m=2.0, y_m=1.0),
        SceneObject('cup_2', 'cup', x_m=-1.0, y_m=-1.5),
        SceneObject('worker_1', 'worker', x_m=0.0, y_m=2.0),
    )
)
RULES: dict[str, Any] = {
    'workspace': {'x': [-2.5, 2.5], 'y': [-2.0, 2.0], 'z': [0.0, 2.0]},
    'no_go': {'post': {'x': [0.8, 1.0], 'y': [-0.5, 0.5]}, 'shelf': {'x': [-2, -1], 'z': [1.5, 2]}},
    'maximum_height_m': 1.8,
    'people_distance_m': 0.8,
}

AMOUNTS = st.sampled_from((20, 50, 100, 180, 200, 250, 499, 500)) | st.integers(20, 500)
ANGLES = st.sampled_from((1, 90, 180, 270, 359, 360)) | st.integers(1, 360)
NAMES = st.sampled_from(SCENE.names)
SIMPLE = st.one_of(
    st.sampled_from(('takeoff', 'land', 'scan', 'hover')),
    st.builds(
        'move_{}({})'.format,
        st.sampled_from(('forward', 'backward', 'left', 'right', 'up', 'down')),
        AMOUNTS,
    ),
    st.builds('turn_{}({})'.format, st.sampled_from(('cw', 'ccw')), ANGLES),
    st.builds('goto({})'.format, NAMES),
)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    plan = st.lists(inner, min_size=1, max_size=3).map(lambda parts: ';'.join(parts) + ';')
    return st.one_of(
        st.builds('repeat({}){{{}}}'.format, st.integers(1, 10), plan),
        st.builds('if(is_visible({})){{{}}}else{{{}}}'.format, NAMES, plan, plan),
    )


PLANS = st.lists(
    st.lists(st.recursive(SIMPLE, _nested, max_leaves=6), min_size=1, max_size=8).map(
        lambda parts: 'takeoff;' + ';'.join(parts) + ';'
    ),
    min_size=1,
    max_size=3,
)


@given(PLANS, st.integers(0, 2**32), st.sampled_from((Body, LocatedBody)), st.booleans())
def test_no_plan_gets_past_an_envelope(
    plans: list[str], seed: int, kind: type[Body], fails: bool
) -> None:
    broken: list[tuple[str, str]] = []

    def judge(told: Told) -> None:
        broken.extend((rule, told.call.text) for rule in broken_rules(RULES, told, 0.5))

    async def main() -> None:
        body = kind(random.Random(seed), 0.3 if fails else 0.0, (0.0, 0.0, 0.0), judge)
        executor = SegmentExecutor(body, TELLO, LoopClock(), envelope=read_envelope(RULES))
        await executor.start()
        for number, text in enumerate(plans):
            await run_plan(executor, f'plan {number}', text, SCENE)
        await executor.close()

    run_virtual(main())
    assert broken == []


@given(st.integers(0, 2**32))
def test_no_drawn_plan_gets_past_a_drawn_envelope(seed: int) -> None:
    trial = Trial()
    run_virtual(try_drone(seed, trial))
    assert trial.broken == []


def test_what_is_allowed_is_done() -> None:
    trial, text = Trial(), 'takeoff;move_forward(70);turn_ccw(180);repeat(2){move_forward(100);};'

    async def main() -> tuple[int, str]:
        body = Body(random.Random(1), 0.0, (0.0, 0.0, 0.0), lambda _: None)
        executor = SegmentExecutor(body, TELLO, LoopClock(), envelope=read_envelope(RULES))
        await executor.start()
        code, message = await run_plan(executor, 'p', text + 'land;', SCENE)
        assert (code, message) == (SegmentCode.NONE, '')
        assert body.place == pytest.approx((-1.3, 0.0, 0.0), abs=1e-9)
        return await run_plan(executor, 'q', 'takeoff;move_forward(121);land;', SCENE)

    code, message = run_virtual(main())
    assert (code, trial.broken) == (SegmentCode.OUT_OF_ENVELOPE, [])
    assert message.startswith("move_forward(121): rule 'workspace': x -2.51 m")


@pytest.mark.parametrize(
    ('call', 'places', 'rule'),
    [
        ('move_forward', [(2.0, 0.0, 1.0), (2.6, 0.0, 1.0)], 'workspace x high'),
        ('move_down', [(2.0, 0.0, 1.0), (2.0, 0.0, -0.1)], 'workspace z low'),
        ('move_up', [(2.0, 0.0, 1.0), (2.0, 0.0, 1.9)], 'height'),
        ('goto', [(0.5, 0.4, 1.0), (1.5, 0.4, 1.0)], 'no_go post'),
        ('move_left', [(0.0, 1.0, 1.0), (0.0, 1.3, 1.0)], 'people worker_1'),
        ('takeoff', [(0.0, 1.5, 0.0), (0.0, 1.5, 1.0)], 'people worker_1'),
    ],
)
def test_the_judge_sees_what_is_broken(
    call: str, places: list[tuple[float, float, float]], rule: str
) -> None:
    told = Told(Call(call), SCENE, places, False, 100.0)
    assert rule in broken_rules(RULES, told, 0.5)
    # The same way back breaks nothing, but for what cannot be left at all.
    back = Told(Call('move_right'), SCENE, places[::-1], False, 100.0)
    assert rule == 'no_go post' or broken_rules(RULES, back, 0.5) == []
