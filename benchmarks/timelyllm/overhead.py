"""What segmentation costs, and how soon a robot acts on a segment.

First the torch engine generates the same plans segment by segment and whole, in turns. Then a
planner and two robots run over real ROS 2, and the time from a segment's closing token to the
moment when the robot's body is told to act is compared with the bare latency of an rclpy topic
between two processes, measured during the same run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.common import COUNT, Number, Target, arguments, save
from lrtrace.statistics import percentile
from timely_llm_ros.demo import Children, Robot, TimedTask, node_command
from timely_llm_ros.engines import (
    GenerationEnded,
    GenerationRequest,
    SegmentGenerated,
    create_engine,
)
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.sample_tasks import KINDS, TaskSample, sample_task
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

PLAIN_KINDS = (6, 7, 8, 9)
"""Kinds of task whose plans are calls without conditions: one segment is one call."""

GENERATED_KINDS = (1, 3, 4, 5, 9, 10, 11)
ROBOTS = (Robot('drone_1', 'tello'), Robot('arm_1', 'arm'))


class Generator:
    """An engine and the means to generate plans with it."""

    def __init__(self, engine: TorchConfig, mode: ServingMode, max_running: int) -> None:
        options = replace(
            engine,
            mode=mode,
            policy='fcfs',
            max_running=max_running,
            scheduling=SchedulingOptions(admission='feasible', interrupts=True),
        )
        self._engine = create_engine(options)
        self._prompts = load_prompts('auto', find_model(options.model_path))
        self._left = 0
        self._tokens = 0
        self._done = asyncio.Event()
        self._count = 0
        self._pid = 0

    async def start(self) -> None:
        before = children_pids()
        await self._engine.start(self._on_event)
        (self._pid,) = children_pids() - before

    async def close(self) -> None:
        await self._engine.close()

    async def generate(self, samples: list[TaskSample]) -> tuple[float, float, int]:
        """Generate the plans of all samples; return the time, the CPU time (s) and the tokens."""
        cpu_s = cpu_time_s(self._pid)
        self._left, self._tokens = len(samples), 0
        self._done.clear()
        start_s = time.monotonic()
        for sample in samples:
            self._count += 1
            skill_set = find_skill_set(sample.skill_set)
            self._engine.submit(
                GenerationRequest(
                    generation_id=f'{self._count}',
                    prompt=self._prompts.build(skill_set, sample.scene, sample.instruction),
                    skill_set=skill_set,
                    scene=sample.scene,
                    utility=NORMAL,
                    arrival_s=start_s,
                )
            )
        async with asyncio.timeout(120):
            await self._done.wait()
        return time.monotonic() - start_s, cpu_time_s(self._pid) - cpu_s, self._tokens

    def _on_event(self, event: Any) -> None:
        if isinstance(event, SegmentGenerated) and event.segment.awaits_value:
            self._engine.resume(event.generation_id, 'true')
        elif isinstance(event, GenerationEnded):
            self._tokens += event.tokens
            self._left -= 1
            if self._left == 0:
                self._done.set()


def children_pids() -> set[int]:
    found = Path(f'/proc/self/task/{os.getpid()}/children').read_text()
    return set(map(int, found.split()))


def cpu_time_s(pid: int) -> float:
    """Time that the scheduler gave a process's threads (s), to the nanosecond."""
    threads = Path(f'/proc/{pid}/task').iterdir()
    return sum(int((one / 'schedstat').read_text().split()[0]) for one in threads) / 1e9


async def segmentation(
    engine: TorchConfig,
    pairs: int,
    rounds: int,
    plans: int,
    max_running: int,
    progress: Progress,
) -> dict[str, Any]:
    """Generate the same plans both ways, in turns; return times and the overhead.

    Both ways serve first come, first served, so that nothing differs but the segments: they are
    cut, validated and sent one by one, and each ends in a suspension. Of each group of plans that
    is generated together the shortest of all rounds counts: what else runs on the machine only
    ever adds to a time. Two workers of one and the same way differ by more than what is looked
    for, as their memory happens to lie, so the mean over several pairs of fresh ones is taken, and
    how far workers of one way differ is told.
    """
    rng = random.Random(1)
    samples = [
        sample_task(rng, GENERATED_KINDS[number % len(GENERATED_KINDS)], 10)
        for number in range(plans)
    ]
    size = 4 * max_running if max_running > 1 else 1
    groups = [samples[start : start + size] for start in range(0, plans, size)]
    found: dict[ServingMode, list[tuple[float, float, int]]] = {'segmented': [], 'whole_plan': []}
    bar = progress.add_task(f'{max_running} at once', total=pairs)
    for _ in range(pairs):
        for name, best in (
            await _one_pair(engine, list(found), rounds, groups, max_running)
        ).items():
            found[name].append(best)
        progress.advance(bar)
    time_s, cpu_s = (
        {name: statistics.fmean(one[what] for one in each) for name, each in found.items()}
        for what in (0, 1)
    )
    ratios = [
        segmented[0] / time_s['whole_plan'] - whole[0] / time_s['whole_plan']
        for segmented, whole in zip(*found.values(), strict=True)
    ]
    return {
        'pairs_of_workers': pairs,
        'rounds': rounds,
        'plans': plans,
        'generations_at_once': max_running,
        'tokens': {name: each[0][2] for name, each in found.items()},
        'time_s': time_s,
        'cpu_s': cpu_s,
        'times_s': {name: [one[0] for one in each] for name, each in found.items()},
        'overhead_percent': 100 * (time_s['segmented'] / time_s['whole_plan'] - 1),
        'overhead_error_percent': 100 * statistics.stdev(ratios) / pairs**0.5,
        'overhead_cpu_percent': 100 * (cpu_s['segmented'] / cpu_s['whole_plan'] - 1),
        'whole_plan_workers_differ_percent': 100
        * statistics.stdev(one[0] for one in found['whole_plan'])
        / time_s['whole_plan'],
    }


