"""One run of the demo: starts every process, sends the tasks, waits for their results."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lrtrace.storage import Trace
from timely_llm_ros.demo.bodies import Bodies
from timely_llm_ros.demo.fleet_model import FleetModel
from timely_llm_ros.demo.processes import find_program
from timely_llm_ros.errors import TaskRefusedError, TimelyError

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.demo.processes import Child, Children
    from timely_llm_ros.demo.workload import Robot, TimedTask

START_LIMIT_S = 240.0
"""How long the processes of a run may take until they serve (s)."""

END_LIMIT_S = 120.0
"""How long tasks may go on after the last one arrived (s)."""

PATIENCE_S = 3.0
"""Silence (s) after which planner and robots miss each other: more than the default, because a
laptop that does everything at once may keep a process waiting for a second."""

SETTLE_S = 0.5
"""Time for the last subscriptions to be matched before the first task (s)."""

CHECK_PERIOD_S = 0.1

_OBSERVATION = re.compile(r'#[^ ]* ')


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run serves its tasks.

    Attributes:
        name: Name of its trace.
        mode: Serving mode of the engine.
        policy: What ranks generations.
        engine: The engine's name.
        max_running: Most generations in one engine step.
        min_step_s: Least duration of an engine step (s).
        seed: Seed of the robots.
        servers: Addresses of the model servers of engine ``openai``.
        notes: What else the trace should say about the run.
    """

    name: str
    mode: str
    policy: str
    engine: str
    max_running: int
    min_step_s: float
    seed: int
    servers: tuple[str, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What people call it."""
        return f'{self.mode.replace("_", " ")}, {self.policy}'


class DemoRun:
    """A run. Use :meth:`start`, then :meth:`serve`, and :meth:`stop` in any case.

    Args:
        options: How to serve.
        robots: The fleet.
        tasks: What it is to do.
        folder: Where the trace goes, below it.
        children: Starts the processes.
        bodies: What stands in for the robots' bodies; by default the drivers simulate them.
    """

    def __init__(
        self,
        options: RunOptions,
        robots: tuple[Robot, ...],
        tasks: tuple[TimedTask, ...],
        *,
        folder: Path,
        children: Children,
        bodies: Bodies | None = None,
    ) -> None:
        self.options = options
        self.model = FleetModel.of(robot.name for robot in robots)
        self.results: dict[str, dict[str, Any]] = {}
        """What became of each task, by key."""
        self.trace = folder / options.name
        self._robots, self._tasks, self._children = robots, tasks, children
        self._bodies = bodies if bodies is not None else Bodies()
        self._started: list[Child] = []
        self._reader: asyncio.Task[None] | None = None
        self._client: Child | None = None
        self._ready = False
        self._lost = False
        self._first_task_s: float | None = None
        self._sent_s: dict[str, float] = {}

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
        """Why tasks did not succeed, one line each."""
        impossible = {task.key for task in self._tasks if task.impossible}
        return [
            f'{key}: {result.get("error") or result.get("status")}'
            for key, result in self.results.items()
            if not (
                result.get('error_code') == TaskRefusedError.code
                if key in impossible
                else result.get('status') == 'succeeded'
            )
        ]

    @property
    def refused(self) -> int:
        """How many tasks were refused that cannot be done within their time budget."""
        return sum(
            task.impossible
            and self.results.get(task.key, {}).get('error_code') == TaskRefusedError.code
            for task in self._tasks
        )

    @property
    def budgeted(self) -> list[tuple[TimedTask, dict[str, Any]]]:
        """The tasks with a time budget, and what became of each."""
        return [
            (task, self.results[task.key])
            for task in self._tasks
            if task.time_budget_s is not None and task.key in self.results
        ]

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
        while len(self.results) < len(self._tasks):
            now_s = time.monotonic() - start_s
            while left and left[0].at_s <= now_s:
                self._send(self._command(left.pop(0)))
            self._children.check()
            if self._lost:
                raise TimelyError('the planner fell silent')
            if now_s > self._tasks[-1].at_s + END_LIMIT_S:
                open_tasks = [task.key for task in self._tasks if task.key not in self.results]
                raise TimelyError(f'{", ".join(open_tasks)}: not ended after {now_s:.0f} s')
            next_s = left[0].at_s - now_s if left else CHECK_PERIOD_S
            await asyncio.sleep(min(max(next_s, 0.001), CHECK_PERIOD_S))
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
        if self._reader is not None:
            self._reader.cancel()

    @property
    def _mode_is_ours(self) -> bool:
        return self.model.engine.mode == self.options.mode

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
        servers = {'server_urls': list(options.servers)} if options.servers else {}
        self._start(
            'planner',
            {
                **servers,
                'robots': [f'{robot.name}:{robot.skill_set}' for robot in self._robots],
                'engine': options.engine,
                'mode': options.mode,
                'policy': options.policy,
                'max_running': options.max_running,
                'min_step_s': options.min_step_s,
                'robot_timeout_s': PATIENCE_S,
            },
        )
        names = [robot.name for robot in self._robots]
        client = [sys.executable, '-m', 'timely_llm_ros.nodes.tools.plan_client', '--watch', *names]
        child = self._children.start(f'{options.name}.client', client, pipes=True)
        self._started.append(child)
        self._client = child
        self._reader = asyncio.create_task(self._read(child))
        self._start(
            'recorder',
            {
                'output': str(self.trace),
                'robots': names,
                'custom_data': [f'{name}={value}' for name, value in options.notes.items()],
            },
        )
        for name, command in self._bodies.commands():
            self._started.append(self._children.start(f'{options.name}.{name}', command))
        for name, group in self._bodies.groups(self._robots):
            parameters = {
                'robots': [f'{robot.name}:{robot.skill_set}' for robot in group],
                'seed': options.seed,
                'planner_timeout_s': PATIENCE_S,
            }
            self._start('executor', parameters | self._bodies.parameters, name=name)

    def _start(self, program: str, parameters: dict[str, Any], *, name: str = '') -> None:
        command = [*find_program(program), '--ros-args']
        for key, value in parameters.items():
            # JSON is YAML, and its quotes keep the colons in names apart from YAML's own.
            command += ['-p', f'{key}:={json.dumps(value)}']
        name = f'{self.options.name}.{name or program}'
        self._started.append(self._children.start(name, command))

    async def _read(self, client: Child) -> None:
        reader = asyncio.StreamReader(limit=1 << 22)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), client.process.stdout
        )
        try:
            while line := await reader.readline():
                self._on_event(json.loads(line))
        finally:
            transport.close()

    def _on_event(self, event: dict[str, Any]) -> None:
        match event['event']:
            case 'ready':
                self._ready = True
            case 'lost':
                self._lost = True
            case 'result' | 'rejected':
                key = event['key']
                took_s = time.monotonic() - self._sent_s.get(key, math.nan)
                self.results[key] = event | {'took_s': took_s}
            case 'accepted' | 'feedback':
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
        stdin = None if self._client is None else self._client.process.stdin
        if stdin is None:
            raise RuntimeError('expected start() first')
        self._sent_s[command['key']] = time.monotonic()
        try:
            stdin.write(json.dumps(command).encode() + b'\n')
            stdin.flush()
        except BrokenPipeError:
            # The check of the processes says who ended.
            return
