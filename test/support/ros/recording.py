"""A recorder as a process, for tests."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from support.ros.programs import LIMIT_S, ROOT, wait_for
from timely_llm_ros.msg import RobotState, SkillSegment, TaskEvent

from lrtrace.storage.reader import Trace

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.ros_client import Client


_numbers = itertools.count(1)


class Recording:
    """A recorder in a namespace of its own, and publishers for it to hear if there is a client."""

    def __init__(
        self,
        client: Client | None,
        folder: Path,
        *,
        before: Callable[[], None] | None = None,
        **parameters: object,
    ) -> None:
        self.client = client
        self.namespace = f'/recording_{os.getpid()}_{next(_numbers)}'
        self.trace = folder / 'trace'
        parameters = {'output': str(self.trace), 'robots': ['drone_1']} | parameters
        command = [sys.executable, str(ROOT / 'scripts' / 'recorder'), '--ros-args']
        command += ['-r', f'__ns:={self.namespace}']
        for name, value in parameters.items():
            command += ['-p', f'{name}:={json.dumps(value)}']
        self._log = folder / 'recorder.log'
        with self._log.open('wb') as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=before)
        if client is None:
            return
        self.publishers = [
            # Deep enough for a whole burst: a publisher drops what overflows its own history.
            client.do(client.node.create_publisher, kind, f'{self.namespace}/{name}', 200)
            for kind, name in (
                (TaskEvent, 'task_events'),
                (SkillSegment, 'drone_1/skill_segments'),
                (RobotState, 'drone_2/robot_state'),
            )
        ]
        if parameters.get('autostart', True):
            self.wait_heard()

    def wait_heard(self) -> None:
        wait_for(
            lambda: all(one.get_subscription_count() for one in self.publishers), 'subscriptions'
        )

    def change(self, *transitions: int) -> bool:
        """Take the recorder through transitions; return whether all succeeded."""
        assert self.client is not None
        name = f'{self.namespace}/recorder/change_state'
        return all(
            self.client.service(
                ChangeState, name, ChangeState.Request(transition=Transition(id=transition))
            ).success
            for transition in transitions
        )

    @property
    def state(self) -> str:
        assert self.client is not None
        name = f'{self.namespace}/recorder/get_state'
        return str(self.client.service(GetState, name, GetState.Request()).current_state.label)

    def publish(self, numbers: range) -> None:
        for number in numbers:
            self.publishers[0].publish(TaskEvent(text=str(number)))
            self.publishers[1].publish(SkillSegment(index=number))
            self.publishers[2].publish(RobotState(segment=number))

    def recorded(self, topic: str) -> int:
        return Trace(self.trace).summary().counts[f'{self.namespace}/{topic}']

    def end(self, number: signal.Signals) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(LIMIT_S)

    def interrupt_until_it_ends(self, number: signal.Signals) -> int:
        """Send the signal again and again, so that no moment of its end is spared."""

        def ended() -> bool:
            self.process.send_signal(number)
            return self.process.poll() is not None

        wait_for(ended, 'the end of the recorder')
        return int(self.process.returncode)

    @property
    def log(self) -> str:
        return self._log.read_text()
