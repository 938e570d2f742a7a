"""Faults of arms in the middle of a motion: when they stand still, by the mocks' own record.

An Indy behind its maker's SDK over gRPC, whose mock is a process of its own, and the joints of any
arm behind the trajectory driver, in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers import create_driver
from timely_llm_ros.drivers.indy import IndyOptions
from timely_llm_ros.drivers.indy.mock import MockIndy
from timely_llm_ros.drivers.trajectory import TrajectoryOptions
from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.execution import ExecutorLimits, SegmentExecutor
from timely_llm_ros.skills import Call, Scene, SceneObject, Segment, parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.testing import JOINTED_POSES, JOINTED_SKILLS, LocalJoints

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from timely_llm_ros.execution import SegmentOutcome, SegmentProgress
    from timely_llm_ros.skills import SkillSet

ROOT = Path(__file__).resolve().parents[2]
ARM = find_skill_set('arm')
LIMIT_S = 60.0
ARMS = 3
"""Indys at once."""

SHORT = ExecutorLimits(timeout_factor=0.1, timeout_margin_s=0.05)
"""Limits under which every motion here takes too long."""

INDY = {
    'Indy: stopped by a person': 'from the call that stops it',
    'Indy: refusal': 'from the refusal',
    'Indy: timeout': 'from the end of the time that the motion may take',
    'Indy: emergency stop': 'from the moment it is pressed',
    'Indy: collision': 'from the collision',
    'Indy: hangs': 'from the moment it answers again',
    'Indy: out of reach': 'from the moment it can be reached again',
    'Indy: driver killed': 'from kill -9 of the process that drives it',
}
JOINTS = {
    'trajectory: stopped by a person': 'from the call that stops it',
    'trajectory: timeout': 'from the end of the time that the motion may take',
    'trajectory: no joint states': 'from the last state; after 0.2 s they count as lost',
    'trajectory: out of reach': 'from the moment its states are heard again',
}
KINDS = INDY | JOINTS
"""What a time is counted from."""

Times = dict[str, tuple[list[float], str]]


class Hand:
    """A driver with its executor, and when its latest call began."""

    def __init__(self, driver: Any, skills: SkillSet, scene: Scene, limits: ExecutorLimits) -> None:
        self.skills, self.scene = skills, scene
        self.executor = SegmentExecutor(driver, skills, WallClock(), limits)
        self.called_s = 0.0
        self._plans = 0

    async def over_s(self, segment: asyncio.Task[SegmentOutcome], text: str) -> float:
        """Let a call take too long; return when its time was over (s)."""
        (call,) = parse(text, self.skills, self.scene)
        assert isinstance(call, Call)
        expected_s = self.skills.skills[call.skill].duration.expected_s(call, self.scene)
        await segment
        allowed = SHORT.timeout_factor * expected_s, SHORT.timeout_margin_s + expected_s
        return self.called_s + max(allowed)

    def run(self, text: str) -> asyncio.Task[SegmentOutcome]:
        self._plans += 1
        segment = Segment(0, text, parse(text, self.skills, self.scene), 1)
        return asyncio.create_task(
            self.executor.execute(str(self._plans), segment, self.scene, self._note)
        )

    def _note(self, progress: SegmentProgress) -> None:
        if progress.elapsed_s < 0.05:
            self.called_s = time.monotonic() - progress.elapsed_s

    async def connect(self) -> None:
        """Connect, as often as it takes."""
        while not self.executor.connected:
            with contextlib.suppress(RobotUnavailableError):
                await self.executor.start()


async def until(condition: Callable[[], Any], what: str) -> Any:
    end_s = time.monotonic() + LIMIT_S
    while not (value := condition()):
        if time.monotonic() > end_s:
            raise TimeoutError(f'{what}: not within {LIMIT_S:g} s')
        await asyncio.sleep(0.05)
    return value


async def at_rest_s(record: Callable[[], list[dict[str, Any]]], since_s: float, kind: str) -> float:
    """Return how long after a time it stood still for good (s); wait until it does."""

    def ends() -> list[dict[str, Any]]:
        motions = [event for event in record() if event['event'] in ('move', 'still')]
        return motions[-1:] if motions and motions[-1]['event'] == 'still' else []

    (end,) = await until(ends, f'{kind}: still')
    return max(0.0, float(end['t']) - since_s)


# An Indy


async def indy(mock: MockIndy, kinds: Sequence[str], trials: int) -> Times:
    found: Times = {}
    for kind in kinds:
        rng, times_s, error = random.Random(kind), [], ''
        for trial in range(trials):
            mock.command('reset')
            side = 45 if trial % 2 else -45
            since_s, error = await indy_fault(kind, mock, f'move_to(40,{side},30);', rng)
            times_s.append(await at_rest_s(lambda: mock.record, since_s, kind))
        found[kind] = times_s, error
    return found


@contextlib.asynccontextmanager
async def driven(mock: MockIndy, *, in_time: bool) -> AsyncIterator[Hand]:
    # Too slow for what is expected of it, or as it is by default.
    options = IndyOptions(host=mock.host)
    if not in_time:
        options = replace(options, speed=0.05)
    limits = ExecutorLimits() if in_time else SHORT
    hand = Hand(create_driver(ARM, options), ARM, Scene(), limits)
    await hand.connect()
    try:
        yield hand
    finally:
        await hand.executor.close()


async def indy_fault(kind: str, mock: MockIndy, text: str, rng: random.Random) -> tuple[float, str]:
    """Have it go wrong once; return from when it counts (s), and what the outcome says."""
    what = kind.removeprefix('Indy: ')
    if what == 'driver killed':
        return await indy_killed(mock, text, rng)
    async with driven(mock, in_time=what != 'timeout') as hand:
        if what == 'refusal':
            mock.command('refuse joint 3 near singularity')
            outcome = await hand.run(text)
            refused: list[Any] = [e['t'] for e in mock.record if e['event'] == 'refused']
            return float(refused[-1]), outcome.ending.message
        segment = await moving(mock, lambda: hand.run(text))
        if what == 'timeout':
            return await hand.over_s(segment, text), (await segment).ending.message
        await asyncio.sleep(rng.uniform(0.2, 1.0))
        since_s = time.monotonic()
        match what:
            case 'stopped by a person':
                await hand.executor.stop()
            case 'emergency stop':
                mock.command('estop')
            case 'collision':
                mock.command('collide')
            case _:
                cut, mend = {'hangs': ('silence', 'answer'), 'out of reach': ('unplug', 'plug')}[
                    what
                ]
                mock.command(cut)
                await segment
                since_s = time.monotonic()
                mock.command(mend)
                await until(lambda: mock.stands_still, 'still')
                await hand.connect()
        return since_s, (await segment).ending.message


async def moving(mock: MockIndy, begin: Callable[[], Any]) -> Any:
    """Begin something; return it once the arm moves."""
    before = len(mock.record)
    begun = begin()
    await until(lambda: any(e['event'] == 'move' for e in mock.record[before:]), 'a motion')
    return begun


_VICTIM = """
import asyncio, sys
from timely_llm_ros.drivers import create_driver
from timely_llm_ros.drivers.indy import IndyOptions
from timely_llm_ros.skills import Scene, parse
from timely_llm_ros.skills.loading import find_skill_set

