"""How often the window shows where a hundred robots are, and what that costs its server.

A program publishes poses and changing states of all robots over real DDS; the window's program
serves its page to a headless Chromium, on a desk's screen and on a telephone's. The page counts
what it is told and how often it draws.

    python -m benchmarks.robots.window [--robots 100] [--seconds 20]
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import rclpy
from geometry_msgs.msg import PoseStamped
from rich.console import Console
from rich.progress import Progress
from timely_llm_ros.msg import RobotState

from benchmarks.common import COUNT, Browser, Number, Target, arguments, save
from timely_llm_ros.demo import Children, node_command
from timely_llm_ros.processes import prepare_for_dds
from timely_llm_ros.ros import STATE_QOS
from timely_llm_ros.testing import free_domain

if TYPE_CHECKING:
    from timely_llm_ros.demo import Child

SCREENS = {'desk': (1440, 900), 'telephone': (390, 844)}
"""Width and height of each (pixels)."""

RATE_HZ = 20.0
"""Poses of each robot that are published a second; twice as many as the window tells."""

UPDATES, CORE = 10.0, 0.5
"""Least updates a second and greatest share of a core that are wanted."""

UP_LIMIT_S = 60.0

COUNTING = """
window.counted = { messages: 0, poses: 0, draws: 0, robots: new Set() };
const take = WebSocket.prototype.addEventListener;
WebSocket.prototype.addEventListener = function (kind, hear) {
  return take.call(this, kind, kind !== 'message' ? hear : (message) => {
    const events = JSON.parse(message.data).events || [];
    const poses = events.filter((event) => event.event === 'pose');
    window.counted.messages += events.length > 0;
    window.counted.poses += poses.length;
    for (const event of poses) window.counted.robots.add(event.robot);
    hear(message);
  });
};
const clear = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  window.counted.draws += this.canvas.closest('.world') !== null;
  return clear.apply(this, box);
};
"""
"""Goes into the page before its own scripts."""


def publish(robots: int) -> None:
    """Publish what so many robots do, until the input closes."""
    rclpy.init()
    node = rclpy.create_node('traffic')
    states = [RobotState(robot=f'r_{number}', skill_set='tello') for number in range(robots)]
    told = [
        node.create_publisher(RobotState, f'{one.robot}/robot_state', STATE_QOS) for one in states
    ]
    placed = [node.create_publisher(PoseStamped, f'{one.robot}/pose', 10) for one in states]
    message, tick = PoseStamped(), 0
    os.set_blocking(sys.stdin.fileno(), False)
    while sys.stdin.buffer.read(1) is None:
        due_s = time.monotonic() + 1.0 / RATE_HZ
        tick += 1
        for number, publisher in enumerate(placed):
            angle = tick / 40 + number
            message.pose.position.x = 4.0 * (number % 10) + math.cos(angle)
            message.pose.position.y = 4.0 * (number // 10) + math.sin(angle)
            message.pose.position.z = 1.0
            publisher.publish(message)
            if (tick + number) % RATE_HZ == 0:
                # A call a second.
                states[number].call = f'move_forward({20 + tick % 480})'
                states[number].segment = tick
                told[number].publish(states[number])
        time.sleep(max(0.0, due_s - time.monotonic()))


def address_of(window: Child) -> str:
    """Return what the window's program says that it serves."""
    end_s = time.monotonic() + UP_LIMIT_S
    while time.monotonic() < end_s:
        found = re.search(r'^window: (\S+)', window.log_tail(), re.MULTILINE)
        if found is not None:
            return found[1]
        time.sleep(0.1)
    raise SystemExit(f'window: no address within {UP_LIMIT_S:g} s: {window.log_tail()}')


def watch(browser: Browser, server: Child, robots: int, seconds: float) -> dict[str, float]:
    """Return what a page is told and draws, and what the server takes meanwhile."""
    end_s = time.monotonic() + UP_LIMIT_S
    while (known := browser.run('window.counted.robots.size')) < robots:
        if time.monotonic() > end_s:
            raise SystemExit(f'page: {known} of {robots} robots within {UP_LIMIT_S:g} s')
        time.sleep(0.2)
    process = psutil.Process(server.process.pid)
    counts = 'const { messages, poses, draws } = window.counted; [messages, poses, draws]'
    before, cpu_s, began_s = browser.run(f'{{ {counts} }}'), process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after, ended_s, lasted_s = (
        browser.run(f'{{ {counts} }}'),
        process.cpu_times(),
        time.monotonic() - began_s,
    )
    messages, poses, draws = ((b - a) / lasted_s for a, b in zip(before, after, strict=True))
    used_s = ended_s.user + ended_s.system - cpu_s.user - cpu_s.system
    return {
        'updates_per_s': messages,
        'poses_per_robot_per_s': poses / robots,
        'draws_per_s': draws,
        'server_cores': used_s / lasted_s,
        'server_mb': process.memory_info().rss / 1e6,
    }


def measure(robots: int, seconds: float, progress: Progress) -> tuple[dict[str, Any], list[str]]:
    """Return the figures of each screen, and what the page complained about."""
    found: dict[str, Any] = {}
    task = progress.add_task('window', total=len(SCREENS))
    with tempfile.TemporaryDirectory(prefix='timely-window-') as name:
        children = Children(Path(name))
        try:
            traffic = [sys.executable, '-m', 'benchmarks.robots.window', '--publish', str(robots)]
            children.start('traffic', traffic, pipes=True)
            server = children.start('window', node_command('window', {'port': 0}))
            address = address_of(server)
            browser = Browser(Path(name) / 'chromium')
            try:
                browser.call('Page.addScriptToEvaluateOnNewDocument', source=COUNTING)
                for screen, (width, height) in SCREENS.items():
                    browser.size(width, height, mobile=width < 500)
                    browser.call('Page.navigate', url=address)
                    found[screen] = watch(browser, server, robots, seconds)
                    progress.advance(task)
                return found, browser.logged
            finally:
                browser.close()
        finally:
            asyncio.run(children.stop_all())


def main() -> int:
    """Measure, print and save; return the exit code."""
    parser = arguments(__doc__)
    parser.add_argument('--robots', type=COUNT, default=100)
    parser.add_argument('--seconds', type=Number(1, 3600, whole=False), default=20.0)
    parser.add_argument('--publish', type=COUNT, help='be the robots: so many')
    options = parser.parse_args()
    if options.publish:
        publish(options.publish)
        return 0
    prepare_for_dds()
    os.environ['ROS_DOMAIN_ID'] = str(free_domain())
    with Progress(console=Console(stderr=True)) as progress:
        figures, logged = measure(options.robots, options.seconds, progress)
    targets = [Target('messages on the console', len(logged), '<=', 0)]
    print(f'{"":<12}{"updates/s":>11}{"poses/robot/s":>15}{"draws/s":>9}{"server":>14}')
    for screen, row in figures.items():
        print(
            f'{screen:<12}{row["updates_per_s"]:>11.1f}{row["poses_per_robot_per_s"]:>15.1f}'
            f'{row["draws_per_s"]:>9.1f}{100 * row["server_cores"]:>9.0f} % CPU'
        )
        targets += [
            Target(f'{screen}: updates a second', row['updates_per_s'], '>=', UPDATES),
            Target(f'{screen}: server (cores)', row['server_cores'], '<=', CORE),
        ]
    save('window', {'robots': options.robots, 'screens': figures}, targets, path=options.json)
    return 0 if all(target.ok for target in targets) else 1


if __name__ == '__main__':
    sys.exit(main())
