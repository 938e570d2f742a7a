"""The fleet that is attacked: eight robots, their programs, and clients that never rest."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.attack.clocks import SteppingClocks
from benchmarks.attack.hostile import SIGNED
from benchmarks.attack.network import on_second_host
from benchmarks.attack.plans import Plans
from benchmarks.common import lines_of
from timely_llm_ros.demo import Children, node_command
from timely_llm_ros.drivers import read_journal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from timely_llm_ros.demo import Child

EXECUTORS = {
    'drone_1': ('drone_1',),
    'drone_2': ('drone_2',),
    'drones': ('drone_3', 'drone_4'),
    'arms': ('arm_1', 'arm_2'),
    'tellos': ('tello_1', 'tello_2'),
}
"""The executors by name, with the robots that each of them hosts."""

CLIENTS = {
    'client_1': ('drone_1', 'drone_3', 'arm_1', 'tello_1'),
    'client_2': ('drone_2', 'drone_4', 'arm_2', 'tello_2'),
}
"""The clients by name, with the robots that each of them sends tasks for."""

ROBOTS = {
    robot: 'arm' if name == 'arms' else 'tello'
    for name, robots in EXECUTORS.items()
    for robot in robots
}
"""Every robot with its skill set."""

MOCKS = {'tello_1': '127.7.0.2', 'tello_2': '127.7.0.3'}
"""Address of each mock Tello; the others' bodies are simulated."""

TIME_SCALE = 0.1
"""How long simulated skills take, in parts of what they take on robots."""

STEPPED = ('planner', 'recorder', 'drones', 'client_1')
"""Programs whose wall clocks step."""

BATTERY_S = 120.0
"""How often the mock Tellos get a full battery (s)."""

UP_LIMIT_S = 60.0
"""How long a program may take until it is at work (s)."""

PAUSE_S = 0.3
"""How long a client waits before the next task where the last was refused (s)."""

Clock = Callable[[], float]


@dataclass(slots=True)
class Task:
    """One task and everything that its client was told."""

    key: str
    client: str
    robot: str
    instruction: str
    sent_s: float
    hostile: bool = False
    accepted_s: float | None = None
    plan: str = ''
    ends: list[tuple[float, str, str]] = field(default_factory=list)
    """When it ended, how, and the error; more than one is a breach."""
    gone_s: float | None = None
    """When its client or, as the client told, its planner was gone; no end comes then."""

    @property
    def over(self) -> bool:
        return bool(self.ends) or self.gone_s is not None


@dataclass(slots=True)
class Run:
    """One run of a program: from its start to its end."""

    name: str
    child: Child
    began_s: float
    ended_s: float | None = None
    code: int | None = None
    wanted_s: float | None = None
    """When somebody killed, hung or interrupted it."""
    up_s: float | None = None
    """Of a recorder: when it said that it records."""
    met_s: float | None = None
    """Of a planner: when the last client met it."""
    log_begin: int = 0
    """Where in the log of all runs of that name it begins."""

    def has_said(self, words: bytes) -> bool:
        """Return whether its part of the log has these words."""
        with self.child.log.open('rb') as file:
            file.seek(self.log_begin)
            return words in file.read()


