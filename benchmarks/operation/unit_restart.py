"""A planner as its systemd unit starts it: serves a goal, is killed, is started again, serves."""

from __future__ import annotations

import asyncio
import configparser
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common import Target, arguments, save
from timely_llm_ros.demo import Children, find_program, node_command
from timely_llm_ros.testing import free_domain

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / 'config' / 'systemd' / 'timely-planner.service'
PARAMETERS = '/etc/timely_llm_ros/planner.yaml'
LIMIT_S = 60.0


def main() -> int:
    """Run it, print and save; return the exit code."""
    options = arguments(__doc__).parse_args()
    os.environ['ROS_DOMAIN_ID'] = str(free_domain())
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(restart(Path(folder)))
    for name, value in figures.items():
        print(f'{name:<24} {value}')
    targets = [
        Target('goals served before the kill', figures['served_before'], '>=', 1),
        Target('goals served after the restart', figures['served_after'], '>=', 1),
        Target('from the kill to the next result (s)', figures['back_s'], '<=', 30.0),
        Target('exit code after SIGINT', figures['exit_code'], '<=', 0),
    ]
    save('unit_restart', figures, targets, path=options.json)
    return 0 if all(target.ok for target in targets) else 1


async def restart(folder: Path) -> dict[str, Any]:
    """Serve, kill, start again, serve; return what was seen."""
    service = configparser.ConfigParser(interpolation=None, strict=False)
    service.read(UNIT, encoding='utf-8')
    words = shlex.split(service['Service']['ExecStart'])
    pause_s = float(service['Service']['RestartSec'])
    config = yaml.safe_load((ROOT / 'config' / 'planner.yaml').read_text(encoding='utf-8'))
    config['/**/planner']['ros__parameters'] |= {'engine': 'simulated'}
    parameters = folder / 'planner.yaml'
    parameters.write_text(yaml.safe_dump(config), encoding='utf-8')
    rest = [str(parameters) if word == PARAMETERS else word for word in words[1:]]
    command = [*find_program(Path(words[0]).name), *rest]
    children = Children(folder)
    given = {'robot': 'drone_1', 'skill_set': 'tello', 'time_scale': 0.02}
    children.start('executor', node_command('executor', given))
    try:
        planner = children.start('planner', command)
        before = await served()
        planner.expected_to_end = True
        planner.process.kill()
        planner.process.wait()
        killed_s = time.monotonic()
        # What Restart=always and RestartSec do.
        await asyncio.sleep(pause_s)
        planner = children.start('planner', command)
        after = await served()
        back_s = time.monotonic() - killed_s
        planner.expected_to_end = True
        planner.process.send_signal(signal.SIGINT)
        code = planner.process.wait(LIMIT_S)
    finally:
        await children.stop_all()
    return {
        'served_before': before,
        'served_after': after,
        'back_s': round(back_s, 2),
        'exit_code': abs(code),
    }


async def served() -> int:
    """Return 1 as soon as a goal is served, 0 if none is in time."""
    end_s = time.monotonic() + LIMIT_S
    command = [*find_program('timely-llm'), 'plan', 'drone_1', 'delay(100);']
    while time.monotonic() < end_s:
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, check=False, timeout=LIMIT_S
        )
        if done.returncode == 0:
            return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