async def _one_pair(
    engine: TorchConfig,
    names: list[ServingMode],
    rounds: int,
    groups: list[list[TaskSample]],
    max_running: int,
) -> dict[ServingMode, tuple[float, float, int]]:
    """Return the time, the CPU time (s) and the tokens of one fresh worker each way."""
    generators = {name: Generator(engine, name, max_running) for name in names}
    for generator in generators.values():
        await generator.start()
        await generator.generate([sample for group in groups for sample in group])
    found: dict[ServingMode, list[list[tuple[float, float, int]]]] = {
        name: [[] for _ in groups] for name in names
    }
    for number in range(rounds):
        for index, group in enumerate(groups):
            for name in names if number % 2 == 0 else names[::-1]:
                found[name][index].append(await generators[name].generate(group))
    for generator in generators.values():
        await generator.close()
    return {
        name: (
            sum(min(one[0] for one in each) for each in by_group),
            sum(min(one[1] for one in each) for each in by_group),
            sum(each[0][2] for each in by_group),
        )
        for name, by_group in found.items()
    }


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
    found_s = []
    for name in names:
        lines = map(json.loads, (folder / f'{name}.jsonl').read_text().splitlines())
        acted_s = [line['t'] + offset_s for line in lines if line['event'] == 'start']
        if len(acted_s) != len(stamps[name]):
            sys.exit(f'{name}: {len(acted_s)} actions of {len(stamps[name])} segments')
        found_s += [acted - token for acted, token in zip(acted_s, stamps[name], strict=True)]
    return {
        'segments': len(found_s),
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
    parser.add_argument('--pairs', type=Number(2), default=8, help='pairs of fresh workers')
    parser.add_argument('--rounds', type=COUNT, default=4, help='rounds of generation each way')
    parser.add_argument('--plans', type=COUNT, default=16, help='plans per round')
    parser.add_argument('--batch', type=COUNT, default=4, help='generations at once')
    parser.add_argument('--tasks', type=COUNT, default=60, help='tasks over ROS')
    options = parser.parse_args()
    with Progress(console=Console(stderr=True)) as progress:
        costs = [
            asyncio.run(
                segmentation(
                    TorchConfig(), options.pairs, options.rounds, options.plans, batch, progress
                )
            )
            for batch in dict.fromkeys((1, options.batch))
        ]
    for cost in costs:
        print(
            f'{options.plans} plans, {cost["generations_at_once"]} at once, '
            f'{options.pairs} pairs of workers, {options.rounds} rounds each way'
        )
        for name, value in cost['time_s'].items():
            cpu_ms, tokens = cost['cpu_s'][name] * 1000, cost['tokens'][name]
            print(f'  {name:<12} {value * 1000:8.1f} ms, {cpu_ms:8.1f} ms of CPU, {tokens} tokens')
        print(
            f'  overhead     {cost["overhead_percent"]:8.2f} % '
            f'(standard error {cost["overhead_error_percent"]:.2f}), '
            f'{cost["overhead_cpu_percent"]:6.2f} % of CPU; workers of one way differ by '
            f'{cost["whole_plan_workers_differ_percent"]:.2f} %'
        )

    path = asyncio.run(delivery(options.tasks))
    acts, bare = path['token_to_action_s'], path['bare_topic_s']
    print(f'{path["segments"]} segments, {path["bare_topic_messages"]} bare messages')
    print(
        f'  token to action   p50 {acts["p50"] * 1000:7.2f} ms   p99 {acts["p99"] * 1000:7.2f} ms'
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