async def main():
    arm = find_skill_set('arm')
    driver = create_driver(arm, IndyOptions(host=sys.argv[1]))
    await driver.connect()
    await driver.execute(parse(sys.argv[2], arm, Scene())[0], Scene())

asyncio.run(main())
"""


async def indy_killed(mock: MockIndy, text: str, rng: random.Random) -> tuple[float, str]:
    """Kill the process of the driver: the process of its SDK is left."""
    victim = await moving(
        mock,
        lambda: subprocess.Popen(
            [sys.executable, '-c', _VICTIM, mock.host, text],
            stderr=subprocess.DEVNULL,
            env=os.environ | {'PYTHONPATH': str(ROOT)},
        ),
    )
    await asyncio.sleep(rng.uniform(0.2, 1.0))
    since_s = time.monotonic()
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    return since_s, 'the process of the SDK stopped the arm'


# Joints behind a trajectory controller


async def joints(poses_file: str, trials: int) -> Times:
    found: Times = {}
    for kind in JOINTS:
        rng, times_s, error = random.Random(kind), [], ''
        for _ in range(trials):
            arm = LocalJoints()
            options = TrajectoryOptions(poses_file=poses_file, speed=0.25)
            driver = create_driver(JOINTED_SKILLS, options, joints=arm)
            limits = SHORT if kind.endswith('timeout') else ExecutorLimits()
            hand = Hand(driver, JOINTED_SKILLS, Scene((SceneObject('cup_1', 'cup'),)), limits)
            await hand.connect()
            # The mock sees that a motion is over when somebody looks.
            looking = asyncio.create_task(_look(arm))
            since_s, error = await joints_fault(kind, hand, arm, rng)
            times_s.append(await at_rest_s(partial(getattr, arm, 'record'), since_s, kind))
            looking.cancel()
            await hand.executor.close()
        found[kind] = times_s, error
    return found


async def _look(arm: LocalJoints) -> None:
    while True:
        arm.body.joints()
        await asyncio.sleep(0.002)


async def joints_fault(
    kind: str, hand: Hand, arm: LocalJoints, rng: random.Random
) -> tuple[float, str]:
    """Have it go wrong once; return from when it counts (s), and what the outcome says."""
    segment = hand.run('pick(cup_1);')
    await until(lambda: arm.moves, 'a motion')
    what = kind.removeprefix('trajectory: ')
    if what == 'timeout':
        return await hand.over_s(segment, 'pick(cup_1);'), (await segment).ending.message
    await asyncio.sleep(rng.uniform(0.2, 1.0))
    since_s = time.monotonic()
    if what == 'stopped by a person':
        await hand.executor.stop()
        return since_s, (await segment).ending.message
    arm.silent = True
    if what == 'no joint states':
        last_s = max(reading.heard_s for reading in arm.readings.values())
        return last_s, (await segment).ending.message
    arm.body.drop_all(True)
    error = (await segment).ending.message
    arm.body.drop_all(False)
    since_s = time.monotonic()
    arm.silent = False
    return since_s, error


async def measure(trials: int) -> dict[str, tuple[list[float], str]]:
    """Measure all kinds, some arms at once; return times and what the last outcome said."""
    with tempfile.TemporaryDirectory() as folder:
        poses = Path(folder) / 'poses.yaml'
        poses.write_text(JOINTED_POSES, encoding='utf-8')
        mocks = [await asyncio.to_thread(MockIndy, folder) for _ in range(ARMS)]
        try:
            parts = await asyncio.gather(
                joints(str(poses), trials),
                *(indy(mock, [*INDY][n::ARMS], trials) for n, mock in enumerate(mocks)),
            )
        finally:
            for mock in mocks:
                mock.close()
    found = {kind: times for part in parts for kind, times in part.items()}
    return {kind: found[kind] for kind in KINDS}
