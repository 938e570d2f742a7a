"""The driver of robots with ROS interfaces, on virtual time, with servers in this process."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.robots import ros_bench
from support.robots.ros_bench import ABORTED, CANCELED, FakeRobot, Run
from support.robots.ros_robot import CALLS, SKILLS

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import create_driver
from timely_llm_ros.drivers.ros import RosDriver, RosOptions
from timely_llm_ros.errors import ConfigurationError, RobotUnavailableError
from timely_llm_ros.execution import ExecutorLimits, SegmentCode, SegmentExecutor, SegmentOutcome
from timely_llm_ros.skills import Segment
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from timely_llm_ros.execution import SegmentProgress

SCENE = Scene((SceneObject('cup_1', 'cup', x_m=2.0), SceneObject('cup_2', 'cup')))
SAFE = [('cancel all', 'bot_1/go'), ('publish', '/cmd_vel'), ('ask', 'bot_1/halt')]


class OneCup:
    async def look(self, scene: Scene) -> frozenset[str]:
        return frozenset(['cup_1'])

    def locate(self, scene: Scene) -> Scene:
        return scene

    def __init__(self) -> None:
        self.pictures = 0

    async def take_picture(self) -> None:
        self.pictures += 1


class Bench:
    def __init__(self, file: Path, robot: FakeRobot) -> None:
        options = RosOptions(calls_file=str(file), prefix='bot_1/')
        self.robot = robot
        self.eyes = OneCup()
        self.driver = RosDriver(SKILLS, options, robot, perception=self.eyes)
        limits = ExecutorLimits(timeout_margin_s=1000.0)
        self.executor = SegmentExecutor(self.driver, SKILLS, LoopClock(), limits)
        self.progress: list[SegmentProgress] = []
        self.plans = 0

    def begin(self, text: str, *, awaits_value: bool = False) -> asyncio.Task[SegmentOutcome]:
        segment = Segment(0, text, parse(text, SKILLS, SCENE), 1, awaits_value=awaits_value)
        self.plans += 1
        plan = f'plan {self.plans}'
        return asyncio.get_running_loop().create_task(
            self.executor.execute(plan, segment, SCENE, self.progress.append)
        )

    async def run(self, text: str, *, awaits_value: bool = False) -> SegmentOutcome:
        return await self.begin(text, awaits_value=awaits_value)


@pytest.fixture
def on_robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a test with a robot that is connected."""
    ros_bench.install(monkeypatch)
    file = tmp_path / 'calls.yaml'
    file.write_text(CALLS, encoding='utf-8')

    def on(body: Callable[[Bench], Awaitable[None]]) -> None:
        async def main() -> None:
            bench = Bench(file, FakeRobot())
            await bench.executor.start()
            # The safe action that every connection begins with is not of the test.
            assert sorted(bench.robot.log) == sorted(SAFE)
            bench.robot.log.clear()
            bench.robot.sent.clear()
            await body(bench)
            await bench.executor.close()

        run_virtual(main())

    return on


def ends_after(seconds: float, status: int = ros_bench.SUCCEEDED, **fields: Any) -> Any:
    def on_goal(run: Run) -> None:
        run.accept()
        asyncio.get_running_loop().call_later(seconds, lambda: run.end(status, **fields))

    return on_goal


