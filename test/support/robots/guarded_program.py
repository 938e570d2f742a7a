"""An executor program for the guard's tests: drives one long call on a simulated robot.

Usage: guarded_program.py JOURNAL MODE, MODE one of run, beat, stubborn, crash, finish, fail.
``run`` ends on SIGTERM; ``beat`` also gives signs of life; ``stubborn`` ignores that its guard is
gone; ``crash`` raises; ``finish`` returns 0; ``fail`` ends like ``run``, but its own driver cannot
issue the safe action. Prints ``guard PID worker PID`` once it drives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers import SimulatedDriver, SimulatedOptions
from timely_llm_ros.errors import RobotUnavailableError
from timely_llm_ros.execution import SegmentExecutor
from timely_llm_ros.execution.guard import run_guarded
from timely_llm_ros.skills import Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import parse_skill_set
from timely_llm_ros.skills.scene import Scene

if TYPE_CHECKING:
    from timely_llm_ros.execution.guard import Guard

SKILLS = parse_skill_set("""
name: slow
description: a slow robot
safe_action: halt
skills:
  move: {description: move for long, duration: {model: constant, seconds: 600}}
  halt: {description: stop, duration: {model: constant, seconds: 0}}
""")


BEAT_LIMIT_S = 0.2


class UnsafeDriver(SimulatedDriver):
    """Has lost its robot when it matters."""

    lost = False

    async def safe(self) -> None:
        if not self.lost:
            return
        raise RobotUnavailableError('the link is down')


async def drive(guard: Guard, journal: str, mode: str) -> int:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    if mode != 'stubborn':
        guard.on_lost(lambda: loop.call_soon_threadsafe(ended.set))
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_signal_handler(signal.SIGINT, ended.set)
    kind = UnsafeDriver if mode == 'fail' else SimulatedDriver
    executor = SegmentExecutor(
        kind(SKILLS, SimulatedOptions(journal_path=journal)), SKILLS, WallClock()
    )
    await executor.start()
    UnsafeDriver.lost = True
    # What comes after is noted.
    Path(journal).write_text('')
    segment = Segment(0, 'move;', parse('move;', SKILLS, ()), 1)
    call = loop.create_task(executor.execute('plan', segment, Scene(), lambda _: None))
    await asyncio.sleep(0)
    if mode == 'beat':
        guard.beat(BEAT_LIMIT_S)
    print(f'guard {os.getppid()} worker {os.getpid()}', flush=True)
    if mode == 'crash':
        raise RuntimeError('crashed on purpose')
    while not ended.is_set() and mode != 'finish':
        if mode == 'beat':
            guard.beat(BEAT_LIMIT_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), 0.02)
    safe = await executor.close()
    await call
    return 0 if safe else 1


def main() -> int:
    _, journal, mode = sys.argv

    async def make_safe() -> None:
        driver = SimulatedDriver(SKILLS, SimulatedOptions(journal_path=journal))
        await driver.connect()
        await driver.safe()
        await driver.close()

    # Nobody has to free the lowest descriptors for the guard's channel.
    if mode == 'many files':
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, most), most))
        assert max(os.open(os.devnull, os.O_RDONLY) for _ in range(1100)) > 1023
    return run_guarded(
        lambda guard: asyncio.run(drive(guard, journal, mode)),
        make_safe,
        grace_s=0.2 if mode == 'stubborn' else 5.0,
    )


if __name__ == '__main__':
    sys.exit(main())
