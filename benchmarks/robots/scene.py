"""Scenes from perception: what 1,000 detections a second cost, and whether names stay.

    .venv/bin/python -m benchmarks.robots.scene [--seconds 20] [--rounds 3] [--json FILE]

Twenty cameras, in this process, see a room of twenty objects each, ten times a second and five
objects at a time, with 5 cm of noise (standard deviation) and every fifth detection missed. Another
process has what the planner node has for scenes: its subscriptions, thread, loop, and scenes.
Processor time is of that process, in rounds that take turns with as long without any detection;
its share is of one core. Detections are counted where they reach a scene.

Names are judged by the objects' true places: an object whose name changes, or that has two, counts.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.common import COUNT, POSITIVE, Target, arguments, save
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    import argparse

    from timely_llm_ros.ros import RosThread

ROBOTS, OBJECTS, SEEN = 20, 20, 5
RATE_HZ = 10.0
NOISE_M, MISSED = 0.05, 0.2
KINDS = ('cup', 'cat', 'box', 'plant', 'chair')
SPACING_M = 0.8
"""Between two objects of one room: those of a kind are further apart."""

WARM_UP_S, SETTLE_S = 5.0, 1.0
SHARE, ARRIVED = 0.10, 0.99


def true_place(number: int) -> tuple[float, float]:
    """Where an object of a room is (m)."""
    return SPACING_M * (number % 5), SPACING_M * (number // 5)


async def watch(ros: RosThread, _: asyncio.Event) -> int:
    """Keep the scenes; print figures for each line of the input."""
    from rclpy.node import Node

    from timely_llm_ros.clock import WallClock
    from timely_llm_ros.nodes.planner import Catalogue, RobotScenes
    from timely_llm_ros.ros import robot_entries
    from timely_llm_ros.scene import SceneOptions

    node = Node('scenes')
    robots = tuple(f'robot_{number}:tello' for number in range(ROBOTS))
    clock = WallClock()
    scenes = RobotScenes(node, ros, Catalogue.load(robot_entries(robots)), SceneOptions(), clock)
    ros.start(node)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    print('ready', flush=True)
    while await reader.readline():
        told = {
            robot: [(item.name, item.kind, item.x_m, item.y_m) for item in scene.objects]
            for robot, scene in scenes.known().items()
        }
        print(json.dumps([time.process_time(), scenes.taken, told]), flush=True)
    return 0


class Watcher:
    """The process that keeps the scenes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, '-m', 'benchmarks.robots.scene', '--watch'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == 'ready\n'

    def ask(self) -> tuple[float, int, dict[str, list[tuple[str, str, float, float]]]]:
        """Return its processor time (s), the detections that it counted, and what is known."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write('\n')
        stdin.flush()
        cpu_s, count, told = json.loads(stdout.readline())
        return cpu_s, count, told

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Cameras:
    """What the robots see."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.node import Node
        from timely_llm_ros.msg import Detections

        rclpy.init(args=[])
        self._node = Node('cameras')
        self._senders = [
            self._node.create_publisher(Detections, f'robot_{number}/detections', 10)
            for number in range(ROBOTS)
        ]
        self._rng = random.Random(0)
        self._turn = 0

    def all_matched(self) -> bool:
        return all(sender.get_subscription_count() for sender in self._senders)

    def see_for(self, seconds: float) -> int:
        """Publish for a time (s); return how many detections."""
        from geometry_msgs.msg import Point
        from timely_llm_ros.msg import Detections

        sent, start_s = 0, time.monotonic()
        steps = round(seconds * RATE_HZ)
        for step in range(steps):
            for sender in self._senders:
                message = Detections()
                message.header.frame_id = 'map'
                for place in range(SEEN):
                    number = (self._turn + place) % OBJECTS
                    if self._rng.random() < MISSED:
                        continue
                    x_m, y_m = (
                        value + self._rng.gauss(0.0, NOISE_M) for value in true_place(number)
                    )
                    message.labels.append(KINDS[number % len(KINDS)])
                    message.scores.append(0.9)
                    message.positions.append(Point(x=x_m, y=y_m))
                # What is missed is something else that it sees: a thousand detections a second.
                while len(message.labels) < SEEN:
                    message.labels.append('floor')
                    message.scores.append(0.2)
                    message.positions.append(Point())
                sent += len(message.labels)
                sender.publish(message)
            self._turn += SEEN
            time.sleep(max(0.0, start_s + (step + 1) / RATE_HZ - time.monotonic()))
        return sent

    def close(self) -> None:
        import rclpy

        self._node.destroy_node()
        rclpy.try_shutdown()


