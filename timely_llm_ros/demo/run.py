"""One run of the demo: starts every process, sends the tasks, waits for their results."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lrtrace.storage import Trace
from timely_llm_ros.demo.fleet_model import FleetModel
from timely_llm_ros.demo.processes import node_command
from timely_llm_ros.demo.task_outcome import TaskOutcome
from timely_llm_ros.demo.world_bodies import WORLD
from timely_llm_ros.demo.world_verdict import WorldVerdict
from timely_llm_ros.errors import TimelyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from timely_llm_ros.demo.bodies import Bodies
    from timely_llm_ros.demo.options import DemoOptions
    from timely_llm_ros.demo.processes import Child, Children
    from timely_llm_ros.demo.workload import Robot, TimedTask

START_LIMIT_S = 240.0
"""How long the processes of a run may take until they serve (s)."""

END_LIMIT_S = 120.0
"""How long tasks may go on after the last one arrived (s)."""

CANCEL_LIMIT_S = 30.0
"""How long tasks may take to end that are cancelled then, with a model of the user's (s)."""

VERDICT_LIMIT_S = 20.0
"""How long the world may take to judge the last tasks after they ended (s)."""

MOST_TOKENS = 128
"""Of a plan, with a model of the user's."""

PATIENCE_S = 3.0
"""Silence (s) after which planner and robots miss each other: more than the default, because a
laptop that does everything at once may keep a process waiting for a second."""

SETTLE_S = 0.5
"""Time for the last subscriptions to be matched before the first task (s)."""

CHECK_PERIOD_S = 0.1

_OBSERVATION = re.compile(r'#[^ ]* ')


