"""Kills one planner of several, again and again, and watches what its robots and clients notice.

``timely-llm fleet`` starts the planners, each with its share of simulated robots, over real ROS 2,
and starts one that died again, as it does for users. The engine is the simulated one, so that two
cores bear it. Clients send goals without a rest while ``kill -9`` hits one planner after the other,
each time once the one before serves again. Times are on the machine's monotonic clock: of robots by
the record of their bodies, of a restart from the new process.

    python -m benchmarks.attack.planners
    python -m benchmarks.attack.planners --robots 3 --minutes 0.5   # a small one
    python -m benchmarks.attack.planners --planners 2 --time-scale 1

The exit code is 1 if a target was missed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rclpy
from rclpy.node import Node
from rich.console import Console
from rich.progress import Progress
from timely_llm_ros.msg import SkillSegment

from benchmarks.attack import rules
from benchmarks.attack.fleet import Fleet
from benchmarks.attack.processes import adopt_orphans, left_over
from benchmarks.common import (
    COUNT,
    POSITIVE,
    Target,
    arguments,
    enter_own_host,
    family,
    lost_datagrams,
    save,
)
from timely_llm_ros.demo import find_program
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.ros import SEGMENTS_QOS, IdentifiedSubscription
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READY_LIMIT_S = 240.0
"""From the start until every robot has done a task (s)."""

SERVED_LIMIT_S = 60.0
"""How long a planner that was killed may stay away (s); then the next one is killed."""

BETWEEN_S = (6.0, 8.0)
"""From a planner that serves again to the next kill (s). With three planners each lives for longer
than the 15 s after which the supervisor's pause before a restart is the shortest again."""

END_S = 30.0
"""How long the fleet may take to end after an interrupt (s)."""

LOOK_S = 0.01
SAFE_S, BACK_S = 0.5, 3.0


@dataclass(slots=True)
class Kill:
    """One death of a planner.

    Attributes:
        share: Its share.
        at_s: When it was killed (s).
        restarted_s: When the process that took its place was last seen not to be there (s).
    """

    share: str
    at_s: float
    restarted_s: float | None = None


class Shares(Fleet):
    """Planners with a share of the robots each, as one file of ``timely-llm fleet``.

    Args:
        folder: For logs, journals and the fleet's file.
        seed: Of the tasks.
        planners: How many planners there are.
        robots: How many robots all of them have together.
        time_scale: How long skills take, in parts of what they take on robots.
    """

    # They know from the planner's heartbeat that it is there.
    pause_s = 0.05

    def __init__(
        self, folder: Path, *, seed: int, planners: int, robots: int, time_scale: float
    ) -> None:
        names = [f'r_{number}' for number in range(1, robots + 1)]
        self.robots = dict.fromkeys(names, 'tello')
        self.clients = {f'share_{n + 1}': names[n::planners] for n in range(planners)}
        super().__init__(folder, folder, seed=seed, link_pid=None)
        self._file = folder / 'fleet.yaml'
        content = {
            'robots': self.robots,
            # All robots of a share are in one executor: a process for each is no load of planners.
            'together': True,
            'shares': self.clients,
            'planner': {'engine': 'simulated'},
            'executor': {
                'journal_path': str(folder / '{robot}.jsonl'),
                'time_scale': time_scale,
            },
        }
        # JSON is YAML.
        self._file.write_text(json.dumps(content))

    async def start(self) -> None:
        """Start every program; each robot then has to do a task."""
        for name in ('fleet', *self.clients):
            self.launch(name)
        self.set_to_work()

    async def stop(self) -> None:
        """End the tasks, then every program."""
        await self.rest()
        for run in tuple(self.running.values()):
            run.wanted_s = time.monotonic()
            await self.children.stop(run.child, limit_s=END_S)
            self.note_end(run)

    def _command(self, name: str, label: str) -> list[str]:
        if name == 'fleet':
            logs = self.folder / f'{label}programs'
            return [*find_program('timely-llm'), 'fleet', str(self._file), '--logs', str(logs)]
        client = [sys.executable, '-m', 'timely_llm_ros.nodes.tools.plan_client']
        return [*client, '--ros-args', '-r', f'__ns:=/{name}']

    def _hear(self, client: str, event: dict[str, Any], now_s: float) -> None:
        if event['event'] == 'lost' and not event['key']:
            # Each open task has an answer of its own.
            self.ready.discard(client)
        else:
            super()._hear(client, event, now_s)

    def planner_pid(self, share: str) -> int | None:
        """Return the process of a share's planner; None while there is none."""
        for pid in family(self.running['fleet'].child.process.pid)[1:]:
            try:
                words = Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
            except OSError:
                continue
            if f'__ns:=/{share}'.encode() in words and b'__node:=planner' in words:
                return pid
        return None

    def succeeded(self, since_s: float = -inf) -> set[str]:
        """Return the robots that have done a task that was sent since then."""
        tasks = self.tasks.values()
        return {
            task.robot
            for task in tasks
            if task.sent_s > since_s and task.ends and task.ends[0][1] == 'succeeded'
        }


