"""How fast robots whose skills are ROS actions are safe after a kill -9, over real ROS 2.

A rover under Nav2, an arm under MoveIt and a drone under Aerostack2, each with the shipped calls
file, mocked servers and programs with default timeouts. In the middle of a goal the worker, the
guard, both at once or the server are killed. Where somebody is left to act, a time counts from the
signal; else from contact: the moment when a node beside them sees the new executor's client of the
action, or when the new server says that it is up. It ends when the server is asked to cancel its
goals, which is the safe action of all three, by the server's own record on the machine's monotonic
clock. Then the robot is flown again, and its task has to reach a goal. The mocks have the real-time
priority that executors ask for, as a robot's servers have a computer of their own.

    python -m benchmarks.robots.server_deaths [--trials 3]
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import rclpy
from rclpy.node import Node
from rich.console import Console
from rich.progress import Progress

from benchmarks.common import COUNT, Target, arguments, save, worker_of
from benchmarks.robots.deaths import Site, until
from timely_llm_ros.demo import Children
from timely_llm_ros.processes import prepare_for_dds, take_precedence
from timely_llm_ros.testing import free_domain
from tools import robot_interfaces

TARGET_S = 0.5
FAULTS = {
    'worker killed': 'signal',
    'guard killed': 'signal',
    'worker and guard killed': 'contact',
    'server killed': 'contact',
}
"""What dies, and from what a time counts."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A robot with ROS interfaces."""

    skill_set: str
    calls: str
    packages: tuple[str, ...]
    plan: str
    action: str
    """What the plan's first call is a goal of."""


KINDS = (
    Kind('nav2', 'nav2', ('nav2_msgs',), 'drive(300);', 'drive_on_heading'),
    Kind('arm', 'moveit', ('control_msgs', 'shape_msgs', 'moveit_msgs'), 'home;', 'move_action'),
    Kind('tello', 'aerostack2', ('as2_msgs',), 'move_forward(300);', 'GoToBehavior'),
)


class ServedSite(Site):
    """The programs of one robot, and mocks of what its calls file names."""

    def __init__(self, kind: Kind, children: Children, folder: Path, bystander: Node) -> None:
        robot = f'{kind.calls}_1'
        drivers = folder / f'{robot}.drivers.json'
        drivers.write_text(json.dumps({robot: {'driver': 'ros', 'calls_file': kind.calls}}))
        super().__init__(
            children,
            folder,
            robot,
            kind.skill_set,
            kind.plan * 2,
            begins='goal',
            executor={'drivers_file': str(drivers), 'journal_path': ''},
        )
        self._kind = kind
        self._service = f'/{robot}/{kind.action}/_action/cancel_goal'
        self._bystander = bystander

    async def start_servers(self) -> float:
        """Start the mocks; return when they say that they are up (s)."""
        command = ['--skill-set', self._kind.skill_set, '--calls', self._kind.calls]
        command += ['--robot', self.robot, '--seconds', '60', '--record', str(self.journal_path)]
        module = ['-m', 'timely_llm_ros.nodes.tools.mock_servers']
        # At the executors' priority: a robot's servers have a computer of their own.
        take_precedence()
        child = self.children.start(
            f'{self.robot}_servers', [sys.executable, *module, *command], pipes=True
        )
        take_precedence(alone=True)
        self.running['servers'] = child
        stdout = child.process.stdout
        assert stdout is not None
        assert (await asyncio.to_thread(stdout.readline)).startswith(b'ready')
        return monotonic()

    def _safe_s(self, since: int) -> float | None:
        """Return when the action's server was first asked to cancel, of what its record has new."""
        for line in self.journal()[since:]:
            if line['event'] == 'cancel' and line['name'].endswith(self._kind.action):
                return float(line['t'])
        return None

    async def time_to_safe(self, fault: str) -> float:
        """Have something die while the robot works; return how long it takes to be safe (s)."""
        await self.fly()
        before = len(self.journal())
        since_s = await self._kill(fault)
        await until(lambda: self._safe_s(before), f'{self.robot}: {fault}: safe')
        safe_s = self._safe_s(before)
        assert safe_s is not None
        executor = self.running['executor']
        if fault in ('worker killed', 'guard killed'):
            await until(lambda: executor.process.poll() is not None, 'its end')
            self.start('executor')
        return safe_s - since_s

    async def _kill(self, fault: str) -> float:
        """Kill, and start what nobody else starts; return from when time counts (s)."""
        executor, servers = self.running['executor'], self.running['servers']
        worker, guard = await worker_of(executor), executor.process.pid
        if fault == 'server killed':
            servers.expected_to_end = True
            key = str(self.tasks)
            servers.process.kill()
            servers.process.wait()
            await until(lambda: key in self.ended, 'the loss of the server')
            return await self.start_servers()
        executor.expected_to_end = True
        since_s = monotonic()
        if fault == 'worker and guard killed':
            # The worker shall not outlive the guard by the time that its own watch takes.
            os.kill(worker, signal.SIGSTOP)
            os.kill(guard, signal.SIGKILL)
            os.kill(worker, signal.SIGKILL)
            executor.process.wait()
            contact = asyncio.create_task(self._contact())
            self.start('executor')
            return await contact
        os.kill(guard if fault == 'guard killed' else worker, signal.SIGKILL)
        return since_s

    async def _contact(self) -> float:
        """Return when one client more is known (s). The dead one is known for a while, too."""
        known = self._bystander.count_clients(self._service)
        while (now := self._bystander.count_clients(self._service)) <= known:
            known = now
            await asyncio.sleep(0.002)
        return monotonic()


