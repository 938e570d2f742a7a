"""The program through which commands speak to a planner, so that ROS stays out of this process.

See ``timely_llm_ros.nodes.tools.plan_client`` for what it takes and tells: JSON lines.
"""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from timely_llm_ros.command_line import require_ros
from timely_llm_ros.errors import TimelyError

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = ('-m', 'timely_llm_ros.nodes.tools.plan_client')
"""What Python runs."""

END_LIMIT_S = 12.0
"""How long the program may take to cancel what has not ended (s)."""

QUIET_S = 2.0
"""How long a planner is looked for before that is told (s)."""

_ENDED = 'the ROS client ended; its output above says why'


class ClientProcess:
    """Speaks to the planner of a namespace; the end of its ``with`` block cancels open tasks.

    Ctrl-C does not reach the program: whoever uses it decides what becomes of its tasks.
    """

    def __init__(self, namespace: str) -> None:
        require_ros()
        command = [sys.executable, *PROGRAM]
        if namespace:
            command += ['--ros-args', '-r', f'__ns:={namespace}']
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name='plan client', daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def send(self, command: Mapping[str, Any]) -> None:
        """Send a task, or the order to cancel one.

        Raises:
            TimelyError: The program has ended.
        """
        if self._process.stdin is None:
            raise TimelyError(_ENDED)
        try:
            self._process.stdin.write(json.dumps(command) + '\n')
            self._process.stdin.flush()
        except BrokenPipeError as err:
            # Not the reader of our own output, which may go away.
            raise TimelyError(_ENDED) from err

    def event_within(self, limit_s: float) -> dict[str, Any] | None:
        """Return the next event, or None if there is none for so long.

        Raises:
            TimelyError: The program has ended.
        """
        try:
            event = self._events.get(timeout=limit_s)
        except queue.Empty:
            return None
        if event is None:
            raise TimelyError(_ENDED)
        return event

    def meets_planner(self, limit_s: float) -> bool:
        """Whether a planner is ready within a time (s); where none is, print what can be done.

        Raises:
            TimelyError: The program has ended.
            KeyboardInterrupt: Somebody pressed Ctrl-C.
        """
        now_s = time.monotonic()
        end_s, told_s, found = now_s + limit_s, now_s + QUIET_S, False
        try:
            while (event := self.event_within(0.1)) is not None or time.monotonic() < end_s:
                if event is not None and event['event'] == 'ready':
                    return True
                found |= event is not None and event['event'] == 'found'
                if time.monotonic() > told_s:
                    told_s = math.inf
                    domain = os.environ.get('ROS_DOMAIN_ID') or '0'
                    text = f'looking for a planner in ROS domain {domain} for up to {limit_s:g} s'
                    print(text, file=sys.stderr)
        except KeyboardInterrupt:
            print('interrupted: nothing was sent', file=sys.stderr)
            raise
        if found:
            problem = (
                f'a planner is there, but silent after {limit_s:g} s, as it is while it loads its '
                f'model. Wait longer: --wait {max(60, 2 * limit_s):g}'
            )
        else:
            problem = (
                f'no planner answers after {limit_s:g} s. Is one running in this ROS domain and '
                f'namespace? Start one with: {_start_command()}, or see: timely-llm doctor --dds. '
                f'One that has just started, or that works hard, is met later: '
                f'--wait {max(60, 2 * limit_s):g}'
            )
        print(f'error: {problem}', file=sys.stderr)
        return False

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._events.put(json.loads(line))
        self._events.put(None)


def _start_command() -> str:
    """Return what starts a planner: of this Python's environment, or of an installed ROS."""
    program = Path(sys.prefix, 'lib', 'timely_llm_ros', 'planner')
    if program.is_file():
        return f'{program} --ros-args -p \'robots:=["drone_1:tello"]\''
    return 'ros2 launch timely_llm_ros fleet.launch.py'
