"""A robot that the driver ``ros`` moves, and mocks of everything that its calls file names."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import yaml
from support import process_table
from support.ros.fleet import Fleet
from support.ros.mock_servers import MockServers
from support.ros.programs import ROOT, wait_for
from support.ros.ros_client import ASK_AGAIN_S
from timely_llm_ros.msg import RobotState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.ros_client import Client, Goal
    from timely_llm_ros.action import ExecuteSegment

ANSWER_S = 5.0
"""How long a server may take to answer (s): a busy machine is no failure."""


class CallsFleet(Fleet):
    """One robot under mocked servers."""

    servers: MockServers

    def __init__(
        self,
        client: Client,
        folder: Path,
        robot: str,
        *,
        skill_set: str,
        calls: str,
        silence_s: float | None = None,
        driver: dict[str, Any] | None = None,
        executor: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if silence_s is not None:
            # The shipped file, with less patience, for tests that wait for its end.
            text = (ROOT / 'config' / 'calls' / f'{calls}.yaml').read_text(encoding='utf-8')
            copy = folder / f'{calls}.yaml'
            copy.write_text(re.sub(r'silence_s: [\d.]+', f'silence_s: {silence_s}', text), 'utf-8')
            calls = str(copy)
        drivers = folder / 'robots.yaml'
        entry = {
            'driver': 'ros',
            'calls_file': calls,
            'answer_limit_s': ANSWER_S,
            'server_limit_s': 60.0,
            **(driver or {}),
        }
        drivers.write_text(yaml.safe_dump({robot: entry}), encoding='utf-8')
        parameters = {'drivers_file': str(drivers), 'timeout_margin_s': 60.0, **(executor or {})}
        self._robot, self._calls = robot, calls
        super().__init__(client, folder, robots={robot: skill_set}, executor=parameters, **options)

    def start_executor(self, robots: list[str]) -> Any:
        if not hasattr(self, 'servers'):
            self.servers = MockServers(
                self.folder,
                self.namespace,
                self._robot,
                skill_set=self.robots[self._robot],
                calls=self._calls,
            )
        return super().start_executor(robots)

    @property
    def is_lost(self) -> bool:
        return bool(self.states[self._robot][-1].phase == RobotState.LOST)

    def lose_servers(
        self, how: str, begin: Callable[[], Goal], action: str
    ) -> ExecuteSegment.Result:
        """Have the servers die, hang or stall during a segment and come back; return its result.

        The segment begins with a goal of the action. What outlived that is cancelled by the end,
        and the robot is there again.
        """
        self.servers.command('seconds 60')
        before = len(self.servers.events)
        goal = begin()
        self.servers.wait_event('goal', action, before)
        match how:
            case 'die':
                self.servers.kill()
            case 'hang':
                self.servers.signal(signal.SIGSTOP)
            case 'stall':
                self.servers.command('stall')
        result: ExecuteSegment.Result = goal.result()[1]
        if how != 'stall':
            wait_for(lambda: self.is_lost, 'robot lost')
        match how:
            case 'die':
                self.servers.restart()
            case 'hang':
                self.servers.signal(signal.SIGCONT)
            case 'stall':
                self.servers.command('go on')
        if how != 'die':
            self.servers.wait_event('canceled', action, before)
        wait_for(lambda: not self.is_lost, 'robot back')
        self.servers.command('seconds 0.1')
        return result

    def kill_executor(self, victim: str, begin: Callable[[], Goal], action: str) -> str:
        """Kill worker or guard during a segment that begins with a goal; return what it printed.

        The goal is cancelled by whoever is left, and the program ends.
        """
        if self.executors[0].process.poll() is not None:
            heard = len(self.states[self._robot])
            self.executors[0] = self.start_executor([self._robot])
            self.wait_executors(
                lambda: len(self.states[self._robot]) > heard and not self.is_lost, 'robot back'
            )
        self.servers.command('seconds 60')
        before = len(self.servers.events)
        # Of a segment that came before both had met, nobody hears any more.
        goals: list[Goal] = []

        def is_answered() -> bool:
            goals.append(begin())
            return goals[-1].is_answered(ASK_AGAIN_S)

        wait_for(is_answered, 'answer to a segment')
        goal = goals[-1]
        wait_for(lambda: goal.answer or ('goal', action) in self.servers.names(before), 'a goal')
        assert goal.answer is None, goal.answer
        executor = self.executors[0]
        worker = executor.children[0]
        os.kill(worker if victim == 'worker' else executor.pid, signal.SIGKILL)
        self.servers.wait_event('canceled', action, before)
        executor.wait()
        # One whose guard was killed answers until it is gone.
        process_table.wait_gone([worker])
        return executor.output

    def close(self) -> None:
        super().close()
        if hasattr(self, 'servers'):
            self.servers.close()
