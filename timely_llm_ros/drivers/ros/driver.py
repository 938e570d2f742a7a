"""Drives any robot with ROS interfaces: skills are calls of actions, services and topics.

What each skill calls is in a file, see ``calls_file``. The driver knows no robot.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.ros.calls_file import (
    CancelAll,
    Look,
    Request,
    TakePicture,
    Wait,
    read_calls,
)
from timely_llm_ros.drivers.ros.link import CANCELED, SUCCEEDED
from timely_llm_ros.drivers.ros.message_types import describe
from timely_llm_ros.drivers.ros.templates import Filling
from timely_llm_ros.errors import DriverTimeoutError, RobotUnavailableError, SkillFailedError
from timely_llm_ros.execution import NoPerception, SafeActionRetry
from timely_llm_ros.skills import Call, Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from timely_llm_ros.drivers.ros.calls_file import Step
    from timely_llm_ros.drivers.ros.link import Endpoint, GoalEnding, GoalRun, RosLink
    from timely_llm_ros.drivers.ros.options import RosOptions
    from timely_llm_ros.execution import CallValue, Perception
    from timely_llm_ros.skills import SkillSet

CANCEL_LIMIT_S = 1.5
"""How long a cancelled goal may take to end (s); the safe action follows in any case."""

SAFE_LIMIT_S = 0.4
"""How long a server may take to answer the safe action (s)."""

NEW_LIMIT_S = 2.0
"""The same for one that has just been found (s): it may not know yet whom to answer."""

ASK_PERIOD_S = 0.1
"""After so long (s) the safe action is asked for again: a server that does not know yet who asks
does what it is asked for, and its answer is lost."""

LOOK_PERIOD_S = 0.02
"""How often is looked whether every server is there (s)."""

_NO_SCENE = Scene()


class RosDriver:
    """Does the skills of one robot by what a file says that they call.

    Args:
        skill_set: The robot's skills.
        options: How it is called.
        link: What it offers.
        perception: Sees, for skills that look.

    Raises:
        ConfigurationError: The file does not fit the skill set, or the types that there are.
    """

    def __init__(
        self,
        skill_set: SkillSet,
        options: RosOptions,
        link: RosLink,
        *,
        perception: Perception | None = None,
    ) -> None:
        self._skill_set, self._options, self._link = skill_set, options, link
        self._calls = read_calls(skill_set, options)
        # Requests, and perhaps the cancelling of everything.
        self._safe_steps = self._calls.skills[skill_set.safe_action]
        self._perception = perception or NoPerception()
        self._retry = SafeActionRetry(self._make_safe)
        self._connected = False
        self._safe_limit_s = SAFE_LIMIT_S
        self._request: Request | None = None
        self._run: GoalRun | None = None

    @property
    def remaining_s(self) -> float | None:
        """How long the robot says that the call in hand will take (s); None where it does not."""
        run, request = self._run, self._request
        if run is None or run.feedback is None or request is None or request.remaining is None:
            return None
        told = request.remaining.read(run.feedback)
        seconds: float = told if isinstance(told, float) else told.sec + 1e-9 * told.nanosec
        return max(0.0, run.heard_s + seconds - asyncio.get_running_loop().time())

    async def connect(self, *, only_safe: bool = False) -> None:
        """Wait until everything that the file names is there, or what its safe action calls.

        What is there takes the safe action even if something else is not: nobody knows what the
        robot was left with.
        """
        calls = self._calls
        self._safe_limit_s = NEW_LIMIT_S
        safe = [step for step in self._safe_steps if isinstance(step, Request)]
        await self._link.open(
            [step.endpoint for step in safe] if only_safe else calls.endpoints,
            calls.actions if len(safe) < len(self._safe_steps) else (),
        )
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._options.server_limit_s
        while (missing := self._link.missing()) is not None:
            if loop.time() >= end_s:
                with contextlib.suppress(RobotUnavailableError, SkillFailedError):
                    await self._make_safe()
                limit_s = self._options.server_limit_s
                raise RobotUnavailableError(f'{missing}: waited for {limit_s:g} s')
            await asyncio.sleep(LOOK_PERIOD_S)
        self._connected = True

    async def close(self) -> None:
        """Forget the robot."""
        await self._retry.end()
        self._connected = False
        await self._link.close()

    async def execute(self, call: Call, scene: Scene) -> CallValue:
        """Make the calls of a skill one after the other; when cancelled, cancel what is called."""
        self._require_connection()
        if call.skill not in self._calls.skills:
            raise SkillFailedError(
                f'skill {call.skill!r}: expected one of skill set {self._skill_set.name!r}'
            )
        filling, value = Filling(call, self._perception.locate(scene)), None
        for step in self._calls.skills[call.skill]:
            value = await self._do(step, filling)
        return value

    async def safe(self) -> None:
        """Make the calls of the safe action, all at once; return once every server has taken it.

        After this has raised, it is tried again until they have.
        """
        self._require_connection()
        await self._retry.end()
        try:
            await self._make_safe()
        except RobotUnavailableError:
            self._retry.begin()
            raise
        self._safe_limit_s = SAFE_LIMIT_S

    async def _do(self, step: Step, filling: Filling) -> CallValue:
        match step:
            case CancelAll():
                await self._cancel_all()
                return None
            case TakePicture():
                await self._perception.take_picture()
                return None
            case Wait(seconds):
                await asyncio.sleep(seconds(filling))
                return None
            case Look(argument):
                return filling.text(argument) in await self._perception.look(filling.scene)
            case Request():
                return await self._call(step, filling)

    async def _call(self, request: Request, filling: Filling) -> CallValue:
        try:
            match request.endpoint.kind:
                case 'action':
                    answer = await self._limited(request, self._act(request, filling))
                case 'service':
                    answer = await self._limited(request, self._ask(request, filling))
                case 'topic':
                    await self._publish(request, filling)
                    return None
        except (asyncio.CancelledError, DriverTimeoutError):
            if request.cancel is not None:
                # Whoever cancels asks for the safe action next, and that reports its failures.
                with contextlib.suppress(RobotUnavailableError, SkillFailedError):
                    await self._tell(request.cancel, filling)
            raise
        for path, expected in request.success:
            if path.read(answer) != expected:
                raise SkillFailedError(
                    f'{filling.call.text}: {request.endpoint}: {path.show(path.read(answer))}: '
                    f'expected {expected!r}; {describe(answer)}'
                )
        value: CallValue = None if request.value is None else request.value.read(answer)
        return value

    async def _limited(self, request: Request, work: Any) -> Any:
        try:
            async with asyncio.timeout(request.limit_s):
                return await work
        except TimeoutError as err:
            raise DriverTimeoutError(
                f'{request.endpoint} did not end within {request.limit_s:g} s'
            ) from err

    # Actions

    async def _act(self, request: Request, filling: Filling) -> Any:
        endpoint = request.endpoint
        run = self._link.send_goal(endpoint, request.fill(filling))
        self._request, self._run = request, run
        try:
            if not await self._accepted(run, endpoint):
                raise SkillFailedError(f'{filling.call.text}: {endpoint} rejected the goal')
            ending = await self._ended(run, request)
        except asyncio.CancelledError:
            run.cancel()
            await asyncio.wait({run.ended}, timeout=CANCEL_LIMIT_S)
            raise
        finally:
            self._request = self._run = None
            if not run.ended.done():
                # Also a goal that is accepted late, by a server that hung, ends.
                run.cancel()
        if ending.status != SUCCEEDED:
            how = 'cancelled by somebody else' if ending.status == CANCELED else 'aborted'
            said = describe(ending.result)
            raise SkillFailedError(
                f'{filling.call.text}: {endpoint} {how}' + (f': {said}' if said else '')
            )
        return ending.result

    async def _accepted(self, run: GoalRun, endpoint: Endpoint) -> bool:
        await asyncio.wait({run.accepted}, timeout=self._options.answer_limit_s)
        if not run.accepted.done():
            raise RobotUnavailableError(
                f'{endpoint}: no answer to a goal within {self._options.answer_limit_s:g} s'
            )
        return run.accepted.result()

    async def _ended(self, run: GoalRun, request: Request) -> GoalEnding:
        loop = asyncio.get_running_loop()
        silence_s = request.silence_s
        while not run.ended.done():
            left_s = None if silence_s is None else run.heard_s + silence_s - loop.time()
            if left_s is not None and left_s <= 0:
                raise RobotUnavailableError(
                    f'{request.endpoint}: no feedback for {silence_s:g} s: lost'
                )
            await asyncio.wait({run.ended}, timeout=left_s)
        return run.ended.result()

    async def _cancel_all(self, limit_s: float | None = None) -> None:
        limit_s = limit_s or self._options.answer_limit_s
        await _all(self._cancel_goals(endpoint, limit_s) for endpoint in self._calls.actions)

    async def _cancel_goals(self, endpoint: Endpoint, limit_s: float) -> None:
        if not await _asked(lambda: self._link.cancel_goals(endpoint), endpoint, limit_s):
            raise RobotUnavailableError(f'{endpoint} refuses to cancel its goals')

    # Services and topics

    async def _ask(self, request: Request, filling: Filling) -> Any:
        answer = self._link.ask(request.endpoint, request.fill(filling))
        if request.limit_s is not None:
            return await answer
        return await _answer(answer, request.endpoint, self._options.answer_limit_s)

    async def _publish(self, request: Request, filling: Filling) -> None:
        message = request.fill(filling)
        if request.seconds is None:
            self._link.publish(request.endpoint, message)
            return
        loop = asyncio.get_running_loop()
        end_s = loop.time() + request.seconds(filling)
        try:
            while (left_s := end_s - loop.time()) > 1e-6:
                self._link.publish(request.endpoint, message)
                await asyncio.sleep(min(left_s, 1 / request.rate_hz))
        finally:
            if request.then is not None:
                self._link.publish(request.endpoint, request.then(filling))

    # The safe action

    async def _make_safe(self) -> None:
        filling = Filling(Call(self._skill_set.safe_action), _NO_SCENE)
        requests = [step for step in self._safe_steps if isinstance(step, Request)]
        goals = [request for request in requests if request.endpoint.kind == 'action']
        at_once = [self._tell(request, filling) for request in requests if request not in goals]
        if len(requests) < len(self._safe_steps):
            at_once.append(self._cancel_all(self._safe_limit_s))
        try:
            await _all(at_once)
        finally:
            # After the cancelling, which would cancel these too.
            await _all([self._tell(request, filling) for request in goals])

    async def _tell(self, request: Request, filling: Filling) -> None:
        """Make a call and wait until it is taken, not until it has ended."""
        endpoint, message = request.endpoint, request.fill(filling)
        match endpoint.kind:
            case 'topic':
                self._link.publish(endpoint, message)
            case 'service':
                ask = partial(self._link.ask, endpoint, message)
                answer = await _asked(ask, endpoint, self._safe_limit_s)
                for path, expected in request.success:
                    if path.read(answer) != expected:
                        raise RobotUnavailableError(f'{endpoint} refused: {describe(answer)}')
            case 'action':
                run = self._link.send_goal(endpoint, message)
                accepted = asyncio.shield(run.accepted)
                if not await _answer(accepted, endpoint, self._safe_limit_s):
                    raise RobotUnavailableError(f'{endpoint} rejected the goal')

    def _require_connection(self) -> None:
        if not self._connected:
            raise RobotUnavailableError('robot: expected to be connected')


async def _answer(answer: asyncio.Future[Any], endpoint: Endpoint, limit_s: float) -> Any:
    try:
        async with asyncio.timeout(limit_s):
            return await answer
    except TimeoutError as err:
        raise RobotUnavailableError(f'{endpoint}: no answer within {limit_s:g} s') from err


async def _asked(ask: Callable[[], asyncio.Future[Any]], endpoint: Endpoint, limit_s: float) -> Any:
    """Ask again and again until there is an answer; return the latest.

    What was asked after that is waited for: late, it would cancel what the robot does next. A
    server hears one client's requests in turn, so it has heard all those before.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + limit_s
    asked: list[asyncio.Future[Any]] = []
    try:
        while (left_s := end_s - loop.time()) > 1e-6:
            asked.append(ask())
            done, _ = await asyncio.wait(
                asked, timeout=min(left_s, ASK_PERIOD_S), return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                answered = max(map(asked.index, done))
                if later := asked[answered + 1 :]:
                    await asyncio.wait(later, timeout=max(0.0, end_s - loop.time()))
                return asked[answered].result()
    finally:
        for future in asked:
            future.cancel()
    raise RobotUnavailableError(f'{endpoint}: no answer within {limit_s:g} s')


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do everything at once, to its end; raise the first error."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
