"""What segmentation costs, and how soon a robot acts on a segment.

First the torch engine's core writes the same plans in segments and whole, in turns. Then a planner
and two robots run over real ROS 2, and the time from a segment's closing token to the moment when
the robot's body is told to act is compared with the bare latency of an rclpy topic between two
processes, measured during the same run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import COUNT, Number, Target, arguments, save
from benchmarks.timelyllm import segmentation
from lrtrace.statistics import percentile
from timely_llm_ros.demo import Children, Robot, TimedTask, node_command
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.sample_tasks import KINDS, sample_task

PLAIN_KINDS = (6, 7, 8, 9)
"""Kinds of task whose plans are calls without conditions: one segment is one call."""

ROBOTS = (Robot('drone_1', 'tello'), Robot('arm_1', 'arm'))


def tasks(count: int) -> list[TimedTask]:
    rng = random.Random(2)
    found = []
    for number in range(count):
        kind = PLAIN_KINDS[number % len(PLAIN_KINDS)]
        sample = sample_task(rng, kind, 10)
        robot = next(one.name for one in ROBOTS if one.skill_set == sample.skill_set)
        found.append(TimedTask(f'{number}', 0.0, robot, KINDS[kind].name, sample, 0.0))
    return found


async def delivery(count: int) -> dict[str, Any]:
    """Run a small fleet over ROS; return latencies from token to action and of a bare topic (s)."""
    os.environ.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    with tempfile.TemporaryDirectory() as folder:
        children = Children(Path(folder))
        try:
            return await _deliver(count, children, Path(folder))
        finally:
            await children.stop_all()


async def _deliver(count: int, children: Children, folder: Path) -> dict[str, Any]:
    robots = [f'{robot.name}:{robot.skill_set}' for robot in ROBOTS]
    children.start('planner', node_command('planner', {'robots': robots}))
    for robot in ROBOTS:
        parameters = {
            'robot': robot.name, 'skill_set': robot.skill_set, 'time_scale': 0.0,
            'journal_path': str(folder / f'{robot.name}.jsonl'),
        }  # fmt: skip
        children.start(robot.name, node_command('executor', parameters))
    python = [sys.executable, '-m']
    names = [robot.name for robot in ROBOTS]
    client = children.start(
        'client', [*python, 'timely_llm_ros.nodes.tools.plan_client', '--watch', *names], pipes=True
    )
    reader = asyncio.StreamReader(limit=1 << 22)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), client.process.stdout
    )
    seen: set[str] = set()
    ready = False
    while not (ready and seen == set(names)):
        event = await _next(reader)
        ready |= event['event'] == 'ready'
        if event['event'] == 'robot':
            seen.add(event['robot'])
    await asyncio.sleep(1.0)

    probe = [*python, 'timely_llm_ros.nodes.tools.latency_probe']
    listener = children.start('listener', [*probe, 'listen', '--limit', '300'])
    sender = subprocess.Popen(
        [*probe, 'send', '--count', str(count * 4), '--period', '0.02', '--limit', '300'],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    listener.expected_to_end = True
    stamps: dict[str, list[float]] = {name: [] for name in names}
    steps_s: list[float] = []
    for task in tasks(count):
        children.check()
        assert client.process.stdin is not None
        client.process.stdin.write(json.dumps(task.command()).encode() + b'\n')
        client.process.stdin.flush()
        while True:
            event = await _next(reader)
            if event['event'] == 'segment':
                stamps[event['robot']].append(event['stamp_s'])
            elif event['event'] == 'scheduler' and event['running']:
                steps_s.append(event['step_s'])
            elif event['event'] in ('result', 'rejected'):
                if event.get('status') != 'succeeded':
                    sys.exit(f'task {task.key}: {event}')
                break
    output = await asyncio.to_thread(sender.communicate, timeout=300)
    bare_s = json.loads(output[0])['one_way_s']

    # Segments are stamped by the wall clock, the robots' journals by the monotonic one.
    offset_s = time.time() - time.monotonic()
    found_s: list[float] = []
    first_s = []
    for name in names:
        lines = map(json.loads, (folder / f'{name}.jsonl').read_text().splitlines())
        acted_s = [line['t'] + offset_s for line in lines if line['event'] == 'start']
        if len(acted_s) != len(stamps[name]):
            sys.exit(f'{name}: {len(acted_s)} actions of {len(stamps[name])} segments')
        first, *others = (acted - token for acted, token in zip(acted_s, stamps[name], strict=True))
        # An executor answers its planner's first segment once it has discovered it whole.
        first_s.append(first)
        found_s += others
    return {
        'segments': len(found_s),
        'first_segments_s': first_s,
        'token_to_action_s': {'p50': percentile(found_s, 0.5), 'p99': percentile(found_s, 0.99)},
        'bare_topic_messages': len(bare_s),
        'bare_topic_s': {'p50': percentile(bare_s, 0.5), 'p99': percentile(bare_s, 0.99)},
        'engine_step_s': percentile(steps_s, 0.5),
    }


async def _next(reader: asyncio.StreamReader) -> dict[str, Any]:
    async with asyncio.timeout(120):
        line = await reader.readline()
    if not line:
        sys.exit('the ROS client ended')
    found: dict[str, Any] = json.loads(line)
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--rounds', type=Number(2), default=8, help='of writing, each way')
    parser.add_argument('--plans', type=COUNT, default=16, help='plans per round')
    parser.add_argument('--tasks', type=COUNT, default=60, help='tasks over ROS')
    options = parser.parse_args()
    engine = TorchConfig(threads=1)
    costs = [
        segmentation.measure(engine, options.rounds, options.plans, at_once)
        for at_once in (1, options.plans)
    ]
    for cost in costs:
        segmentation.show(cost)

    path = asyncio.run(delivery(options.tasks))
    acts, bare = path['token_to_action_s'], path['bare_topic_s']
    print(f'{path["segments"]} segments, {path["bare_topic_messages"]} bare messages')
    print(
        f'  token to action   p50 {acts["p50"] * 1000:7.2f} ms   p99 {acts["p99"] * 1000:7.2f} ms'
    )
    print(
        '  first segments    '
        + ', '.join(f'{1000 * one:.2f} ms' for one in path['first_segments_s'])
    )
    print(
        f'  bare rclpy topic  p50 {bare["p50"] * 1000:7.2f} ms   p99 {bare["p99"] * 1000:7.2f} ms'
    )
    print(f'  one engine step   p50 {path["engine_step_s"] * 1000:7.2f} ms')
    limit_s = 3 * bare['p99'] + path['engine_step_s']
    save(
        'overhead',
        {'segmentation': costs, 'delivery': path},
        [
            Target(
                'overhead of segmentation, one at a time (%)',
                costs[0]['overhead_percent'],
                '<=',
                2.0,
            ),
            Target('token to action, p99 (s), 3 bare p99 and a step', acts['p99'], '<=', limit_s),
        ],
        path=options.json,
    )


if __name__ == '__main__':
    main()