class Observer:
    """Hears every robot's segments, and who published them."""

    def __init__(self, clients: Mapping[str, Sequence[str]]) -> None:
        rclpy.init(args=[])
        self._node = Node('observer')
        self._topics = {
            robot: IdentifiedSubscription(
                self._node, SkillSegment, f'/{share}/{robot}/skill_segments', SEGMENTS_QOS
            )
            for share, robots in clients.items()
            for robot in robots
        }
        self.heard: list[tuple[float, str, str, bytes]] = []

    def look(self) -> None:
        """Note what has come since the last time."""
        for robot, topic in self._topics.items():
            for segment, publisher in topic.take():
                plan = bytes(segment.plan_id.uuid).hex()
                self.heard.append((time.monotonic(), robot, plan, publisher))

    async def listen(self) -> None:
        """Look again and again."""
        while True:
            self.look()
            await asyncio.sleep(0.1)

    def close(self) -> None:
        """Leave ROS."""
        self._node.destroy_node()
        rclpy.try_shutdown()


async def attack(shares: Shares, length_s: float, seed: int, progress: Progress) -> list[Kill]:
    """Kill planners in turns for so long, then let every task end; return the kills."""
    row = progress.add_task('robots come up', total=len(shares.robots))
    end_s = time.monotonic() + READY_LIMIT_S
    while len(done := shares.succeeded()) < len(shares.robots):
        progress.update(row, completed=len(done))
        _require_alive(shares)
        if time.monotonic() > end_s:
            missing = ', '.join(sorted(set(shares.robots) - done))
            raise TimeoutError(f'no task done within {READY_LIMIT_S:g} s by: {missing}')
        await asyncio.sleep(0.1)
    progress.update(row, completed=len(done))
    rng, kills = random.Random(f'{seed} kills'), list[Kill]()
    row, began_s = progress.add_task('kills', total=length_s), time.monotonic()
    while (now_s := time.monotonic()) < began_s + length_s:
        progress.update(row, completed=now_s - began_s)
        await asyncio.sleep(rng.uniform(*BETWEEN_S))
        share = list(shares.clients)[len(kills) % len(shares.clients)]
        kills.append(await _kill(shares, share))
        _require_alive(shares)
    progress.update(row, completed=length_s)
    await shares.rest()
    end_s = time.monotonic() + rules.END_LIMIT_S
    while any(not task.over for task in shares.tasks.values()) and time.monotonic() < end_s:
        await asyncio.sleep(0.1)
    return kills


async def _kill(shares: Shares, share: str) -> Kill:
    """Kill a planner; return once the next one's robots have done a task, or it takes too long."""
    pid = shares.planner_pid(share)
    if pid is None:
        raise RuntimeError(f'planner of {share}: expected one that runs')
    os.kill(pid, signal.SIGKILL)
    kill = Kill(share, time.monotonic())
    looked_s = kill.at_s
    while time.monotonic() < kill.at_s + SERVED_LIMIT_S:
        if kill.restarted_s is None:
            now_s = time.monotonic()
            if shares.planner_pid(share) not in (None, pid):
                kill.restarted_s = looked_s
            looked_s = now_s
        elif shares.succeeded(kill.at_s) & set(shares.clients[share]):
            break
        await asyncio.sleep(LOOK_S)
    return kill


def _require_alive(shares: Shares) -> None:
    if ended := shares.poll():
        run = ended[0]
        raise RuntimeError(f'{run.name}: exit code {run.code}: {run.child.log_tail(5)}')


