"""A planner as systemd starts it: serves, is killed, is started again and serves."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import yaml
from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT
from support.ros.ros_client import SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.fleet import Fleet

UNIT = ROOT / 'config' / 'systemd' / 'timely-planner.service'


def command_of(unit: Path, parameters: Path, namespace: str) -> list[str]:
    """Return the unit's command, with the program of this tree and a file of its parameters."""
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.read(unit, encoding='utf-8')
    words = shlex.split(found['Service']['ExecStart'])
    assert words[0] == '/opt/timely/lib/timely_llm_ros/planner'
    assert words.count('/etc/timely_llm_ros/planner.yaml') == 1
    words[words.index('/etc/timely_llm_ros/planner.yaml')] = str(parameters)
    program = [sys.executable, str(ROOT / 'scripts' / 'planner')]
    return [*program, *words[1:], '-r', f'__ns:=/{namespace}']


def test_a_planner_that_is_killed_is_back_with_its_next_start(
    start_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    fleet = start_fleet(start_planner=False)
    config = yaml.safe_load((ROOT / 'config' / 'planner.yaml').read_text(encoding='utf-8'))
    config['/**/planner']['ros__parameters'] |= {'engine': 'simulated', 'robot_timeout_s': 4.0}
    parameters = tmp_path / 'planner.yaml'
    parameters.write_text(yaml.safe_dump(config), encoding='utf-8')
    command = command_of(UNIT, parameters, fleet.namespace)

    def start() -> subprocess.Popen[bytes]:
        # A service has next to nothing of its starter's environment; DDS needs its domain.
        kept = ('PATH', 'HOME', 'ROS_DOMAIN_ID', 'ROS_AUTOMATIC_DISCOVERY_RANGE', 'LD_LIBRARY_PATH')
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment['PYTHONPATH'] = PYTHONPATH
        log = (tmp_path / 'log').open('ab')
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    process = start()
    try:
        fleet.wait_planning()
        assert fleet.plan('delay(100);').result()[0] == SUCCEEDED
        process.kill()
        assert process.wait(LIMIT_S) == -signal.SIGKILL
        fleet.forget_planner()
        # What Restart=always does.
        process = start()
        fleet.wait_planning()
        fleet.wait_answering()
        assert fleet.plan('delay(200);').result()[0] == SUCCEEDED
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(LIMIT_S)
    assert code == 0
