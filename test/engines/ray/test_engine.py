"""The engine ``ray`` on two nodes: its contract, and replicas that die, drain and come."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from support.engines.engine_run import LIMIT_S
from support.engines.ray_runs import ReplicaRun, asking_plan, on_ray, request, simulated

from benchmarks.common import ray_nodes
from timely_llm_ros.cli.main import main as timely_llm
from timely_llm_ros.engines import TorchConfig, VllmConfig, create_engine
from timely_llm_ros.engines.ray import autoscaling, replicas, scale
from timely_llm_ros.engines.ray.cluster import find
from timely_llm_ros.engines.ray.link import Calls
from timely_llm_ros.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip('ray')

# Ray gives a node 30 s to start, which a busy machine may need.
pytestmark = pytest.mark.flaky(reruns=1)

APP = 'timely-llm'
NUMBERS = range(6)


@pytest.fixture(scope='module', autouse=True)
def cluster() -> Iterator[Any]:
    with ray_nodes(2) as made:
        yield made


@pytest.fixture(scope='module')
def undisturbed() -> dict[int, Any]:
    """How the plans go on the simulated engine itself."""

    async def run() -> dict[int, Any]:
        async with ReplicaRun(simulated()) as alone:
            for number in NUMBERS:
                alone.engine.submit(request(number))
            await alone.all_ended(NUMBERS)
            return {number: alone.plan(number) for number in NUMBERS}

    return asyncio.run(run())


def running() -> list[Any]:
    return [one for one in replicas(APP) if one.state == 'RUNNING']


async def test_plans_are_those_without_ray_and_commands_reach_their_replica(
    undisturbed: dict[int, Any],
) -> None:
    async with ReplicaRun(on_ray(simulated()), answers=False) as run:
        await run.servers(2)
        assert (run.info.engine, run.info.warms) == ('ray', True)
        assert not run.info.reschedules
        for number in NUMBERS:
            run.engine.submit(request(number))
        held = [f'g{number}' for number in NUMBERS]
        await run.until(lambda: all(len(run.segments.get(name, ())) >= 3 for name in held))
        # Each waits for its robot's value, on the replica that has it.
        assert all(one.generations == 3 for one in run.replicas)
        run.engine.cancel('g5')
        run.engine.cancel('unknown')
        run.engine.resume('g4')
        await run.until(lambda: 'g5' in run.ended)
        assert run.ended['g5'].reason == 'canceled'
        for number in NUMBERS[:5]:
            run.engine.robot_idle_at(f'g{number}', 1.0)
            run.engine.resume(f'g{number}', 'true')
        await run.all_ended(NUMBERS)
        assert {number: run.plan(number) for number in NUMBERS[:5]} == {
            number: undisturbed[number] for number in NUMBERS[:5]
        }
        with pytest.raises(EngineError, match='expected one call'):
            await run.engine.start(print)
    assert len({one.node_id for one in running()}) == 2


async def test_planners_share_replicas_and_one_that_leaves_takes_nothing_with_it(
    undisturbed: dict[int, Any],
) -> None:
    async with ReplicaRun(on_ray(simulated()), answers=False) as stays:
        async with ReplicaRun(on_ray(simulated()), answers=False) as leaves:
            for run, numbers in ((stays, NUMBERS[:3]), (leaves, NUMBERS[3:])):
                await run.servers(2)
                for number in numbers:
                    run.engine.submit(request(number))
            await stays.until(
                lambda: all(len(stays.segments.get(f'g{n}', ())) >= 3 for n in NUMBERS[:3])
            )
            await leaves.until(
                lambda: all(len(leaves.segments.get(f'g{n}', ())) >= 3 for n in NUMBERS[3:])
            )
            assert sorted(stays.segments) == ['g0', 'g1', 'g2']
            assert sorted(leaves.segments) == ['g3', 'g4', 'g5']
            leaves.engine.resume('g3', 'true')
            await leaves.all_ended([3])
            assert leaves.plan(3) == undisturbed[3]
        # A replica hears of it when its stream is canceled.
        calls = Calls(await asyncio.to_thread(find, APP))
        async with asyncio.timeout(LIMIT_S):
            for one in running():
                while (await calls.call('count', one.name))[0] > 1:
                    pass
        # What it left behind is gone, so that its ids are free again.
        for number in NUMBERS[:3]:
            stays.engine.resume(f'g{number}', 'true')
        stays.answers = True
        for number in NUMBERS[4:]:
            stays.engine.submit(request(number))
        await stays.all_ended([0, 1, 2, 4, 5])
        assert {n: stays.plan(n) for n in (0, 1, 2, 4, 5)} == {
            n: undisturbed[n] for n in (0, 1, 2, 4, 5)
        }


async def test_a_suspended_generation_goes_on_when_it_is_resumed(
    undisturbed: dict[int, Any],
) -> None:
    async with ReplicaRun(on_ray(simulated())) as run:
        run.engine.submit(request(0))
        run.engine.suspend('g0')
        run.engine.submit(request(1))
        await run.all_ended([1])
        assert not run.segments.get('g0')
        run.engine.resume('g0')
        await run.all_ended([0])
        assert run.plan(0) == undisturbed[0]


async def test_an_id_that_is_submitted_again_ends_the_older_one() -> None:
    async with ReplicaRun(on_ray(simulated())) as run:
        ends: list[Any] = []
        run.engine.submit(request(0))
        run.engine.submit(request(0))
        await run.until(lambda: 'g0' in run.ended)
        ends.append(run.ended.pop('g0'))
        await run.until(lambda: 'g0' in run.ended)
        assert [ends[0].error, run.ended['g0'].reason] == ['submitted a second time', 'stop']


async def test_a_replica_that_is_killed_loses_nothing_and_repeats_nothing(
    undisturbed: dict[int, Any],
) -> None:
    async with ReplicaRun(on_ray(simulated()), answers=False) as run:
        await run.servers(2)
        for number in NUMBERS:
            run.engine.submit(request(number))
        await run.until(lambda: all(len(run.segments.get(f'g{n}', ())) >= 3 for n in NUMBERS))
        run.answers = True
        for number in NUMBERS[:3]:
            run.engine.resume(f'g{number}', 'true')
        victim = running()[0]
        os.kill(victim.pid, signal.SIGKILL)
        await run.until(lambda: victim.name not in [one.url for one in run.replicas])
        for number in NUMBERS[3:]:
            run.engine.resume(f'g{number}', 'true')
        await run.all_ended(NUMBERS)
        assert {number: run.plan(number) for number in NUMBERS} == undisturbed
        assert not run.other
        # Serve makes another one.
        await run.servers(2)
        assert victim.name not in [one.name for one in running()]


async def test_a_call_of_a_replica_that_is_gone_ends_and_others_go_on() -> None:
    async with ReplicaRun(on_ray(simulated())) as run:
        await run.servers(2)
        name = running()[0].name
        calls = Calls(await asyncio.to_thread(find, APP))
        for _ in range(3):
            async with asyncio.timeout(LIMIT_S):
                with pytest.raises(EngineError, match='replica nobody: it is gone'):
                    await calls.call('count', 'nobody')
                assert await calls.call('count', name) == (1, 0)


async def test_a_replica_that_drains_finishes_what_it_has(undisturbed: dict[int, Any]) -> None:
    async with ReplicaRun(on_ray(simulated()), answers=False) as run:
        await run.servers(2)
        for number in NUMBERS:
            run.engine.submit(request(number))
        await run.until(lambda: all(len(run.segments.get(f'g{n}', ())) >= 3 for n in NUMBERS))
        await asyncio.to_thread(scale, APP, 1)
        await run.until(lambda: sum(one.well for one in run.replicas) == 1)
        assert sorted(one.generations for one in run.replicas) == [3, 3]
        # Its commands still reach it.
        for number in NUMBERS:
            run.engine.resume(f'g{number}', 'true')
        await run.all_ended(NUMBERS)
        assert {number: run.plan(number) for number in NUMBERS} == undisturbed
        await run.servers(1)
        assert all(one.losses == 0 for one in run.replicas)
        await run.until(lambda: len(replicas(APP)) == 1)
        await asyncio.to_thread(scale, APP, 2)
        await run.servers(2)


async def test_without_a_start_nothing_runs() -> None:
    engine = create_engine(on_ray(simulated()))
    engine.cancel('g0')
    await engine.close()


async def test_the_command_shows_scales_and_drains(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*arguments: str) -> str:
        assert timely_llm(['cluster', *arguments]) == 0
        return capsys.readouterr().out

    async with ReplicaRun(on_ray(simulated())) as run:
        await run.servers(2)
        assert told('status').count('RUNNING') == 2
        assert '3 replicas' in told('scale', '3')
        # One that has no process yet is shown as well.
        async with asyncio.timeout(LIMIT_S):
            while told('status').count('RUNNING') < 3:
                await asyncio.sleep(0)
        await run.servers(3)
        assert '2 replicas' in told('drain')
        await run.servers(2)
    assert timely_llm(['cluster', 'scale', '0']) == 1
    assert '0 replicas: expected at least 1' in capsys.readouterr().err
    assert 'no replicas' in told('--app', 'others', 'status')


async def test_work_brings_another_replica_which_drains_after_it_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = autoscaling.autoscaling

    def impatient(fewest: int, most: int) -> dict[str, Any]:
        reports = {'metrics_interval_s': 0.5, 'look_back_period_s': 2.0}
        return usual(fewest, most) | reports | {'upscale_delay_s': 0.5, 'downscale_delay_s': 3.0}

    monkeypatch.setattr(autoscaling, 'autoscaling', impatient)
    each = simulated(plan_text=asking_plan, decode_s=0.2, max_running=2)
    config = on_ray(each, 'grows', replicas=1, most_replicas=2)
    async with ReplicaRun(config, answers=False) as run:
        await run.servers(1)
        numbers: list[int] = []

        def grown() -> bool:
            """Keep robots waiting until another replica has plans."""
            if sum(f'g{number}' not in run.segments for number in numbers) < 6:
                numbers.append(len(numbers))
                run.engine.submit(request(numbers[-1]))
            return [one.well and one.generations > 0 for one in run.replicas] == [True, True]

        await run.until(grown)
        assert timely_llm(['cluster', '--app', 'grows', 'scale', '1']) == 1
        assert 'their number follows their work' in capsys.readouterr().err
        # Soon each plan waits for its robot, which is no work.
        await run.until(lambda: sum(one.well for one in run.replicas) == 1)
        assert not run.ended
        assert sum(one.generations for one in run.replicas) == len(numbers)
        assert len(run.replicas) == 2, 'one drains'
        for number in numbers:
            run.engine.resume(f'g{number}', 'true')
        await run.all_ended(numbers)
        assert not run.other
        for number in numbers:
            texts = [event.segment.text for event in run.segments[f'g{number}']]
            assert ''.join(texts) == asking_plan(request(number))
            assert run.ended[f'g{number}'].reason == 'stop'
        await run.servers(1)


@pytest.mark.parametrize('kind', [TorchConfig, VllmConfig])
async def test_a_model_writes_on_a_replica_what_it_writes_without_ray(
    kind: type[TorchConfig | VllmConfig],
) -> None:
    pytest.importorskip(kind.name)
    config = kind(max_kv_tokens=4096, max_running=4)
    plans = []
    for made in (config, on_ray(config, kind.name, replicas=1)):
        async with ReplicaRun(made) as run:
            for number in NUMBERS:
                run.engine.submit(request(number))
            await run.all_ended(NUMBERS)
            plans.append([run.plan(number) for number in NUMBERS])
    assert plans[0] == plans[1]
    assert {reason for reason, *_ in plans[0]} == {'stop'}
