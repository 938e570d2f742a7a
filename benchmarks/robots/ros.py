"""What fleets of a planner and executors cost over real ROS 2: start, idle, a segment, memory.

Every fleet works from its programs, as a user starts them. All are up once each robot has done a
task. Once none is new to another any more, the planner's processor time is measured while nobody
asks for anything. Segments are
sent by hand to one of the robots, in turns with goals of the same type to a bare action of rclpy's
in a process of its own; times are from sending to the begin of the work there, on the machine's
monotonic clock.

    python -m benchmarks.robots.ros [--fleets 1x1 32x1 32x16 128x1 128x16] [--goals 300]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import rclpy
from rclpy.action import ActionClient, ActionServer
from rclpy.experimental import EventsExecutor
from rclpy.node import Node
from rich.console import Console
from rich.progress import Progress
from timely_llm_ros.action import ExecuteSegment
from timely_llm_ros.msg import SkillSegment
from unique_identifier_msgs.msg import UUID

from benchmarks.common import COUNT, Target, arguments, lines_of, sample, save
from timely_llm_ros.demo import Children, node_command
from timely_llm_ros.drivers import read_journal
from timely_llm_ros.nodes.executor import ExecutorParameters
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.ros import NEW_S, REST_PERIOD_S
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from timely_llm_ros.demo import Child

FLEETS = ('1x1', '32x1', '32x16', '128x1', '128x16')
UP_LIMIT_S = 240.0
IDLE_S = 20.0
SETTLE_S = 5.0
"""From the last task to the begin of what is measured (s)."""
GOAL_LIMIT_S = 10.0
MEETINGS = 3
TICK_S = 1.0 / os.sysconf('SC_CLK_TCK')
AT_ONCE, AGAIN_S = 64, 0.5
"""How many robots are asked at a time whether they are up, and how soon one is again that was not
(s): otherwise this were the load."""

BARE = 'bare_action'
TEXT = 'delay(100);'


@dataclass(slots=True)
class FleetUnderTest:
    """A planner, and executors that share the robots evenly."""

    children: Children
    folder: Path
    robots: list[str]
    programs: int
    time_scale: float = 0.01
    worker_timeout_s: float = ExecutorParameters().worker_timeout_s
    planner: Child | None = None
    executors: list[Child] = field(default_factory=list)
    client: Child | None = None
    told: AsyncIterator[bytes] | None = None
    """What the client prints."""

    def start(self) -> None:
        entries = [f'{robot}:tello' for robot in self.robots]
        parameters = {'robots': entries, 'engine': 'simulated'}
        self.planner = self.children.start('planner', node_command('planner', parameters))
        for number in range(self.programs):
            hosted = {
                'robots': entries[number :: self.programs],
                'journal_path': f'{self.folder}/{{robot}}.jsonl',
                'time_scale': self.time_scale,
                'worker_timeout_s': self.worker_timeout_s,
            }
            name = f'executor_{number}'
            self.executors.append(self.children.start(name, node_command('executor', hosted)))

    async def all_up(self, progress: Progress, limit_s: float = UP_LIMIT_S) -> float:
        """Return when each robot has done a task (s after the start); ``client`` had asked it.

        Raises:
            TimeoutError: One has not within ``limit_s`` (s).
        """
        began_s = time.monotonic()
        self.start()
        self.client = client = self.children.start(
            'client', [sys.executable, '-m', 'timely_llm_ros.nodes.tools.plan_client'], pipes=True
        )
        self.told = lines_of(client)
        stdin = client.process.stdin
        assert stdin is not None

        unasked, asked = deque(self.robots), set[str]()

        def ask() -> None:
            while unasked and len(asked) < AT_ONCE:
                asked.add(robot := unasked.popleft())
                task = {'key': robot, 'robot': robot, 'instruction': TEXT, 'scene': []}
                stdin.write(json.dumps(task).encode() + b'\n')
            stdin.flush()

        def ask_again(robot: str) -> None:
            unasked.append(robot)
            ask()

        row = progress.add_task(f'{len(self.robots)} robots come up', total=len(self.robots))
        missing, error, loop = set(self.robots), '', asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit_s):
                async for line in self.told:
                    event = json.loads(line)
                    key = event.get('key', '')
                    match event['event']:
                        case 'ready':
                            ask()
                        case 'result' if event['status'] == 'succeeded':
                            missing.discard(key)
                            progress.update(row, completed=len(self.robots) - len(missing))
                        case 'result' | 'rejected' | 'lost' if key:
                            # Who meets thousands of endpoints is silent, or unheard, for seconds.
                            error = event['error']
                            loop.call_later(AGAIN_S, ask_again, key)
                        case _:
                            continue
                    asked.discard(key)
                    ask()
                    if not missing:
                        break
        except TimeoutError:
            waited = f'{len(missing)} of {len(self.robots)} robots did no task within {limit_s:g} s'
            raise TimeoutError(f'{waited}; the latest error: {error or "none"}') from None
        return time.monotonic() - began_s

    def processor_s(self) -> float:
        """Return the planner's processor time so far (s)."""
        assert self.planner is not None
        path = Path(f'/proc/{self.planner.process.pid}/stat')
        fields = path.read_text().rpartition(')')[2].split()
        return TICK_S * (int(fields[11]) + int(fields[12]))

    def memory_mb(self) -> tuple[float, float]:
        """Return what the planner and what all executors take."""
        assert self.planner is not None
        programs = [self.planner, *self.executors]
        samples = [sample(child.process.pid, 0.0) for child in programs]
        ended = [child.name for child in programs if child.process.poll() is not None]
        if ended:
            raise RuntimeError(f'{", ".join(ended)}: expected to run while it is measured')
        taken = [one.memory_mb for one in samples if one is not None]
        return taken[0], sum(taken[1:])

    def starts_s(self, robot: str) -> list[float]:
        """Return when the robot's calls began (s)."""
        lines = read_journal(self.folder / f'{robot}.jsonl')
        return [line['t'] for line in lines if line['event'] == 'start']