def judge(
    shares: Shares, kills: list[Kill], heard: list[tuple[float, str, str, bytes]]
) -> tuple[dict[str, Any], list[Target]]:
    """Return what was seen, and what it is measured against."""
    tasks, now_s = list(shares.tasks.values()), time.monotonic()
    lines = {robot: shares.journal(robot) for robot in shares.robots}
    motions = {robot: rules.motions(found) for robot, found in lines.items()}
    sent_s = {
        (task.robot, call): task.sent_s for task in tasks for call in task.instruction.split(';')
    }
    rows = []
    for kill in kills:
        robots = shares.clients[kill.share]
        firsts = [
            motion.began_s
            for robot in robots
            for motion in motions[robot]
            if sent_s.get((robot, motion.what), 0.0) > kill.at_s
        ]
        served_s = min(firsts, default=kill.at_s + SERVED_LIMIT_S)
        moving_s = [
            min(motion.ended_s, served_s) - kill.at_s
            for robot in robots
            for motion in motions[robot]
            if motion.began_s < served_s and motion.ended_s > kill.at_s
        ]
        since_s = kill.at_s if kill.restarted_s is None else kill.restarted_s
        rows.append(
            {
                'share': kill.share,
                'safe (s)': max(moving_s, default=0.0),
                'restarted (s)': since_s - kill.at_s,
                'served after the restart (s)': served_s - since_s,
            }
        )
    breaches = rules.two_planners(heard)
    for robot, found in lines.items():
        breaches += rules.repeated_calls(robot, found)
        breaches += rules.invalid_calls(robot, found, find_skill_set('tello'))
    breaches += rules.ends(tasks, now_s) + rules.logs(shares.runs)
    unanswered = sum(not task.over for task in tasks)
    ends = Counter(task.ends[0][1] if task.ends else 'send it again' for task in tasks if task.over)
    lost, came = lost_datagrams()
    figures = {
        'robots': len(shares.robots),
        'planners': len(shares.clients),
        'kills': rows,
        'tasks': dict(ends) | {'unanswered': unanswered},
        'segments heard': len(heard),
        'datagrams without room': lost,
        'datagrams': came,
        'breaches': [asdict(breach) for breach in breaches],
    }
    two = sum(breach.rule == 'one planner' for breach in breaches)
    targets = [
        Target('kills', len(rows), '>=', 1),
        Target('longest until every robot is safe (s)', _most(rows, 'safe (s)'), '<=', SAFE_S),
        Target('goals without an answer', unanswered, '<=', 0),
        Target('segments heard', len(heard), '>=', 1),
        Target('segments from two planners', two, '<=', 0),
        Target(
            'longest from a restart to the first new goal that is executed (s)',
            _most(rows, 'served after the restart (s)'),
            '<=',
            BACK_S,
        ),
        Target('other rules broken', len(breaches) - two, '<=', 0),
    ]
    return figures, targets


def _most(rows: list[dict[str, Any]], what: str) -> float:
    return float(max((row[what] for row in rows), default=0.0))


async def measure(options: Any, progress: Progress) -> tuple[dict[str, Any], list[Target]]:
    """Run it; return what was seen, and what it is measured against."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix='timely-planners-')))
        shares = Shares(
            folder,
            seed=options.seed,
            planners=options.planners,
            robots=options.robots,
            time_scale=options.time_scale,
        )
        observer = Observer(shares.clients)
        stack.callback(observer.close)
        listening = asyncio.create_task(observer.listen())
        try:
            await shares.start()
            kills = await attack(shares, 60.0 * options.minutes, options.seed, progress)
        finally:
            listening.cancel()
            await shares.stop()
        return judge(shares, kills, observer.heard)


def main() -> int:
    """Kill, judge, print and save; return the exit code."""
    parser = arguments(__doc__)
    parser.add_argument('--minutes', type=POSITIVE, default=5.0, help='(default: 5)')
    parser.add_argument('--robots', type=COUNT, default=60, help='of all (default: 60)')
    parser.add_argument('--planners', type=COUNT, default=3, help='(default: 3)')
    parser.add_argument('--seed', type=int, default=0, help='of tasks and kills (default: 0)')
    parser.add_argument(
        '--time-scale',
        type=POSITIVE,
        default=0.3,
        help="how long skills take, in parts of a Tello's (default: 0.3)",
    )
    options = parser.parse_args()
    if options.robots < options.planners:
        parser.error(f'--robots {options.robots}: expected one for each planner at least')
    # Alone it may speak as fleets do: under LOCALHOST rmw_fastrtps makes sockets of its own.
    alone = enter_own_host('benchmarks.attack.planners', sys.argv[1:])
    adopt_orphans()
    prepare_for_dds()
    os.environ |= {
        'ROS_DOMAIN_ID': str(free_domain()),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET' if alone else 'LOCALHOST',
    }
    try:
        with Progress(console=Console(stderr=True)) as progress:
            figures, targets = asyncio.run(measure(options, progress))
    except KeyboardInterrupt:
        return 130
    targets.append(Target('processes left over', len(left_over()), '<=', 0))
    print(f'{"share":<12}{"safe":>9}{"restarted":>12}{"served after that":>20}')
    for row in figures['kills']:
        print(
            f'{row["share"]:<12}{1000 * row["safe (s)"]:>6.0f} ms{row["restarted (s)"]:>10.2f} s'
            f'{row["served after the restart (s)"]:>18.2f} s'
        )
    for breach in figures['breaches'][:20]:
        print(f'BREACH {breach["rule"]}: {breach["what"]}')
    figures |= {'minutes': options.minutes, 'alone': alone}
    save('planners', figures, targets, path=options.json)
    return not all(target.ok for target in targets)


if __name__ == '__main__':
    sys.exit(main())