def judge(
    told: dict[str, list[tuple[str, str, float, float]]],
    names: dict[tuple[str, int], set[str]],
) -> int:
    """Note the names of the true objects; return how many things are told beside them."""
    beside = 0
    for robot, items in told.items():
        seen: set[int] = set()
        for name, kind, x_m, y_m in items:
            near = min(range(OBJECTS), key=lambda n: math.dist(true_place(n), (x_m, y_m)))
            if near in seen or KINDS[near % len(KINDS)] != kind:
                beside += 1
                continue
            seen.add(near)
            names[robot, near].add(name)
    return beside


def main() -> int:
    options = _options()
    if options.watch:
        from timely_llm_ros.ros import run

        return run('scenes', [], watch)
    os.environ['ROS_DOMAIN_ID'] = str(free_domain())
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    watcher, cameras = Watcher(), Cameras()
    while not cameras.all_matched():
        time.sleep(0.1)
    cameras.see_for(WARM_UP_S)
    names: dict[tuple[str, int], set[str]] = defaultdict(set)
    shares: list[float] = []
    quiet: list[float] = []
    rates: list[float] = []
    arrived: list[float] = []
    beside = 0
    for _ in range(options.rounds):
        for busy in (True, False):
            cpu_s, count, told = watcher.ask()
            beside += judge(told, names)
            start_s, sent = time.monotonic(), 0
            if busy:
                sent = cameras.see_for(options.seconds)
            else:
                time.sleep(options.seconds)
            wall_s = time.monotonic() - start_s
            # What is on its way when the last one is sent.
            time.sleep(SETTLE_S)
            after_s, after, _ = watcher.ask()
            share = (after_s - cpu_s) / wall_s
            (shares if busy else quiet).append(share)
            if busy:
                rates.append((after - count) / wall_s)
                arrived.append((after - count) / sent)
                print(f'{rates[-1]:.0f} detections/s of {sent / wall_s:.0f}: {share:.1%} of a core')
            else:
                print(f'none: {share:.1%} of a core')
    beside += judge(watcher.ask()[2], names)
    watcher.close()
    cameras.close()
    changed = sum(len(some) != 1 for some in names.values())
    figures = {
        'robots': ROBOTS,
        'detections_per_s': round(median(rates), 1),
        'arrived': round(min(arrived), 4),
        'cpu_share': [round(share, 4) for share in shares],
        'cpu_share_without': [round(share, 4) for share in quiet],
        'us_per_detection': round(1e6 * median(shares) / median(rates), 1),
        'objects': len(names),
        'objects_renamed': changed,
        'told_beside_them': beside,
        'noise_m': NOISE_M,
        'missed': MISSED,
    }
    print(json.dumps(figures, indent=1))
    targets = [
        Target('processor time at 1,000 detections/s (cores)', median(shares), '<=', SHARE),
        Target('objects known of all', len(names) / (ROBOTS * OBJECTS), '>=', 1.0),
        Target('objects whose name changed', changed, '<=', 0),
        Target('things told that are not there', beside, '<=', 0),
        Target('detections that arrived', min(arrived), '>=', ARRIVED),
    ]
    save('scene', figures, targets, path=options.json)
    return 0


def _options() -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument('--seconds', type=POSITIVE, default=20.0, help='of each round')
    parser.add_argument('--rounds', type=COUNT, default=3, help='with detections, and without')
    parser.add_argument('--watch', action='store_true', help='be the process that is measured')
    return parser.parse_args()


if __name__ == '__main__':
    sys.exit(main())
