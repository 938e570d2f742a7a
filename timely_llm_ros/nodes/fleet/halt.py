"""Halts the robots of a namespace, or releases them, and knows every one that was not reached.

It asks each robot's executor itself, so no planner is needed. Which robots there are it learns from
the executors that it meets and from the catalogue of a planner, so that a robot whose executor is
gone is named too.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml
from std_msgs.msg import String
from std_srvs.srv import SetBool

from timely_llm_ros.ros import STATE_QOS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rclpy.client import Client
    from rclpy.node import Node

    OnAnswer = Callable[[str, SetBool.Response, float], None]

SERVICE = 'halt'
KIND = 'std_srvs/srv/SetBool'

ASK_AGAIN_S = 0.5
"""When an executor that has not answered is asked again (s)."""

SETTLED_S = 0.5
"""For how long robots are looked for that a planner's catalogue does not have (s)."""


class FleetHalt:
    """Halts robots as soon as it meets their executors; :meth:`look` is called again and again.

    Args:
        node: Whose namespace the robots are in.
        robots: Their names; none for all that there are.
        halts: Whether they are halted; else they are released.
        on_answer: Called with what a robot's executor said, and how long that took (s).
        clients: Of robots' services, where they are there already, since a service answers only
            clients that it has met; those that are missing are added.
    """

    def __init__(
        self,
        node: Node,
        robots: Sequence[str],
        *,
        halts: bool,
        on_answer: OnAnswer,
        clients: dict[str, Client] | None = None,
    ) -> None:
        self._node, self._halts, self._on_answer, self._all = node, halts, on_answer, not robots
        self._prefix = node.get_namespace().rstrip('/') + '/'
        self._clients = {} if clients is None else clients
        self._robots: dict[str, None] = {}
        self._asked_s: dict[str, float] = {}
        self.answers: dict[str, SetBool.Response] = {}
        """What each robot's executor said."""
        self.told_by_planner = False
        """Whether a planner said which robots there are; only those met are known otherwise."""
        self._known_s = -math.inf if robots else math.inf
        """Since when all robots are known (s)."""
        for robot in robots:
            self._meet(robot)
        if self._all:
            node.create_subscription(String, 'skill_catalogue', self._on_catalogue, STATE_QOS)

    @property
    def complete(self) -> bool:
        """Whether every robot has answered, and no other is expected."""
        settled = time.monotonic() > self._known_s + SETTLED_S
        return settled and bool(self.answers) and not self.missing

    @property
    def missing(self) -> list[str]:
        """The robots that have not answered."""
        return [robot for robot in self._robots if robot not in self.answers]

    def seen(self) -> Iterator[str]:
        """Yield the robots whose executors are seen on the ROS graph, asked or not."""
        for name, kinds in self._node.get_service_names_and_types():
            robot, _, service = name.removeprefix(self._prefix).rpartition('/')
            inside = name.startswith(self._prefix) and robot and '/' not in robot
            if inside and service == SERVICE and KIND in kinds:
                yield robot

    def look(self) -> None:
        """Look for more robots, and ask those that have not answered."""
        if self._all:
            for robot in self.seen():
                self._meet(robot)
        now_s = time.monotonic()
        for robot in self.missing:
            client = self._clients[robot]
            if now_s >= self._asked_s.get(robot, 0.0) + ASK_AGAIN_S and client.service_is_ready():
                self._asked_s[robot] = now_s
                asked = client.call_async(SetBool.Request(data=self._halts))
                asked.add_done_callback(partial(self._take, robot, now_s))

    def _meet(self, robot: str) -> None:
        self._robots[robot] = None
        if robot not in self._clients:
            self._clients[robot] = self._node.create_client(SetBool, f'{robot}/{SERVICE}')

    def _on_catalogue(self, message: String) -> None:
        self.told_by_planner = True
        for robot in yaml.safe_load(message.data)['robots']:
            self._meet(str(robot))
        self._known_s = time.monotonic()

    def _take(self, robot: str, asked_s: float, answer: Any) -> None:
        if robot not in self.answers:
            response = self.answers[robot] = answer.result()
            self._on_answer(robot, response, time.monotonic() - asked_s)
