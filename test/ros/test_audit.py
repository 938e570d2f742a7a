"""A planner writes down who asked what, what was generated and executed, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.ros.programs import LIMIT_S, PYTHONPATH, ROOT, wait_for
from timely_llm_ros.action import PlanTask

from timely_llm_ros.audit import verify_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.fleet import Fleet


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def approve(fleet: Fleet, *arguments: str) -> str:
    """Run ``timely-llm approve`` until it says something; return that."""
    command = [sys.executable, str(ROOT / 'scripts' / 'timely-llm'), 'approve', *arguments]
    command += ['--namespace', f'/{fleet.namespace}', '--wait', '20']
    said: list[str] = []

    def has_said() -> bool:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, check=True,
            env=os.environ | {'PYTHONPATH': PYTHONPATH},
        )  # fmt: skip
        said.append(done.stdout)
        return bool(done.stdout)

    wait_for(has_said, 'something to approve')
    return said[-1]


def test_a_planner_writes_down_what_was_asked_and_what_came_of_it(
    start_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    path, access = tmp_path / 'audit.jsonl', tmp_path / 'access.yaml'
    access.write_text('clients: [{name: survey, skill_sets: [tello]}]\n')
    fleet = start_fleet(
        planner={
            'audit_file': str(path),
            'access_file': str(access),
            'approval_above': 'low',
        }
    )
    goal = fleet.plan('takeoff;hover;land;', client='survey')
    key = approve(fleet, 'list').partition(' ')[0]
    assert key.endswith(':0')
    assert approve(fleet, 'yes', key, '--who', 'kim') == f'{key}  approved: drone_1: takeoff;\n'
    assert goal.result()[1].error_code == 0
    wait_for(lambda: records(path)[-1]['what'] == 'ended', 'the end')
    noted = records(path)
    ended = noted[-1]
    stranger = fleet.plan('takeoff;', client='stranger').result()[1]
    assert stranger.error_code == PlanTask.Result.NOT_ALLOWED
    assert "client 'stranger' may not command robot 'drone_1'" in stranger.error_msg
    wait_for(lambda: records(path)[-1]['what'] == 'refused', 'the refusal')
    refused = records(path)[-1]
    assert (refused['client'], refused['message']) == ('stranger', stranger.error_msg)
    fleet.plan('land;', 'drone_9').wait_rejected()
    wait_for(lambda: "'drone_9'" in records(path)[-1].get('message', ''), 'the rejection')
    task = noted[2]['task']
    assert [(one['what'], one.get('task', '')) for one in noted[:4]] == [
        ('planner started', ''), ('engine loaded', ''), ('asked', task), ('accepted', task),
    ]  # fmt: skip
    assert noted[0]['robots'] == {'drone_1': 'tello'}
    assert noted[2]['instruction'] == 'takeoff;hover;land;'
    assert [one['text'] for one in noted if one['what'] == 'generated'] == [
        'takeoff;', 'hover;', 'land;',
    ]  # fmt: skip
    (asked,) = [one for one in noted if one['what'] == 'approval asked']
    assert (asked['risk'], asked['skills'], asked['segment']) == ('medium', ['takeoff'], 0)
    (approved,) = [one for one in noted if one['what'] == 'approved']
    assert (approved['who'], approved['task']) == ('kim', task)
    executed = [one for one in noted if one['what'] == 'executed']
    assert [(one['calls'], one['made'], one['code']) for one in executed] == [
        ('takeoff', 1, 0), ('hover', 1, 0), ('land', 1, 0),
    ]  # fmt: skip
    assert (ended['task'], ended['status']) == (task, 'succeeded')
    assert fleet.planner is not None
    fleet.plan('delay(10000);land;', client='survey')
    fleet.wait_started('delay(10000)')
    fleet.planner.signal(signal.SIGKILL)
    fleet.planner.wait()
    verdict = verify_log(path)
    assert (verdict.tampered, verdict.torn_bytes) == ('', 0)
    assert verdict.lines > len(noted)
