"""How fast a whole fleet is stopped over real ROS 2, with a planner and right after it was killed.

Every robot is in the middle of a long call of a task. Then all are halted with what `timely-llm
halt` and the window use, from a node that has met the robots' executors, as the window has. A robot
is safe once its body was told so, by the body's own journal, and named once the answer of its
executor is here; times count from the moment of asking, on the machine's monotonic clock.

    python -m benchmarks.robots.fleet_stop [--robots 100] [--programs 4] [--rounds 3]
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rich.console import Console
from rich.progress import Progress
from std_srvs.srv import SetBool

from benchmarks.common import COUNT, Target, arguments, lines_of, save
from benchmarks.robots.ros import UP_LIMIT_S, FleetUnderTest
from timely_llm_ros.demo import Children
from timely_llm_ros.drivers import read_journal
from timely_llm_ros.nodes.fleet import FleetHalt
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.demo import Child

CALL = 'delay(10000)'
LIMIT_S = 5.0
"""Whoever has not answered after this time was not reached (s)."""


class Operator:
    """A node that has met every robot's executor."""

    def __init__(self, robots: Sequence[str]) -> None:
        rclpy.init(args=[])
        self.node = Node('operator')
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._robots = robots
        self._clients = {
            robot: self.node.create_client(SetBool, f'{robot}/halt') for robot in robots
        }

    def ask(self, *, halts: bool) -> tuple[float, dict[str, float]]:
        """Halt all or release them; return when they were asked, and when each was named (s)."""
        named_s: dict[str, float] = {}

        def hear(robot: str, response: SetBool.Response, _: float) -> None:
            if not response.success:
                raise RuntimeError(f'{robot}: {response.message}')
            named_s[robot] = time.monotonic()

        began_s = time.monotonic()
        fleet = FleetHalt(
            self.node, self._robots, halts=halts, on_answer=hear, clients=self._clients
        )
        while fleet.missing and time.monotonic() < began_s + LIMIT_S:
            fleet.look()
            self._executor.spin_once(timeout_sec=0.02)
        return began_s, named_s

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.try_shutdown()


async def all_work(fleet: FleetUnderTest) -> Child:
    """Give each robot a long task; return the client when all are at it."""
    before = {robot: len(fleet.starts_s(robot)) for robot in fleet.robots}
    client = fleet.children.start(
        'worker', [sys.executable, '-m', 'timely_llm_ros.nodes.tools.plan_client'], pipes=True
    )
    stdin = client.process.stdin
    assert stdin is not None
    async with asyncio.timeout(UP_LIMIT_S):
        async for line in lines_of(client):
            if json.loads(line)['event'] == 'ready':
                break
        for robot in fleet.robots:
            task = {'key': robot, 'robot': robot, 'instruction': f'{CALL};' * 30, 'scene': []}
            stdin.write(json.dumps(task).encode() + b'\n')
        stdin.flush()
        while any(len(fleet.starts_s(robot)) == before[robot] for robot in fleet.robots):
            await asyncio.sleep(0.1)
    return client


def stop(fleet: FleetUnderTest, operator: Operator) -> dict[str, Any]:
    """Halt all; return by when the last was named and safe (s), and who was neither."""
    began_s, named_s = operator.ask(halts=True)
    safe_s: dict[str, float] = {}
    end_s = time.monotonic() + LIMIT_S
    while len(safe_s) < len(fleet.robots) and time.monotonic() < end_s:
        for robot in fleet.robots:
            last = read_journal(fleet.folder / f'{robot}.jsonl')[-1]
            if last['event'] == 'safe':
                safe_s[robot] = last['t']
    # Who was safe before was not stopped.
    stopped_s = [at_s - began_s for at_s in safe_s.values() if at_s >= began_s]
    return {
        'stopped': len(stopped_s),
        'not safe': sorted({*fleet.robots} - {*safe_s}),
        'not named': sorted({*fleet.robots} - {*named_s}),
        'last safe (s)': max(stopped_s, default=LIMIT_S),
        'last named (s)': max((at_s - began_s for at_s in named_s.values()), default=LIMIT_S),
    }


async def measure(
    robots: int, programs: int, rounds: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return what became of each fleet stop."""
    found = {}
    with tempfile.TemporaryDirectory(prefix='timely-fleet-stop-') as name:
        os.environ['ROS_HOME'] = name
        children = Children(Path(name))
        names = [f'r_{number}' for number in range(1, robots + 1)]
        fleet = FleetUnderTest(children, Path(name), names, programs, time_scale=1.0)
        operator = Operator(names)
        try:
            await fleet.all_up(progress)
            operator.ask(halts=False)
            for number in range(1, rounds + 1):
                client = await all_work(fleet)
                found[f'planner alive, {number}'] = stop(fleet, operator)
                operator.ask(halts=False)
                await children.stop(client)
            await all_work(fleet)
            assert fleet.planner is not None
            fleet.planner.process.send_signal(signal.SIGKILL)
            fleet.planner.process.wait()
            found['planner just killed'] = stop(fleet, operator)
        finally:
            operator.close()
            await children.stop_all()
    return found


def main() -> int:
    """Measure, print and save; return the exit code."""
    parser = arguments(__doc__)
    parser.add_argument('--robots', type=COUNT, default=100)
    parser.add_argument('--programs', type=COUNT, default=4, help='executors that share them')
    parser.add_argument('--rounds', type=COUNT, default=3, help='with the planner alive')
    options = parser.parse_args()
    prepare_for_dds()
    os.environ |= {
        'ROS_DOMAIN_ID': str(free_domain()),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    }
    with Progress(console=Console(stderr=True)) as progress:
        run = measure(options.robots, options.programs, options.rounds, progress)
        figures = asyncio.run(run)
    print(f'{"":<22}{"stopped":>9}{"last safe":>12}{"last named":>13}{"lacking":>9}')
    targets = []
    for case, row in figures.items():
        lacking = len({*row['not safe'], *row['not named']})
        print(
            f'{case:<22}{row["stopped"]:>9}{1000 * row["last safe (s)"]:>9.0f} ms'
            f'{1000 * row["last named (s)"]:>10.0f} ms{lacking:>9}'
        )
        targets += [
            Target(f'{case}: last safe (s)', row['last safe (s)'], '<=', 0.5),
            Target(f'{case}: last named (s)', row['last named (s)'], '<=', 0.5),
            Target(f'{case}: stopped', row['stopped'], '>=', options.robots),
        ]
    sizes = {'robots': options.robots, 'executor programs': options.programs}
    save('fleet_stop', {**sizes, **figures}, targets, path=options.json)
    return 0 if all(target.ok for target in targets) else 1


if __name__ == '__main__':
    sys.exit(main())
