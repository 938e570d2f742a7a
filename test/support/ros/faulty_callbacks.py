"""Whatever fails on the ROS thread, and whoever doubles a name, ends no process.

A program of its own, for what it provokes was a SIGSEGV. It prints how many goals ended.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from rclpy.action import GoalResponse
from rclpy.node import Node
from timely_llm_ros.action import ExecuteSegment
from timely_llm_ros.msg import SkillSegment

from timely_llm_ros.ros import DeferredActionServer, GoalClient, RosThread

ACTION = 'faulty/execute_segment'
GOALS = 50


def fail(*_: object) -> None:
    raise RuntimeError('as the test wants it')


class Doubled:
    """A client of two servers of one name, one of which fails where the goal says so."""

    def __init__(self, node: Node, ros: RosThread) -> None:
        self._ros = ros
        self._servers = [self._server(node), self._server(node)]
        self._client = GoalClient(node, ExecuteSegment, ACTION)
        self.ended = asyncio.Semaphore(0)

    def _server(self, node: Node) -> DeferredActionServer:
        server: DeferredActionServer

        def accepted(goal: Any) -> None:
            server.finish(goal, ExecuteSegment.Result(), succeeded=True)

        server = DeferredActionServer(
            node,
            ExecuteSegment,
            ACTION,
            on_goal=self._on_goal,
            on_accepted=accepted,
            on_cancel=fail,
            result_timeout_s=60,
        )
        return server

    def _on_goal(self, goal: ExecuteSegment.Goal) -> GoalResponse:
        if goal.segment.text == 'fail':
            fail()
        return GoalResponse.ACCEPT

    @property
    def ready(self) -> bool:
        return bool(self._client.server_is_ready())

    def send(self, text: str) -> None:
        goal = ExecuteSegment.Goal(segment=SkillSegment(text=text))
        self._client.send_goal_async(goal).add_done_callback(self._accepted)

    def _accepted(self, response: Any) -> None:
        response.result().get_result_async().add_done_callback(self._ended)
        fail()

    def _ended(self, _: Any) -> None:
        self._ros.call_loop(self.ended.release)


async def main() -> None:
    ros = RosThread(asyncio.get_running_loop(), sys.argv)
    node = Node('faulty')
    doubled = Doubled(node, ros)
    ros.start(node)
    while not doubled.ready:
        await asyncio.sleep(0.01)
    ros.call(fail)
    ros.call(doubled.send, 'fail')
    for number in range(GOALS):
        ros.call(doubled.send, '')
        await doubled.ended.acquire()
        print(number + 1, flush=True)
    # What was posted and is overtaken by the end is not called: the node is gone.
    ros.call_loop(print, 'after the end')
    ros.close()
    await asyncio.sleep(0)


if __name__ == '__main__':
    asyncio.run(main())