class Sender:
    """Sends goals from this process, one at a time."""

    def __init__(self) -> None:
        rclpy.init(args=[])
        self.node = Node('sender')
        self.executor = EventsExecutor()
        self.executor.add_node(self.node)

    def client(self, name: str) -> ActionClient:
        client = ActionClient(self.node, ExecuteSegment, name)
        if not client.wait_for_server(GOAL_LIMIT_S):
            raise TimeoutError(f'action {name!r}: no server within {GOAL_LIMIT_S:g} s')
        return client

    def send(self, client: ActionClient, robot: str) -> tuple[float, ExecuteSegment.Result]:
        """Send a segment; return when (s), and its result."""
        segment = SkillSegment(
            plan_id=UUID(uuid=list(uuid.uuid4().bytes)), robot=robot, skill_set='tello', text=TEXT
        )
        goal = ExecuteSegment.Goal(segment=segment)
        sent_s = time.monotonic()
        response = client.send_goal_async(goal)
        self._until(response)
        result = response.result().get_result_async()
        self._until(result)
        return sent_s, result.result().result

    def meet(self, client: ActionClient, robot: str) -> None:
        """Send segments until one has its result: the others came before both had met.

        Raises:
            TimeoutError: None had.
        """
        for _ in range(MEETINGS):
            with suppress(TimeoutError):
                self.send(client, robot)
                # What was sent before it, and is heard late, must not begin among the others.
                time.sleep(SETTLE_S)
                return
        raise TimeoutError(f'{MEETINGS} goals: expected an answer to one')

    def _until(self, future: Any) -> None:
        self.executor.spin_until_future_complete(future, GOAL_LIMIT_S)
        if not future.done():
            raise TimeoutError(f'a goal: no answer within {GOAL_LIMIT_S:g} s')

    def close(self) -> None:
        self.executor.remove_node(self.node)
        self.node.destroy_node()
        rclpy.try_shutdown()


def serve_bare() -> None:
    """Serve an action that tells when its work began, with nothing of this package."""
    rclpy.init(args=[])
    node = Node('bare')

    def work(goal: Any) -> ExecuteSegment.Result:
        began_s = time.monotonic()
        goal.succeed()
        return ExecuteSegment.Result(value=repr(began_s))

    ActionServer(node, ExecuteSegment, BARE, work)
    executor = EventsExecutor()
    executor.add_node(node)
    while True:
        executor.spin_once(60.0)


def latencies(fleet: FleetUnderTest, goals: int) -> dict[str, list[float]]:
    """Return from sending a goal to the begin of its work (s), bare and at a robot in turns."""
    robot, sender = fleet.robots[0], Sender()
    try:
        bare, ours = sender.client(BARE), sender.client(f'{robot}/execute_segment')
        for client in (bare, ours):
            sender.meet(client, robot)
        found: dict[str, list[float]] = {'bare': [], 'segment': []}
        for _ in range(goals):
            sent_s, result = sender.send(bare, robot)
            found['bare'].append(float(result.value) - sent_s)
            before = len(fleet.starts_s(robot))
            sent_s, result = sender.send(ours, robot)
            if result.error_code:
                raise RuntimeError(f'segment: {result.error_msg}')
            found['segment'].append(fleet.starts_s(robot)[before] - sent_s)
        return found
    finally:
        sender.close()


