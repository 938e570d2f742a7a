"""A guarded program that flies one Tello into a long move; the benchmark kills or halts it there.

Usage: python -m benchmarks.robots.tello_pilot ADDRESS LOCAL_ADDRESS. Prints the worker's
process id once the move was asked for.
"""

from __future__ import annotations

import asyncio
import os
import sys

from timely_llm_ros.clock import WallClock
from timely_llm_ros.drivers.tello import TelloDriver, TelloOptions
from timely_llm_ros.execution import Guard, SegmentExecutor, run_guarded
from timely_llm_ros.nodes.executor import ExecutorParameters, RobotBody, SharedBodies
from timely_llm_ros.skills import Scene, Segment, parse
from timely_llm_ros.skills.loading import find_skill_set


def main() -> int:
    _, address, local_address = sys.argv
    options = TelloOptions(address=address, local_address=local_address)

    async def fly(guard: Guard) -> int:
        skills = find_skill_set('tello')
        executor = SegmentExecutor(TelloDriver(options), skills, WallClock())
        await executor.start()
        text = 'takeoff;move_forward(500);'
        segment = Segment(0, text, parse(text, skills, ()), 1)
        flight = asyncio.create_task(executor.execute('plan', segment, Scene(), lambda _: None))
        print(os.getpid(), flush=True)
        while not flight.done():
            guard.beat(next_within_s=ExecutorParameters().worker_timeout_s)
            await asyncio.sleep(0.025)
        return 1

    bodies = SharedBodies()
    bodies.remember([RobotBody('drone', 'tello', options)])
    return run_guarded(
        lambda guard: asyncio.run(fly(guard)), bodies.make_safe, prepare=bodies.prepare
    )


if __name__ == '__main__':
    sys.exit(main())
