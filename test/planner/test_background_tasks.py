"""The planner's background: what it makes, how it ends, what it leaves to robots."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from timely_llm_ros.clock import LoopClock
from timely_llm_ros.drivers import SimulatedDriver
from timely_llm_ros.engines.engine import EngineFailed, EngineReady, GenerationEnded
from timely_llm_ros.engines.simulated.config import SimulatedConfig
from timely_llm_ros.engines.simulated.engine import SimulatedEngine
from timely_llm_ros.errors import (
    EngineError,
    InvalidTaskError,
    PlanError,
    ShutdownError,
    TaskCanceledError,
)
from timely_llm_ros.execution import LocalRobotLink, SegmentExecutor
from timely_llm_ros.planner import BackgroundTask, Task
from timely_llm_ros.planner.planner import Planner
from timely_llm_ros.planner.prompts.background_file import BackgroundFile
from timely_llm_ros.testing import EXACT_SCENE, EXACT_SKILLS, ScriptedEngine
from timely_llm_ros.utility import URGENT
from timely_llm_ros.virtual_time import run_virtual

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.engine import Engine


def plan_of(request: GenerationRequest) -> str:
    return 'act(100);' * 20 if request.background else 'act(500);act(500);'


async def planner_on(engine: Engine) -> Planner:
    clock = LoopClock()
    executor = SegmentExecutor(SimulatedDriver(EXACT_SKILLS, clock=clock), EXACT_SKILLS, clock)
    await executor.start()
    link = LocalRobotLink(executor, clock)
    return Planner(
        engine=engine, robots={'r': link}, skill_sets={'exact': EXACT_SKILLS}, clock=clock
    )


def offline(name: str, **values: Any) -> BackgroundTask:
    return BackgroundTask(name, 'exact', 'do it', EXACT_SCENE, **values)


def test_plans_come_and_robots_hardly_notice() -> None:
    async def response_s(background: int) -> tuple[float, list[int]]:
        planner = await planner_on(SimulatedEngine(SimulatedConfig(plan_text=plan_of)))
        await planner.start()
        handles = [planner.generate(offline(f'b{number}')) for number in range(background)]
        await asyncio.sleep(1.0)
        task = Task('t', 'r', 'exact', 'go', EXACT_SCENE, URGENT)
        result = await planner.submit(planner.prepare(task)).result()
        plans = [await handle.result() for handle in handles]
        await planner.close()
        assert result.response_s is not None
        assert all(plan.text == 'act(100);' * 20 and plan.ending.succeeded for plan in plans)
        assert all(plan.tokens > 20 and plan.generation_s > 0 for plan in plans)
        return result.response_s, [plan.ending.code for plan in plans]

    alone, _ = run_virtual(response_s(0))
    beside, codes = run_virtual(response_s(100))
    assert codes == [0] * 100
    # A step of 16 of the simulated engine takes 28 ms.
    assert beside <= alone + 0.03


def test_what_is_wrong_is_said() -> None:
    async def run() -> None:
        planner = await planner_on(SimulatedEngine(SimulatedConfig(plan_text=plan_of)))
        with pytest.raises(ShutdownError):
            planner.generate(offline('early'))
        await planner.start()
        with pytest.raises(InvalidTaskError, match='none_such'):
            planner.generate(BackgroundTask('b', 'none_such', 'do it'))
        first = planner.generate(offline('b'))
        with pytest.raises(InvalidTaskError, match='not in use'):
            planner.generate(offline('b'))
        short = planner.generate(offline('short', max_tokens=3))
        assert (await short.result()).ending.code == PlanError.code
        assert (await first.result()).ending.code == 0
        await planner.close()

    with pytest.raises(InvalidTaskError):
        offline('')
    with pytest.raises(InvalidTaskError):
        offline('b', max_tokens=0)
    run_virtual(run())


def test_cancel_and_close_end_everything_once() -> None:
    async def run() -> None:
        planner = await planner_on(SimulatedEngine(SimulatedConfig(plan_text=plan_of)))
        await planner.start()
        handles = [planner.generate(offline(f'b{number}')) for number in range(60)]
        await asyncio.sleep(0.1)
        for handle in (handles[0], handles[59]):
            handle.cancel()
            handle.cancel()
            assert (await handle.result()).ending.code == TaskCanceledError.code
        await planner.close()
        codes = {(await handle.result()).ending.code for handle in handles}
        assert codes == {TaskCanceledError.code, ShutdownError.code}

    run_virtual(run())


class BrokenEngine(ScriptedEngine):
    """Takes generations and breaks down when told to."""

    def begin(self, request: GenerationRequest) -> None:
        self.requests.append(request)

    def stop(self, generation_id: str) -> None:
        self.canceled.append(generation_id)

    def break_down(self) -> None:
        lost = [request.generation_id for request in self.requests]
        self.requests.clear()
        self.emit(EngineFailed('gone'))
        for name in lost:
            self.emit(GenerationEnded(name, 'error', 'gone', 0, 0.0))
        self.emit(EngineReady(self.INFO))

    def finish(self) -> None:
        for request in tuple(self.requests):
            self.emit(GenerationEnded(request.generation_id, 'stop', '', 5, 0.1))


def test_an_engine_that_breaks_down_gets_a_task_twice_and_no_more() -> None:
    async def run() -> None:
        engine = BrokenEngine(lambda _: pytest.fail('not used'))
        planner = await planner_on(engine)
        await planner.start()
        handles = [planner.generate(offline(f'b{number}')) for number in range(40)]
        assert len(engine.requests) == 32
        engine.break_down()
        # Those that were lost go first again.
        assert [r.generation_id for r in engine.requests] == [f'background/b{n}' for n in range(32)]
        engine.break_down()
        assert [r.generation_id for r in engine.requests] == [
            f'background/b{n}' for n in range(32, 40)
        ]
        engine.finish()
        codes = [(await handle.result()).ending.code for handle in handles]
        assert codes == [EngineError.code] * 32 + [0] * 8
        await planner.close()

    run_virtual(run())


def test_a_file_is_worked_off_and_gone_on_with(tmp_path: Path) -> None:
    prompts, answers = tmp_path / 'prompts.jsonl', tmp_path / 'answers.jsonl'
    lines = [{'id': f'p{n}', 'skill_set': 'exact', 'instruction': 'go'} for n in range(100)]
    prompts.write_text('\n'.join(map(json.dumps, lines)))

    async def work(seconds: float) -> None:
        planner = await planner_on(SimulatedEngine(SimulatedConfig(plan_text=plan_of)))
        await planner.start()
        file = BackgroundFile(prompts, answers)
        running = asyncio.create_task(file.run(planner))
        await asyncio.wait([running], timeout=seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await planner.close()

    run_virtual(work(20.0))
    ids = [json.loads(line)['id'] for line in answers.read_text().splitlines()]
    assert 0 < len(ids) < 100
    run_virtual(work(10_000.0))
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    assert sorted(one['id'] for one in found) == sorted(one['id'] for one in lines)
    assert all(one['text'] == 'act(100);' * 20 for one in found)