class DemoRun:
    """A run. Use :meth:`start`, then :meth:`serve`, and :meth:`stop` in any case.

    Args:
        options: What the demo runs.
        mode: Serving mode of the engine, which also names the trace's folder.
        policy: What ranks generations.
        robots: The fleet.
        tasks: What the fleet is to do.
        folder: Where the trace goes.
        children: Starts the processes.
        bodies: What stands in for the robots' bodies.
    """

    def __init__(
        self,
        options: DemoOptions,
        mode: str,
        policy: str,
        robots: tuple[Robot, ...],
        tasks: tuple[TimedTask, ...],
        *,
        folder: Path,
        children: Children,
        bodies: Bodies,
    ) -> None:
        self.options, self.mode, self.policy = options, mode, policy
        self.model = FleetModel.of(robot.name for robot in robots)
        self.results: dict[str, TaskOutcome] = {}
        """What became of each task, by key."""
        self.verdicts: dict[str, WorldVerdict] = {}
        """How the bodies' world judged each task, by key; empty where none does."""
        self.trace = folder / mode
        self._robots, self._tasks, self._children = robots, tasks, children
        self._bodies = bodies
        self._started: list[Child] = []
        self._readers: list[asyncio.Task[None]] = []
        self._client: Child | None = None
        self._ready = False
        self._lost = False
        self._first_task_s: float | None = None
        self._sent_s: dict[str, float] = {}
        self._world: Child | None = None
        self._judging: dict[str, TimedTask] = {}
        """The tasks that the world watches, by key."""
        self._plans: dict[str, str] = {}
        """Ids of the tasks' plans, by key."""

    @property
    def title(self) -> str:
        """What people call it."""
        return f'{self.mode.replace("_", " ")}, {self.policy}'

    @property
    def progress(self) -> str:
        """How far it is, in a few words."""
        if self._first_task_s is None:
            seen = sum(robot.body != 'unknown' for robot in self.model.robots.values())
            engine = 'model loaded' if self._ready else 'loading the model'
            return f'starting: {seen} of {len(self._robots)} robots, {engine}'
        since_s = time.monotonic() - self._first_task_s
        return f'{since_s:.0f} s, {len(self.results)} of {len(self._tasks)} tasks ended'

    @property
    def failed(self) -> list[str]:
        """Why tasks did not end as they should have, one line each."""
        return [
            f'{task.key}: {result.error or result.status}'
            for task, result in self._ended
            if not (result.refused if task.impossible else result.status == 'succeeded')
        ]

    @property
    def refused(self) -> int:
        """How many tasks were refused that cannot be done within their time budget."""
        return sum(task.impossible and result.refused for task, result in self._ended)

    @property
    def budgeted(self) -> list[tuple[TimedTask, TaskOutcome]]:
        """The tasks with a time budget, and what became of each."""
        return [ended for ended in self._ended if ended[0].time_budget_s is not None]

    @property
    def _ended(self) -> list[tuple[TimedTask, TaskOutcome]]:
        results = self.results
        return [(task, results[task.key]) for task in self._tasks if task.key in results]

    async def start(self) -> None:
        """Start every process and wait until they serve.

        Raises:
            TimelyError: They do not within the limit, or one ended.
        """
        self._start_processes()
        end_s = time.monotonic() + START_LIMIT_S
        while not (
            self._ready and self.model.all_seen and self._mode_is_ours and self._is_recorded
        ):
            if time.monotonic() > end_s:
                raise TimelyError(f'{self.progress}: not ready after {START_LIMIT_S:g} s')
            self._children.check()
            await asyncio.sleep(CHECK_PERIOD_S)
        await asyncio.sleep(SETTLE_S)

    async def serve(self) -> None:
        """Send every task at its time and wait until each has ended.

        Raises:
            TimelyError: A process ended, the planner was lost, or tasks do not end.
        """
        self._first_task_s = start_s = time.monotonic()
        left = list(self._tasks)
        end_s, canceled = self._tasks[-1].at_s + END_LIMIT_S, False
        while len(self.results) < len(self._tasks):
            now_s = time.monotonic() - start_s
            while left and left[0].at_s <= now_s:
                self._tell_world(left[0])
                self._send(self._command(left.pop(0)))
            self._children.check()
            if self._lost:
                raise TimelyError('the planner fell silent')
            if now_s > end_s:
                open_tasks = [task.key for task in self._tasks if task.key not in self.results]
                if self.options.model and not canceled:
                    # A plan may be valid and still go on for an hour.
                    canceled, end_s = True, now_s + CANCEL_LIMIT_S
                    for key in open_tasks:
                        self._send({'cancel': key})
                    continue
                raise TimelyError(f'{", ".join(open_tasks)}: not ended after {now_s:.0f} s')
            next_s = left[0].at_s - now_s if left else CHECK_PERIOD_S
            await asyncio.sleep(min(max(next_s, 0.001), CHECK_PERIOD_S))
        await self._wait_for_verdicts()
        await asyncio.sleep(SETTLE_S)

    async def stop(self) -> None:
        """End every process: tasks are cancelled first, the trace is ended last. Idempotent."""
        started, self._started = self._started, []
        by_name = {child.name.partition('.')[2]: child for child in started}
        for name in ('client', 'planner'):
            if name in by_name:
                await self._children.stop(by_name.pop(name))
        # Robots land as their drivers end, and have to be there for it.
        mocks = [by_name.pop(name) for name, _ in self._bodies.commands() if name in by_name]
        recorder = by_name.pop('recorder', None)
        await self._children.stop(*by_name.values())
        await self._children.stop(*mocks)
        if recorder is not None:
            await self._children.stop(recorder)
        for reader in self._readers:
            reader.cancel()

    async def _wait_for_verdicts(self) -> None:
        """Wait until the world has judged every task; who comes towards a robot takes his time."""
        end_s = time.monotonic() + VERDICT_LIMIT_S
        while set(self._judging) - set(self.verdicts):
            self._children.check()
            if time.monotonic() > end_s:
                raise TimelyError(
                    f'{", ".join(set(self._judging) - set(self.verdicts))}: '
                    f'not judged within {VERDICT_LIMIT_S:g} s'
                )
            await asyncio.sleep(CHECK_PERIOD_S)

    @property
    def _mode_is_ours(self) -> bool:
        return self.model.engine.mode == self.mode

    @property
    def _is_recorded(self) -> bool:
        """Whether the recorder has heard the planner; processes may take seconds to meet."""
        try:
            counts = Trace(self.trace).summary().counts
        except TimelyError:
            return False
        return counts['/scheduler_state'] > 0

    def _start_processes(self) -> None:
        options = self.options
        servers: dict[str, Any] = {'server_urls': list(options.servers)} if options.servers else {}
        planner = servers | {
            'robots': [f'{robot.name}:{robot.skill_set}' for robot in self._robots],
            'engine': options.engine,
            **(_parameters_of(options.model) if options.model else {}),
            'mode': self.mode,
            'policy': self.policy,
            'max_running': options.batch,
            'min_step_s': options.pace_s,
            'robot_timeout_s': PATIENCE_S,
        }
        self._launch('planner', node_command('planner', planner))
        names = [robot.name for robot in self._robots]
        client = [sys.executable, '-m', 'timely_llm_ros.nodes.tools.plan_client', '--watch', *names]
        self._client = self._launch('client', client, pipes=True)
        self._readers.append(asyncio.create_task(self._read(self._client, self._on_line)))
        notes = options.notes | {'robots_are': self._bodies.note}
        recorder = {
            'output': str(self.trace),
            'robots': names,
            'topics': list(self._bodies.recorded_topics),
            'custom_data': [f'{name}={value}' for name, value in notes.items()],
        }
        self._launch('recorder', node_command('recorder', recorder))
        for name, command in self._bodies.commands():
            child = self._launch(name, command, pipes=self._bodies.commanded)
            if name == WORLD:
                self._world = child
                self._readers.append(asyncio.create_task(self._read(child, self._on_world_line)))
        for name, group in self._bodies.groups(self._robots):
            executor = self._bodies.parameters | {
                'robots': [f'{robot.name}:{robot.skill_set}' for robot in group],
                'seed': options.seed,
                'planner_timeout_s': PATIENCE_S,
                'worker_timeout_s': PATIENCE_S,
            }
            self._launch(name, node_command('executor', executor))

    def _launch(self, name: str, command: Sequence[str], *, pipes: bool = False) -> Child:
        child = self._children.start(f'{self.mode}.{name}', command, pipes=pipes)
        self._started.append(child)
        return child

    async def _read(self, child: Child, take: Callable[[str], None]) -> None:
        reader = asyncio.StreamReader(limit=1 << 22)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), child.process.stdout
        )
        try:
            while line := await reader.readline():
                take(line.decode())
        finally:
            transport.close()

    def _on_line(self, line: str) -> None:
        event = json.loads(line)
        match event['event']:
            case 'ready':
                self._ready = True
            case 'lost':
                self._lost = True
            case 'result' | 'rejected':
                key = event['key']
                took_s = time.monotonic() - self._sent_s.get(key, math.nan)
                self.results[key] = TaskOutcome.of(event, took_s)
                if key in self._judging:
                    self._end_in_world(key)
            case 'accepted':
                self._plans[event['key']] = event['plan']
            case 'found' | 'feedback':
                pass
            case _:
                self.model.apply(event, time.monotonic())

    def _command(self, task: TimedTask) -> dict[str, Any]:
        command = task.command()
        if self.options.engine == 'simulated':
            # That engine has no model: it writes the instruction as the plan.
            command['instruction'] = _OBSERVATION.sub('', task.sample.plan)
        return command

    def _send(self, command: dict[str, Any]) -> None:
        """Give the client a command."""
        if 'key' in command:
            self._sent_s[command['key']] = time.monotonic()
        if self._client is None:
            raise RuntimeError('expected start() first')
        self._client.tell(command)

    def _tell_world(self, task: TimedTask) -> None:
        """Have the world watch a task, if it judges it."""
        judged = self._bodies.judged(task)
        if judged is not None and self._world is not None:
            self._judging[task.key] = task
            self._world.tell({'begin': judged})

    def _end_in_world(self, key: str) -> None:
        if self._world is not None:
            self._world.tell({'end': key, 'plan': self._plans.get(key, '')})

    def _on_world_line(self, line: str) -> None:
        verdict = WorldVerdict.of(line)
        if verdict is not None and verdict.key in self._judging:
            self.verdicts[verdict.key] = replace(verdict, kind=self._judging[verdict.key].kind)


def _parameters_of(model: str) -> dict[str, Any]:
    """Return the planner's parameters for a model of the user's; its steps are not timed first.

    Timing a large one takes minutes, and only time budgets need it.
    """
    return {
        'model_path': model,
        'max_tokens': MOST_TOKENS,
        'profile': '',
        'load_limit_s': START_LIMIT_S,
    }
