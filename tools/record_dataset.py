"""Record the committed traces: every kind of task, flown by mock robots through the real drivers.

    .venv/bin/python tools/record_dataset.py [--seed 7] [--each 2] [--output datasets/mock_fleet]

Four mock Tellos and one mock Indy, the shipped model on the torch engine, real ROS 2. What was
recorded is copied without what tells of the machine it ran on: logs, diagnostics, the model's path.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rclpy.serialization import deserialize_message, serialize_message
from timely_llm_ros.msg import SchedulerState

from lrtrace.storage import Trace, TraceWriter
from timely_llm_ros.demo.bodies import MockBodies
from timely_llm_ros.demo.options import DemoOptions
from timely_llm_ros.demo.processes import Children
from timely_llm_ros.demo.run import DemoRun
from timely_llm_ros.demo.workload import Robot, TimedTask
from timely_llm_ros.sample_tasks import KINDS, TaskSample, sample_task
from timely_llm_ros.skills import expected_execution_s, parse
from timely_llm_ros.skills.loading import find_skill_set

ROOT = Path(__file__).resolve().parents[1]
ROBOTS = (*(Robot(f'drone_{number}', 'tello') for number in range(1, 5)), Robot('arm_1', 'arm'))
OBJECTS = (6, 12)
LONGEST_S = 25.0
REST_S = 6.0
STATE = 'timely_llm_ros/msg/SchedulerState'
LEFT_OUT = re.compile(r'/rosout$|diagnostics$')
OBSERVATION = re.compile(r'#[^ ]* ')


def draw(rng: random.Random, number: int) -> tuple[TaskSample, float]:
    """Return a task of that kind whose plan is not too long to keep small, and its length (s)."""
    skill_set = find_skill_set(KINDS[number].skill_set)
    drawn = []
    for _ in range(50):
        sample = sample_task(rng, number, rng.randint(*OBJECTS))
        plan = parse(OBSERVATION.sub('', sample.plan), skill_set, sample.scene)
        drawn.append((sample, expected_execution_s(plan, skill_set, sample.scene)))
        if drawn[-1][1] <= LONGEST_S:
            break
    return min(drawn, key=lambda one: max(one[1], LONGEST_S))


def tasks_of(seed: int, each: int) -> tuple[TimedTask, ...]:
    """Return so many tasks of every kind, spread over the robots, in the order of arrival."""
    rng = random.Random(seed)
    free_s = dict.fromkeys(ROBOTS, 0.0)
    numbers = [number for number in KINDS for _ in range(each)]
    rng.shuffle(numbers)
    found: list[TimedTask] = []
    for number in numbers:
        kind = KINDS[number]
        robot = min(
            (one for one in ROBOTS if one.skill_set == kind.skill_set), key=free_s.__getitem__
        )
        sample, expected_s = draw(rng, number)
        at_s = free_s[robot] + rng.uniform(0.0, 1.0)
        key = f'task_{len(found) + 1}'
        found.append(TimedTask(key, at_s, robot.name, kind.name, sample, expected_s))
        free_s[robot] = at_s + expected_s + REST_S
    return tuple(sorted(found, key=lambda task: task.at_s))


async def fly(run: DemoRun, children: Children) -> None:
    """Serve every task once."""
    try:
        await run.start()
        await run.serve()
    finally:
        await run.stop()
        await children.stop_all()


def copy(source: Path, target: Path) -> int:
    """Copy a trace without what tells of the machine; return how many messages are left."""
    trace = Trace(source)
    noted = trace.custom_data | {'left_out': 'rosout, diagnostics'}
    noted['model'] = Path(noted.get('model', '')).name
    writer = TraceWriter(target, custom_data=noted, name='mock_fleet')
    for schema, channel, message in trace.raw():
        if LEFT_OUT.search(channel.topic):
            continue
        writer.copy_topic(schema, channel)
        writer.write(
            channel.topic,
            _without_path(message.data) if schema.name == STATE else message.data,
            log_ns=message.log_time,
            publish_ns=message.publish_time,
            sequence=message.sequence,
        )
    writer.close()
    return writer.message_count


def _without_path(data: bytes) -> bytes:
    """Return a scheduler's state that names its model, not where it lies on the machine."""
    state = deserialize_message(data, SchedulerState)
    state.model = Path(state.model).name
    return bytes(serialize_message(state))


def main() -> int:
    """Record; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--seed', type=int, default=7, help='of tasks and robots')
    parser.add_argument('--each', type=int, default=2, help='tasks of each kind')
    parser.add_argument('--output', type=Path, default=ROOT / 'datasets' / 'mock_fleet')
    options = parser.parse_args()
    if (options.output / 'trace').exists():
        parser.error(f'--output {str(options.output)!r}: holds a trace: expected none')
    os.environ.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / 'logs').mkdir()
        children = Children(folder / 'logs')
        bodies = MockBodies(ROBOTS, folder / 'drivers.yaml')
        tasks = tuple(map(bodies.fit, tasks_of(options.seed, options.each)))
        run = DemoRun(
            DemoOptions(seed=options.seed),
            'segmented',
            'utility',
            ROBOTS,
            tasks,
            folder=folder,
            children=children,
            bodies=bodies,
        )
        print(f'{len(tasks)} tasks, the last after {tasks[-1].at_s:.0f} s', flush=True)
        asyncio.run(fly(run, children))
        for line in run.failed:
            print(f'did not succeed: {line}')
        options.output.mkdir(parents=True, exist_ok=True)
        count = copy(run.trace, options.output / 'trace')
    size = sum(file.stat().st_size for file in (options.output / 'trace').iterdir())
    print(f'{options.output / "trace"}: {count} messages, {size / 1e6:.2f} MB')
    return 0


if __name__ == '__main__':
    sys.exit(main())
