"""Duration models fitted to calls of mock robots, against the times that the mocks really take.

    .venv/bin/python -m benchmarks.robots.durations [--calls 30] [--jitter 0.01] [--json FILE]

Mock Tellos and a mock Indy are driven by the real drivers in real time, with amounts drawn over a
skill's range. ``--calls`` of each skill are fitted as `timely-llm profile-robot` fits them.

The truth is computed and not measured: what the mocks take by the law of their motions (path over
speed, ramps, settling). Calls come one by one, as to a robot that waits for its next segment, and
the model must be what the motions alone take. Tellos of a second fleet get their calls back to
back, as within a segment: then each waits for the pause that the driver keeps between two commands
(``COMMAND_GAP_S``), which is part of that truth. Errors are |fitted / true - 1| at 21 amounts over
the range, and of the slope. The last column is the median of what a call took more than that.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import tempfile
from collections import defaultdict
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.common import FROM_ZERO, Number, Target, arguments, save
from lrtrace.call_samples import CallSample
from timely_llm_ros.calibration import SkillFit, fit_skill
from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers.indy import IndyDriver, IndyOptions
from timely_llm_ros.drivers.indy.mock import HOME_POSE, MM_PER_S, RAMP_S, START_S, MockIndy, Profile
from timely_llm_ros.drivers.tello import COMMAND_GAP_S, TelloDriver, TelloOptions
from timely_llm_ros.drivers.tello.mock import SETTLE_S, TURN_DEG_S, MockTello
from timely_llm_ros.execution import ExecutorLimits, SegmentExecutor
from timely_llm_ros.skills import Argument, Call, Scene, SceneObject, Segment, SkillSet, parse
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

TELLO, ARM = find_skill_set('tello'), find_skill_set('arm')
CUP = SceneObject('cup_1', 'cup', x_m=0.35, z_m=0.05)
SCENE = Scene((CUP,))
GRIPPER_S, APPROACH_M, TELLO_M_S, INDY_SPEED = 0.5, 0.20, 0.5, 0.15
LIMITS = ExecutorLimits(timeout_margin_s=60.0)
BOUND = 0.02
ERRORS = ('slope error', 'mean error', 'greatest error')

# There and back: an aircraft stays where it is, more or less.
FLIGHTS = (
    ('move_forward', 'move_backward', 30, 200),
    ('move_left', 'move_right', 30, 200),
    ('move_up', 'move_down', 20, 150),
    ('turn_cw', 'turn_ccw', 15, 180),
)
"""Two skills that undo one another, and the range of their argument in plan text (cm or deg)."""

BETWEEN_S = 0.25
"""Pause between calls that come one by one (s)."""

TOGETHER = ', back to back'
"""Marks skills whose calls came without a pause."""

Samples = dict[str, list[CallSample]]


def tello_s(call: Call) -> float:
    """How long a mock Tello takes (s)."""
    amount = float(call.arguments[0].value)
    if call.skill.startswith('turn'):
        return SETTLE_S + math.degrees(amount) / TURN_DEG_S
    return SETTLE_S + amount / TELLO_M_S


def together_s(call: Call) -> float:
    """How long it takes if the call before has just ended (s)."""
    return COMMAND_GAP_S + tello_s(call)


def push_s(call: Call) -> float:
    """How long a mock Indy takes for a push from its home position (s)."""
    speed = INDY_SPEED * MM_PER_S
    ramp = 0.25 / RAMP_S * MM_PER_S
    above = (1e3 * CUP.x_m, 1e3 * CUP.y_m, 1e3 * (CUP.z_m + APPROACH_M))
    ways = (
        math.dist(HOME_POSE[:3], above),
        1e3 * APPROACH_M,
        1e3 * float(call.arguments[1].value),
        1e3 * APPROACH_M,
    )
    motions_s = (START_S + Profile(way, speed, ramp).duration_s for way in ways)
    return GRIPPER_S + sum(motions_s)


async def run(executor: SegmentExecutor, skills: SkillSet, text: str, plan: str) -> CallSample:
    statements = parse(text, skills, SCENE)
    segment = Segment(0, text, statements, 1)
    outcome = await executor.execute(plan, segment, SCENE, lambda _: None)
    if not outcome.succeeded:
        raise RuntimeError(f'{text}: {outcome.ending.message}')
    (call,) = statements
    assert isinstance(call, Call)
    return CallSample(call, SCENE, outcome.call_durations_s[-1])


async def fly(
    host: str,
    local: str,
    flight: tuple[str, str, int, int],
    calls: int,
    seed: int,
    *,
    pause_s: float,
) -> Samples:
    there, back, least, most = flight
    mark = '' if pause_s else TOGETHER
    draw, samples = random.Random(f'{seed} {there}'), defaultdict(list)
    mock = MockTello(host, drain_percent_s=0.0)
    await mock.start()
    driver = TelloDriver(
        TelloOptions(address=host, local_address=local, speed_m_s=TELLO_M_S, link_timeout_s=10.0)
    )
    executor = SegmentExecutor(driver, TELLO, WallClock(), LIMITS)
    await executor.start()
    await run(executor, TELLO, 'takeoff;', 'takeoff')
    for number in range(calls):
        amount = draw.randint(least, most)
        for skill in (there, back):
            await asyncio.sleep(pause_s)
            sample = await run(executor, TELLO, f'{skill}({amount});', f'{skill} {number}')
            samples[skill + mark].append(sample)
    await executor.close()
    await mock.close()
    return samples


async def push(mock: MockIndy, calls: int, seed: int) -> Samples:
    draw, samples = random.Random(f'{seed} push'), []
    options = IndyOptions(
        host=mock.host,
        speed=INDY_SPEED,
        gripper_s=GRIPPER_S,
        approach_m=APPROACH_M,
        answer_limit_s=5.0,
        link_limit_s=10.0,
    )
    driver = IndyDriver(ARM, options)
    executor = SegmentExecutor(driver, ARM, WallClock(), LIMITS)
    await executor.start()
    for number in range(calls):
        await run(executor, ARM, 'home;', f'home {number}')
        text = f'push(cup_1,{draw.randint(3, 38)});'
        samples.append(await run(executor, ARM, text, f'push {number}'))
    await executor.close()
    return {'push': samples}


async def measure(options: argparse.Namespace, mock: MockIndy) -> Samples:
    draw = random.SystemRandom()
    net = f'127.{draw.randint(1, 254)}.{draw.randint(1, 254)}'
    flights = [
        fly(f'{net}.{2 + 2 * number + at_once}', f'{net}.1', flight, options.calls, options.seed,
            pause_s=0.0 if at_once else BETWEEN_S)
        for number, flight in enumerate(FLIGHTS)
        for at_once in (False, True)
    ]  # fmt: skip
    found: Samples = {}
    for samples in await asyncio.gather(push(mock, options.calls, options.seed), *flights):
        found |= samples
    return found


def compared(
    skills: SkillSet, samples: Sequence[CallSample], law_s: Callable[[Call], float]
) -> dict[str, Any]:
    """Fit one skill; return the model and its errors."""
    skill = skills.skills[samples[0].call.skill]
    fit = fit_skill(skill, samples)
    if not isinstance(fit, SkillFit):
        return {'left alone': fit.reason}
    more_s = median(sample.duration_s - law_s(sample.call) for sample in samples)
    amounts = [float(sample.call.arguments[-1].value) for sample in samples]
    least, most = min(amounts), max(amounts)
    (*others, last) = samples[0].call.arguments

    def call(amount: float) -> Call:
        return Call(skill.name, (*others, Argument(last.name, '', amount)))

    def slope(time_s: Callable[[Call], float]) -> float:
        return (time_s(call(most)) - time_s(call(least))) / (most - least)

    grid = [call(least + step / 20 * (most - least)) for step in range(21)]
    fitted_s = [fit.model.expected_s(one, SCENE) for one in grid]
    true_s = [law_s(one) for one in grid]
    errors = [abs(ours / true - 1) for ours, true in zip(fitted_s, true_s, strict=True)]
    return {
        'calls': fit.calls,
        'outliers': fit.outliers,
        'model': str(fit.model),
        'range': [least, most],
        'slope error': abs(slope(lambda one: fit.model.expected_s(one, SCENE)) / slope(law_s) - 1),
        'mean error': fmean(errors),
        'greatest error': max(errors),
        'call beyond that (s)': more_s,
    }


LAWS: dict[str, Callable[[Call], float]] = {'push': push_s}
"""The truth of skills that are not a Tello's."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--calls', type=Number(10), default=30, help='of each skill')
    parser.add_argument(
        '--jitter',
        type=Number(0, whole=False),
        default=0.01,
        help="how much the Indy's motions vary",
    )
    parser.add_argument(
        '--seed', type=FROM_ZERO, default=0, help='of amounts and of that variation'
    )
    options = parser.parse_args()
    print(f'driving mocks in real time: about {options.calls * 9} s', file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        mock = MockIndy(folder, jitter=options.jitter, seed=options.seed)
        try:
            samples = asyncio.run(measure(options, mock))
        finally:
            mock.close()
    rows = {
        name: compared(
            ARM if name in LAWS else TELLO,
            found,
            LAWS.get(name, together_s if name.endswith(TOGETHER) else tello_s),
        )
        for name, found in sorted(samples.items())
    }
    print(f'{"skill":28}{"calls":>6}{"slope":>9}{"mean":>9}{"greatest":>9}{"call more":>11}')
    for name, row in rows.items():
        if 'left alone' in row:
            print(f'{name:28} left alone: {row["left alone"]}')
            continue
        errors = ''.join(f'{100 * row[what]:7.2f} %' for what in ERRORS)
        more_ms = 1e3 * row['call beyond that (s)']
        print(f'{name:28}{row["calls"]:6}{errors}{more_ms:8.0f} ms')
    targets = [
        Target(f'{what} of {name}', row.get(what, math.inf), '<=', BOUND)
        for name, row in rows.items()
        for what in ERRORS
    ]
    save('durations', rows, targets, path=options.json)


if __name__ == '__main__':
    main()
