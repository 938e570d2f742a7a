"""What a page may ask of a fleet: a task, its end, a robot's halt and release, its scene."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from action_msgs.srv import CancelGoal
from std_srvs.srv import SetBool
from unique_identifier_msgs.msg import UUID

from timely_llm_ros.errors import InvalidTaskError
from timely_llm_ros.nodes.fleet import FleetHalt
from timely_llm_ros.ros import TaskClient, create_steady_timer
from timely_llm_ros.ros.conversions import goal_of, result_json
from timely_llm_ros.srv import DescribeScene
from timely_llm_ros.window import scene_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.client import Client
    from rclpy.node import Node

    from timely_llm_ros.window import Event

    Answer = Callable[[Event], None]

LOOK_PERIOD_S = 0.02
"""How often robots that are being halted are looked after (s)."""

HALT_LIMIT_S = 3.0
"""How long a robot may take to answer until it counts as not reached (s)."""

CLIENT = 'window'


class FleetCommands:
    """Does what pages ask for. Used on the ROS thread only.

    Args:
        node: Whose namespace the fleet is in.
        robots: Returns the names of all robots that are known.
    """

    def __init__(self, node: Node, robots: Callable[[], list[str]]) -> None:
        self._node, self._robots = node, robots
        self._tasks = TaskClient(node)
        self._cancel = node.create_client(CancelGoal, 'plan_task/_action/cancel_goal')
        self._describe = node.create_client(DescribeScene, 'describe_scene')
        self._halts: dict[str, Client] = {}
        self._halting: list[tuple[FleetHalt, float, Answer]] = []
        create_steady_timer(node, LOOK_PERIOD_S, self._look)

    def meet(self, robot: str) -> None:
        """Get ready to halt a robot: a service answers only clients that it has met."""
        if robot not in self._halts:
            self._halts[robot] = self._node.create_client(SetBool, f'{robot}/halt')

    def do(self, request: dict[str, Any], answer: Answer) -> None:
        """Do what is asked for; ``answer`` is called with what comes of it, perhaps often."""
        match request:
            case {'do': 'send', 'robot': str(robot), 'instruction': str(instruction)}:
                self._send(robot, instruction, str(request.get('when_busy', 'abort')), answer)
            case {'do': 'cancel', 'plan': str(plan)}:
                self._end(plan, answer)
            case {'do': 'halt' | 'release' as what, 'robots': list(robots)}:
                self._halt(what == 'halt', [str(robot) for robot in robots], answer)
            case {'do': 'scene', 'robot': str(robot)}:
                self._tell_scene(robot, answer)
            case _:
                answer({'error': f'{str(request)[:200]}: expected something that can be done'})

    def _send(self, robot: str, instruction: str, when_busy: str, answer: Answer) -> None:
        task = {'robot': robot, 'instruction': instruction, 'client': CLIENT}
        try:
            goal = goal_of(task | {'when_busy': when_busy})
        except InvalidTaskError as err:
            answer({'error': str(err)})
            return
        sent = self._tasks.send(goal)
        sent.accepted.add_done_callback(partial(self._on_accepted, answer))
        sent.result.add_done_callback(partial(self._on_result, answer))

    def _on_accepted(self, answer: Answer, accepted: Any) -> None:
        if accepted.exception() is None:
            answer({'accepted': accepted.result()})

    def _on_result(self, answer: Answer, result: Any) -> None:
        error = result.exception()
        if error is not None:
            answer({'error': str(error)})
        else:
            end = result.result()
            answer({'result': result_json(end.status, end.result)})

    def _end(self, plan: str, answer: Answer) -> None:
        """Cancel a task, whoever sent it."""
        request = CancelGoal.Request()
        try:
            request.goal_info.goal_id = UUID(uuid=list(bytes.fromhex(plan)))
        except (ValueError, AssertionError):
            answer({'error': f'plan {plan[:80]!r}: expected 32 hexadecimal digits'})
            return
        if plan.strip('0') == '':
            # To an action server that means every goal.
            answer({'error': 'plan of zeros: expected the id of one plan'})
            return
        if not self._cancel.service_is_ready():
            answer({'error': 'no planner is there to cancel a task of'})
            return
        asked = self._cancel.call_async(request)
        asked.add_done_callback(
            lambda done: answer({'canceled': len(done.result().goals_canceling)})
        )

    def _halt(self, halts: bool, robots: list[str], answer: Answer) -> None:
        """Halt or release robots, all that are known where none is named."""
        chosen = [robot for robot in robots if robot in self._halts] or (
            [] if robots else self._robots()
        )
        if not chosen:
            answer({'done': [], 'error': 'no such robot' if robots else 'no robot is known'})
            return

        def tell(robot: str, response: SetBool.Response, took_s: float) -> None:
            told = {'robot': robot, 'ok': response.success, 'message': response.message}
            answer({**told, 'took_s': round(took_s, 4)})

        fleet = FleetHalt(self._node, chosen, halts=halts, on_answer=tell, clients=self._halts)
        fleet.look()
        self._halting.append((fleet, time.monotonic() + HALT_LIMIT_S, answer))

    def _look(self) -> None:
        for halting in tuple(self._halting):
            fleet, end_s, answer = halting
            if fleet.missing and time.monotonic() < end_s:
                fleet.look()
                continue
            self._halting.remove(halting)
            for robot in fleet.missing:
                answer({'robot': robot, 'ok': False, 'message': 'NOT REACHED'})
            answer({'done': [*fleet.answers], 'missing': fleet.missing})

    def _tell_scene(self, robot: str, answer: Answer) -> None:
        if not self._describe.service_is_ready():
            answer({'error': 'no planner is there to ask for a scene'})
            return
        asked = self._describe.call_async(DescribeScene.Request(robot=robot))
        asked.add_done_callback(partial(_on_scene, answer))


def _on_scene(answer: Answer, asked: Any) -> None:
    told = asked.result()
    scene = [scene_object(item) for item in told.scene]
    answer({'scene': scene} if told.success else {'error': told.message})