def test_a_goal_is_filled_in_and_waited_for(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.on_goal = ends_after(1.5)
        outcome = await bench.run('go_to(cup_1);')
        assert outcome.succeeded, outcome
        assert outcome.execution_s == pytest.approx(1.5)
        (run,) = bench.robot.runs
        assert (run.goal.pose.pose.position.x, run.goal.speed) == (2.0, 0.5)

    on_robot(body)


def test_failure_is_what_status_and_success_say(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        cases = [
            (ends_after(0.1, ABORTED, error_code=7, error_msg='x'), 'aborted: error_code 7 (WALL)'),
            (ends_after(0.1, CANCELED), 'cancelled by somebody else'),
            (ends_after(0.1, error_code=7), 'error_code 7 (WALL): expected 0'),
            (lambda run: run.accept(False), 'rejected the goal'),
        ]
        for on_goal, expected in cases:
            bench.robot.on_goal = on_goal
            outcome = await bench.run('go_to(cup_1);')
            assert outcome.ending.code == SegmentCode.SKILL_FAILED
            assert expected in outcome.ending.message

    on_robot(body)


def test_a_blocking_skill_asks_in_order_and_returns_the_last_answer(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        assert (await bench.run('ask(3);', awaits_value=True)).value == 'true'
        assert [request.what for request in bench.robot.sent] == ['first', '']
        assert (await bench.run('see(cup_1);', awaits_value=True)).value == 'true'
        assert (await bench.run('see(cup_2);', awaits_value=True)).value == 'false'
        bench.robot.answer = {'ok': False, 'text': 'no'}
        outcome = await bench.run('ask(3);', awaits_value=True)
        assert outcome.ending.code == SegmentCode.SKILL_FAILED
        assert "ok False: expected True; ok False, text 'no'" in outcome.ending.message

    on_robot(body)


def test_a_topic_is_published_for_a_time_and_then_once_more(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        outcome = await bench.run('drive(2,1);')
        assert outcome.execution_s == pytest.approx(2.0)
        assert [message.linear.x for message in bench.robot.sent] == [0.2] * 8 + [0.0]
        # Stopped in the middle: the robot is told at once.
        bench.robot.sent.clear()
        bench.begin('drive(10,1);')
        await asyncio.sleep(0.6)
        assert await bench.executor.stop()
        assert [message.linear.x for message in bench.robot.sent[:4]] == [0.2, 0.2, 0.2, 0.0]

    on_robot(body)


def test_a_skill_goes_on_behind_an_object_waits_and_takes_a_picture(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.on_goal = ends_after(1.0)
        outcome = await bench.run('shove(cup_1,50,2500);')
        assert outcome.succeeded, outcome
        assert outcome.execution_s == pytest.approx(4.0)
        (run,) = bench.robot.runs
        assert run.goal.pose.pose.position.x == pytest.approx(2.5)
        assert bench.eyes.pictures == 1

    on_robot(body)


def test_what_the_server_expects_goes_into_the_progress(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        task = bench.begin('go_to(cup_1);')
        await asyncio.sleep(0.5)
        for left in (40, 39, 20):
            feedback = sys.modules['bot_msgs.action'].Go.Feedback()
            feedback.left.sec = left
            bench.robot.runs[0].feed_back(feedback)
            await asyncio.sleep(1.0)
        bench.robot.runs[0].end()
        assert (await task).succeeded
        assert [progress.remaining_s for progress in bench.progress] == [5.0, 39.5, 38.5, 19.5]

    on_robot(body)


@pytest.mark.parametrize('answers', [True, False])
def test_a_cancel_ends_the_goal_within_two_seconds(on_robot: Any, answers: bool) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.stubborn = not answers
        task = bench.begin('go_to(cup_1);')
        await asyncio.sleep(1.0)
        began_s = asyncio.get_running_loop().time()
        assert await bench.executor.stop()
        assert (await task).ending.code == SegmentCode.CANCELED
        assert asyncio.get_running_loop().time() - began_s < 2.0
        assert bench.robot.log[:2] == [('goal', 'bot_1/go'), ('cancel', 'bot_1/go')]
        assert sorted(bench.robot.log[-3:]) == sorted(SAFE)

    on_robot(body)


def test_a_goal_that_is_accepted_after_its_cancel_ends(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.on_goal = lambda run: None
        task = bench.begin('go_to(cup_1);')
        await asyncio.sleep(0.1)
        await bench.executor.stop()
        assert (await task).ending.code == SegmentCode.CANCELED
        (run,) = bench.robot.runs
        run.accept()
        await asyncio.sleep(0.2)
        assert run.ended.done()

    on_robot(body)


@pytest.mark.parametrize(
    ('on_goal', 'after_s', 'expected'),
    [
        (lambda run: None, 2.0, "action 'bot_1/go': no answer to a goal within 2 s"),
        (lambda run: run.accept(), 2.0, "action 'bot_1/go': no feedback for 2 s: lost"),
    ],
)
def test_a_silent_server_is_a_lost_robot(
    on_robot: Any, on_goal: Any, after_s: float, expected: str
) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.on_goal = on_goal
        outcome = await bench.run('go_to(cup_1);')
        assert outcome.ending.code == SegmentCode.ROBOT_LOST
        assert expected in outcome.ending.message
        assert outcome.execution_s == pytest.approx(after_s)
        assert sorted(bench.robot.log[-3:]) == sorted(SAFE)
        assert bench.robot.runs[0].cancelled

    on_robot(body)


def test_a_limit_of_the_file_ends_a_goal(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        async def feed() -> None:
            while True:
                await asyncio.sleep(1.0)
                bench.robot.runs[0].feed_back(None)

        task = asyncio.create_task(feed())
        outcome = await bench.run('go_to(cup_1);')
        task.cancel()
        assert outcome.ending.code == SegmentCode.DRIVER_TIMEOUT
        assert 'did not end within 60 s' in outcome.ending.message
        assert bench.robot.runs[0].cancelled

    on_robot(body)


def test_a_safe_action_that_is_not_taken_is_owed_until_it_is(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.silent = {'bot_1/go'}
        began_s = asyncio.get_running_loop().time()
        assert not await bench.executor.stop()
        assert asyncio.get_running_loop().time() - began_s <= 0.5
        # The others have taken it all the same.
        assert sorted({*bench.robot.log}) == sorted(SAFE)
        assert bench.executor.state.phase == 'lost'
        bench.robot.log.clear()
        bench.robot.silent = set()
        await asyncio.sleep(0.6)
        assert sorted(bench.robot.log[-3:]) == sorted(SAFE)
        bench.robot.log.clear()
        await asyncio.sleep(5.0)
        assert bench.robot.log == []
        await bench.executor.start()
        assert bench.executor.connected

    on_robot(body)


def test_an_answer_that_is_lost_is_asked_for_again(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.lost = 2
        began_s = asyncio.get_running_loop().time()
        assert await bench.executor.stop()
        assert asyncio.get_running_loop().time() - began_s <= 0.2
        assert sorted({*bench.robot.log}) == sorted(SAFE)
        assert len(bench.robot.log) == len(SAFE) + 2

    on_robot(body)


def test_what_was_asked_too_often_is_heard_before_anything_else_is_asked(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.slow_s = 0.15
        began_s = asyncio.get_running_loop().time()
        assert await bench.executor.stop()
        # Asked at 0 s and at 0.1 s: the second cancel must not meet the next goal.
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(0.25)
        assert bench.robot.log.count(SAFE[0]) == 2
        bench.robot.slow_s = 0.0

    on_robot(body)


@pytest.mark.parametrize('fault', ['refused', 'answered no'])
def test_a_server_that_does_not_want_to_stop_is_not_taken_for_safe(
    on_robot: Any, fault: str
) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.refuses = fault == 'refused'
        bench.robot.answer = {'ok': fault == 'refused'}
        assert not await bench.executor.stop()
        bench.robot.refuses, bench.robot.answer = False, {'ok': True}

    on_robot(body)


def test_a_robot_of_which_a_part_is_missing_is_not_connected_but_made_safe(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.absent = {'bot_1/ask'}
        with pytest.raises(RobotUnavailableError, match=r'calls.yaml:12: .*ask.*waited for 5 s'):
            await bench.driver.connect()
        assert sorted(bench.robot.log) == sorted(SAFE)

    on_robot(body)


def test_the_safe_action_needs_nothing_else_to_be_there(on_robot: Any) -> None:
    async def body(bench: Bench) -> None:
        bench.robot.absent = {'bot_1/ask'}
        await bench.driver.connect(only_safe=True)
        await bench.driver.safe()
        bench.robot.absent = {'bot_1/go'}
        with pytest.raises(RobotUnavailableError, match=r'calls.yaml:4: .*go'):
            await bench.driver.connect(only_safe=True)

    on_robot(body)


def test_without_a_link_there_is_no_driver() -> None:
    with pytest.raises(ConfigurationError, match="driver 'ros': expected a link"):
        create_driver(SKILLS, RosOptions(calls_file='nav2'))