async def measure(trials: int, progress: Progress) -> dict[str, dict[str, Any]]:
    """Return times to safety by robot and fault."""
    figures: dict[str, dict[str, Any]] = {}
    # As executors have it, with the threads of DDS, so that a contact is not seen late.
    take_precedence()
    rclpy.init(args=[])
    bystander = Node('bystander')
    take_precedence(alone=True)
    try:
        for kind in KINDS:
            with tempfile.TemporaryDirectory(prefix='timely-server-deaths-') as folder:
                children = Children(Path(folder))
                site = ServedSite(kind, children, Path(folder), bystander)
                row = progress.add_task(kind.calls, total=trials * len(FAULTS))
                try:
                    await site.start_servers()
                    site.start('planner')
                    site.start('executor')
                    await site.connect()
                    for fault in FAULTS:
                        times_s = []
                        for _ in range(trials):
                            times_s.append(await site.time_to_safe(fault))
                            progress.advance(row)
                        figures[f'{kind.calls}: {fault}'] = {
                            'counted': FAULTS[fault],
                            'times_s': times_s,
                            'worst_s': max(times_s),
                        }
                    # It works again after the last fault, too.
                    await site.fly()
                finally:
                    await children.stop_all()
    finally:
        bystander.destroy_node()
        rclpy.try_shutdown()
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--trials', type=COUNT, default=3, help='of each fault')
    options = parser.parse_args()
    for package in dict.fromkeys(name for kind in KINDS for name in kind.packages):
        robot_interfaces.install(package)
    prepare_for_dds()
    os.environ |= {
        'ROS_DOMAIN_ID': str(free_domain()),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    }
    with Progress(console=Console(stderr=True)) as progress:
        figures = asyncio.run(measure(options.trials, progress))
    targets = []
    print(f'{"":<38}{"median":>9}{"worst":>9}  counted from')
    for case, row in figures.items():
        times_s = sorted(row['times_s'])
        median_ms, worst_ms = 1000 * times_s[len(times_s) // 2], 1000 * times_s[-1]
        print(f'{case:<38}{median_ms:>6.0f} ms{worst_ms:>6.0f} ms  {row["counted"]}')
        name = f'worst time from {row["counted"]} to safe, {case} (s)'
        targets.append(Target(name, row['worst_s'], '<=', TARGET_S))
    save('server_deaths', figures, targets, path=options.json)


if __name__ == '__main__':
    main()