async def measure(size: str, goals: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of one fleet."""
    robots, programs = map(int, size.split('x'))
    with tempfile.TemporaryDirectory(prefix='timely-ros-') as name:
        children = Children(Path(name))
        names = [f'r_{number}' for number in range(1, robots + 1)]
        fleet = FleetUnderTest(children, Path(name), names, programs)
        try:
            up_s = await fleet.all_up(progress)
            assert fleet.client is not None
            await children.stop(fleet.client)
            await asyncio.sleep(NEW_S + REST_PERIOD_S)
            before_s, since_s = fleet.processor_s(), time.monotonic()
            await asyncio.sleep(IDLE_S)
            share = (fleet.processor_s() - before_s) / (time.monotonic() - since_s)
            planner_mb, executors_mb = fleet.memory_mb()
            bare = [sys.executable, '-m', 'benchmarks.robots.ros', '--bare']
            children.start('bare', bare)
            found = await asyncio.to_thread(latencies, fleet, goals)
        finally:
            await children.stop_all()
    return {
        'robots': robots,
        'executor programs': programs,
        'up (s)': up_s,
        'planner, idle (cores)': share,
        'planner (MB)': planner_mb,
        'executors (MB)': executors_mb,
        'latencies (s)': found,
    }


def quantiles_ms(times_s: list[float]) -> Iterator[float]:
    """Return median and 99th percentile (ms)."""
    return (1000 * float(np.percentile(times_s, part)) for part in (50, 99))


def targets(figures: dict[str, dict[str, Any]]) -> list[Target]:
    """Print the table; return what it is measured against."""
    print(
        f'{"robots x programs":<18}{"all up":>9}{"idle":>9}{"planner":>9}{"executors":>10}'
        f'{"bare p50, p99":>17}{"segment p50, p99":>18}'
    )
    found = []
    alone = next(iter(figures.values()))
    for size, row in figures.items():
        bare, ours = (list(quantiles_ms(row['latencies (s)'][it])) for it in ('bare', 'segment'))
        print(
            f'{size:<18}{row["up (s)"]:>7.1f} s{100 * row["planner, idle (cores)"]:>8.2f}%'
            f'{row["planner (MB)"]:>6.0f} MB{row["executors (MB)"]:>7.0f} MB'
            f'{bare[0]:>8.2f}{bare[1]:>6.2f} ms{ours[0]:>9.2f}{ours[1]:>6.2f} ms'
        )
        for index, name in enumerate(('p50', 'p99')):
            ratio = ours[index] / bare[index]
            found.append(Target(f'goal to work over a bare action, {name}, {size}', ratio, '<=', 3))
        more = row['robots'] - alone['robots']
        if more:
            share = row['planner, idle (cores)'] - alone['planner, idle (cores)']
            name = f'idle planner per robot, {size} (% of a core)'
            found.append(Target(name, 100 * share / more, '<=', 0.03))
    return found


def fleet_size(text: str) -> str:
    """Return the text if it is robots x programs.

    Raises:
        argparse.ArgumentTypeError: It is not.
    """
    if not re.fullmatch('[1-9][0-9]*x[1-9][0-9]*', text):
        raise argparse.ArgumentTypeError(f'{text!r}: expected robots x programs, such as 32x16')
    return text


def main() -> None:
    """Measure every fleet, one after the other."""
    parser = arguments(__doc__)
    parser.add_argument(
        '--fleets', type=fleet_size, nargs='+', default=FLEETS, metavar='ROBOTSxPROGRAMS'
    )
    parser.add_argument(
        '--goals', type=COUNT, default=300, help='goals of each kind (default: 300)'
    )
    parser.add_argument('--bare', action='store_true', help='serve the bare action')
    options = parser.parse_args()
    prepare_for_dds()
    if options.bare:
        serve_bare()
    os.environ |= {
        'ROS_DOMAIN_ID': str(free_domain()),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    }
    figures = {}
    with Progress(console=Console(stderr=True)) as progress:
        for size in options.fleets:
            figures[size] = asyncio.run(measure(size, options.goals, progress))
    save('ros', figures, targets(figures), path=options.json)


if __name__ == '__main__':
    main()