class Fleet:
    """Starts, follows and ends the programs.

    Args:
        folder: For logs, journals and traces.
        traces: Folder for traces, on a disk that may be full.
        seed: Of the tasks.
        link_pid: Process of the link to the second host, where the robots are; None where there is
            but one host.
    """

    clients: Mapping[str, Sequence[str]] = CLIENTS
    """The clients by name, with the robots that each of them sends tasks for."""
    robots: Mapping[str, str] = ROBOTS
    """Every robot with its skill set."""
    pause_s = PAUSE_S

    def __init__(self, folder: Path, traces: Path, *, seed: int, link_pid: int | None) -> None:
        self.folder, self.traces = folder, traces
        self.clocks = SteppingClocks(folder)
        self.children = Children(folder)
        self.running: dict[str, Run] = {}
        self.runs: list[Run] = []
        self.tasks: dict[str, Task] = {}
        self.events: list[tuple[float, dict[str, Any]]] = []
        """What the first client heard of tasks on the domain, with the time."""
        self.ready: set[str] = set()
        self.stopping = False
        self._plans = Plans(seed, self.robots, MOCKS)
        self._link_pid = link_pid
        self._keys, self._trace_numbers = itertools.count(1), itertools.count(1)
        self._jobs: list[asyncio.Task[None]] = []
        self._senders: list[asyncio.Task[None]] = []
        self._drivers = folder / 'drivers.yaml'
        entries = {
            robot: {
                'driver': 'tello',
                'address': address,
                'local_address': '127.7.0.1',
                'perception': 'simulated',
                'takeoff_when_needed': True,
                'maximum_height_m': 20.0,
            }
            for robot, address in MOCKS.items()
        }
        # JSON is YAML.
        self._drivers.write_text(json.dumps(entries))

    async def start(self) -> None:
        """Start every program, and the tasks."""
        self.launch('mocks')
        for name in ('planner', *EXECUTORS, 'recorder', *self.clients):
            self.launch(name)
        self.set_to_work()
        self._jobs.append(asyncio.create_task(self._charge()))

    def set_to_work(self) -> None:
        """Send tasks to every robot from now on, one after the other."""
        self._senders += [asyncio.create_task(self._work(robot)) for robot in self.robots]

    async def rest(self) -> None:
        """Send no more tasks; those that were sent go on."""
        await _cancel(self._senders)

    async def stop(self) -> None:
        """End the tasks, then every program."""
        await _cancel(self._senders)
        await _cancel(self._jobs)
        self.stopping = True
        for name in (*CLIENTS, 'recorder', 'planner', *EXECUTORS, 'mocks'):
            if name in self.running:
                await self.end(name)
        await self.children.stop_all()

    async def until_up(self, name: str) -> None:
        """Wait until a program that was started is at work, has ended or took too long."""
        run = self.running.get(name)
        if run is None or name not in ('planner', *EXECUTORS):
            return
        word = b'planning for ' if name == 'planner' else b'executing for '
        while run.ended_s is None and time.monotonic() < run.began_s + UP_LIMIT_S:
            if run.has_said(word):
                return
            await asyncio.sleep(0.05)

    def launch(self, name: str, label: str = '') -> Run:
        """Start a program; under another ``label`` it is one more of its kind."""
        command, pipes = self._command(name, label), name in ('mocks', *self.clients)
        if self._link_pid is not None and name in ('mocks', *EXECUTORS):
            command = on_second_host(self._link_pid, command)
        if name in STEPPED:
            settings = [f'{key}={value}' for key, value in self.clocks.settings(name).items()]
            command = ['env', *settings, *command]
        log = self.folder / f'{label or name}.log'
        begin = log.stat().st_size if log.exists() else 0
        child = self.children.start(label or name, command, pipes=pipes)
        run = Run(label or name, child, time.monotonic(), log_begin=begin)
        self.runs.append(run)
        self.running[run.name] = run
        if name in self.clients:
            self._jobs.append(asyncio.create_task(self._listen(name, child)))
        elif name == 'mocks':
            self._jobs.append(asyncio.create_task(_drop(child)))
        return run

    def _command(self, name: str, label: str) -> list[str]:
        fleet = [f'{robot}:{skill_set}' for robot, skill_set in ROBOTS.items()]
        if name == 'planner':
            # Two planners cannot share a log.
            log = str(self.folder / f'{label or name}.audit.jsonl')
            parameters = {'robots': fleet, 'engine': 'simulated', 'audit_file': log}
            return node_command('planner', parameters)
        if name == 'recorder':
            output = self.traces / f'trace_{next(self._trace_numbers)}'
            return node_command('recorder', {'robots': list(ROBOTS), 'output': str(output)})
        if name in EXECUTORS:
            hosted = [f'{robot}:{ROBOTS[robot]}' for robot in EXECUTORS[name]]
            journal = str(self.folder / f'{label}{{robot}}.jsonl')
            return node_command(
                'executor',
                {
                    'robots': hosted,
                    'journal_path': journal,
                    'time_scale': TIME_SCALE,
                    'drivers_file': str(self._drivers),
                },
            )
        if name == 'mocks':
            hosts = [text for host in MOCKS.values() for text in ('--host', host)]
            journal = str(self.folder / 'mocks.jsonl')
            module = 'timely_llm_ros.drivers.tello.mock'
            return [sys.executable, '-m', module, *hosts, '--control', '--journal', journal]
        watched = ['--watch', *CLIENTS[name]]
        return [sys.executable, '-m', 'timely_llm_ros.nodes.tools.plan_client', *watched]

    async def end(self, name: str) -> Run:
        """Interrupt a program and wait for its end."""
        run = self.running[name]
        run.wanted_s = time.monotonic()
        await self.children.stop(run.child)
        self.note_end(run)
        return run

    def poll(self) -> list[Run]:
        """Note which programs have ended; return those which nobody wanted to end.

        Note also when the recorder has begun to record.
        """
        recorder = self.running.get('recorder')
        if recorder is not None and recorder.up_s is None and recorder.has_said(b'recording to '):
            recorder.up_s = time.monotonic()
        ended = [run for run in self.running.values() if run.child.process.poll() is not None]
        for run in ended:
            self.note_end(run)
        return [run for run in ended if run.wanted_s is None]

    def note_end(self, run: Run) -> None:
        """Note that a program has ended."""
        run.ended_s, run.code = time.monotonic(), run.child.process.poll()
        run.child.expected_to_end = True
        if self.running.get(run.name) is run:
            del self.running[run.name]
        if run.name in self.clients:
            self.ready.discard(run.name)
            self._lose(run.name)

    def charge(self, host: str, fault: str) -> None:
        """Tell a mock Tello what happens to it."""
        self._write('mocks', f'{host} {fault}')

    def send(self, client: str, robot: str, task: dict[str, Any], *, hostile: bool = False) -> Task:
        """Have a client send a task; its key and robot are set here."""
        key = str(next(self._keys))
        sent = Task(key, client, robot, str(task.get('instruction')), time.monotonic(), hostile)
        self.tasks[key] = sent
        self._write(client, json.dumps({'robot': robot, **task, 'key': key}))
        return sent

    def _write(self, name: str, line: str) -> None:
        run = self.running.get(name)
        if run is None or run.child.process.stdin is None:
            return
        try:
            run.child.process.stdin.write(line.encode() + b'\n')
            run.child.process.stdin.flush()
        except OSError:
            # It is gone; poll notes that.
            return

    def journal(self, robot: str) -> list[dict[str, Any]]:
        """Return what a robot's body was told and did, oldest first."""
        if robot not in MOCKS:
            return read_journal(self.folder / f'{robot}.jsonl')
        lines = read_journal(self.folder / 'mocks.jsonl')
        return [line for line in lines if line['host'] == MOCKS[robot]]

    async def _work(self, robot: str) -> None:
        """Send one task after the other."""
        client = next(name for name, robots in self.clients.items() if robot in robots)
        while True:
            if client not in self.ready:
                await asyncio.sleep(0.05)
                continue
            instruction, scene = self._plans.next(robot)
            task = self.send(client, robot, {'instruction': instruction, 'scene': scene})
            while not task.over:
                await asyncio.sleep(0.02)
            if not task.ends or task.ends[0][1] != 'succeeded':
                await asyncio.sleep(self.pause_s)

    async def _charge(self) -> None:
        while True:
            for host in MOCKS.values():
                self.charge(host, 'battery 90')
            await asyncio.sleep(BATTERY_S)

    async def _listen(self, name: str, child: Child) -> None:
        async for line in lines_of(child):
            self._hear(name, json.loads(line), time.monotonic())

    def _hear(self, client: str, event: dict[str, Any], now_s: float) -> None:
        match event['event']:
            case 'ready':
                self.ready.add(client)
                if 'planner' in self.running:
                    self.running['planner'].met_s = now_s
            case 'lost' if event['key']:
                self.tasks[event['key']].gone_s = now_s
            case 'lost':
                self.ready.discard(client)
                self._lose(client)
            case 'accepted':
                task = self.tasks[event['key']]
                task.accepted_s, task.plan = now_s, event['plan']
            case 'rejected':
                self.tasks[event['key']].ends.append((now_s, 'rejected', event['error']))
            case 'result':
                task = self.tasks[event['key']]
                task.ends.append((now_s, event['status'], event['error']))
            case 'task' if event['error'] != SIGNED:
                self.events.append((now_s, {'client': client, **event}))

    def _lose(self, client: str) -> None:
        for task in self.tasks.values():
            if task.client == client and not task.over:
                task.gone_s = time.monotonic()


async def _drop(child: Child) -> None:
    """Read what a program prints, so that it never waits."""
    async for _ in lines_of(child):
        pass


async def _cancel(jobs: list[asyncio.Task[None]]) -> None:
    for job in jobs:
        job.cancel()
    await asyncio.gather(*jobs, return_exceptions=True)
    jobs.clear()
