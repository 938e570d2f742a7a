"""A package outside of this one adds a robot, its skill set and a policy without a change here."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import yaml
from support.ros.programs import LIMIT_S, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE = ROOT / 'docs' / 'how_to' / 'robot_package'

FLY = """
import asyncio, sys
from timely_llm_ros import (
    LocalRobotLink, Planner, PlannerConfig, Scene, SegmentExecutor, SimulatedConfig, Task,
    TimeUtility, WallClock, create_driver, create_engine, find_skill_set,
)
from timely_llm_ros.drivers import read_options

def plan(_):
    return 'forward(150);forward(20);'

async def main() -> None:
    clock, skills = WallClock(), find_skill_set('my_rover')
    options = read_options('my_rover', {'host': '127.0.0.1', 'port': int(sys.argv[1])})
    executor = SegmentExecutor(create_driver(skills, options, robot='rover_1'), skills, clock)
    await executor.start()
    planner = Planner(
        engine=create_engine(SimulatedConfig(policy='shortest_segment', plan_text=plan)),
        robots={'rover_1': LocalRobotLink(executor, clock)},
        skill_sets={'my_rover': skills},
        clock=clock,
    )
    await planner.start()
    utility = TimeUtility(expected_response_s=100.0, slope_per_s=-1.0, peak=1.0)
    task = Task('t', 'rover_1', 'my_rover', 'drive', Scene(), utility)
    result = await planner.submit(planner.prepare(task)).result()
    print(result.status.value, result.ending.message)
    await planner.close()
    await executor.close()

asyncio.run(main())
"""


class Rover(socketserver.ThreadingTCPServer):
    """The rover that the package's driver speaks to."""

    daemon_threads = True

    def __init__(self) -> None:
        self.told: queue.Queue[str] = queue.Queue()
        super().__init__(('127.0.0.1', 0), _Lines)

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Lines(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Rover)
        for line in self.rfile:
            number, _, told = line.decode().strip().partition(' ')
            self.server.told.put(told)
            self.wfile.write(f'{number} ok\n'.encode())


@pytest.fixture
def rover() -> Iterator[Rover]:
    with Rover() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope='module')
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the package is installed, in a folder of its own."""
    folder = tmp_path_factory.mktemp('package')
    source, target = folder / 'source', folder / 'installed'
    shutil.copytree(SOURCE, source)
    command = [
        sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '--no-build-isolation',
        '--no-index', '--target', str(target), str(source),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=LIMIT_S)
    return {**os.environ, 'PYTHONPATH': f'{ROOT}{os.pathsep}{target}'}


def test_its_robot_flies_with_its_policy(environment: dict[str, str], rover: Rover) -> None:
    done = subprocess.run(
        [sys.executable, '-c', FLY, str(rover.port)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    assert done.stdout == 'succeeded \n', done.stderr
    told = [rover.told.get_nowait() for _ in range(rover.told.qsize())]
    assert told[:3] == ['halt', 'forward 1.5', 'forward 0.2']


def test_an_executor_drives_its_robot_and_halts_it(
    environment: dict[str, str], rover: Rover, tmp_path: Path
) -> None:
    drivers = tmp_path / 'robots.yaml'
    entry = {'driver': 'my_rover', 'host': '127.0.0.1', 'port': rover.port}
    drivers.write_text(yaml.safe_dump({'rover_1': entry}), encoding='utf-8')
    executor = subprocess.Popen(
        [
            sys.executable, str(ROOT / 'scripts' / 'executor'), '--ros-args',
            '-p', 'robot:=rover_1', '-p', 'skill_set:=my_rover', '-p', f'drivers_file:={drivers}',
        ],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert rover.told.get(timeout=LIMIT_S) == 'halt'
    executor.send_signal(signal.SIGINT)
    _, errors = executor.communicate(timeout=LIMIT_S)
    assert executor.returncode == 0, errors


@pytest.mark.parametrize(
    ('entry', 'reason'),
    [
        ({}, "driver 'my_rover': option 'host': is missing: expected a text"),
        ({'host': 'h', 'port': 0}, 'port 0: expected 1 to 65535'),
        ({'host': 'h', 'wings': 2}, "option 'wings': expected one of host, port"),
    ],
)
def test_its_options_are_checked_as_ours_are(
    environment: dict[str, str], tmp_path: Path, entry: dict[str, object], reason: str
) -> None:
    drivers = tmp_path / 'robots.yaml'
    drivers.write_text(yaml.safe_dump({'r': {'driver': 'my_rover', **entry}}), encoding='utf-8')
    done = subprocess.run(
        [
            sys.executable, str(ROOT / 'scripts' / 'executor'), '--ros-args',
            '-p', 'robot:=r', '-p', 'skill_set:=my_rover', '-p', f'drivers_file:={drivers}',
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 2
    assert reason in done.stderr
