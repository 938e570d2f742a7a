"""Who may command which robot: what a file may say, and what a planner then refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.errors import NotAllowedError, RobotUnavailableError, SkillSetError
from timely_llm_ros.planner.permission import AllowList, Grant, read_allow_list
from timely_llm_ros.testing import Fleet, in_fleet

if TYPE_CHECKING:
    from pathlib import Path

ROBOTS = {'drone_1': 'tello', 'drone_2': 'tello', 'arm_1': 'arm'}

FILE = """\
clients:
  - {name: "dispatcher, day", robots: all}
  - {name: survey, skill_sets: [tello]}
  - name: trainee
    robots: [drone_2, arm_1]
    skill_sets: [arm]
anyone: {robots: [drone_1]}
"""


def read(tmp_path: Path, text: str) -> AllowList:
    path = tmp_path / 'access.yaml'
    path.write_text(text, encoding='utf-8')
    return read_allow_list(path, ROBOTS)


def test_a_file_says_who_may_command_what(tmp_path: Path) -> None:
    found = read(tmp_path, FILE)
    assert found.anyone is not None
    may = {
        client: [
            robot
            for robot, skill_set in ROBOTS.items()
            if grant.covers(robot, skill_set) or found.anyone.covers(robot, skill_set)
        ]
        for client, grant in found.clients.items()
    }
    assert may == {
        'dispatcher, day': ['drone_1', 'drone_2', 'arm_1'],
        'survey': ['drone_1', 'drone_2'],
        'trainee': ['drone_1', 'arm_1'],
    }


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', r'access.yaml:1: file: nothing: expected keys with values'),
        ('people: {}', r'access.yaml:1: people: unknown key: expected one of clients, anyone'),
        ('anyone: {}', r'access.yaml:1: anyone: nothing: expected robots or skill_sets'),
        ('clients:\n  - {robots: all}', r'access.yaml:2: clients\[0\].name: missing'),
        ('clients:\n  - {name: a}', r'access.yaml:2: clients\[0\]: nothing: expected robots'),
        (
            'clients:\n  - {name: a, robots: all}\n  - {name: a, robots: all}',
            r"access.yaml:3: clients\[1\].name: 'a' given twice",
        ),
        (
            'anyone:\n  robots: [drone_1, dron_2]',
            r"access.yaml:2: anyone.robots\[1\]: 'dron_2': expected one of drone_1, drone_2, arm_1",
        ),
        ('anyone: {robots: each}', r"access.yaml:1: anyone.robots: 'each': expected one of all"),
        ('anyone: {robots: []}', r'access.yaml:1: anyone.robots: 0 values: expected 1 to 1000'),
    ],
)
def test_a_file_with_a_mistake_is_refused_by_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(SkillSetError, match=message):
        read(tmp_path, text)


def test_a_planner_refuses_whoever_may_not() -> None:
    allows = AllowList('access.yaml', {'mine': Grant(robots=frozenset({'r1'}))})

    async def body(fleet: Fleet) -> None:
        wanted = fleet.task('a', 'r1', instruction='1', client='mine')
        assert (await fleet.submit(wanted).result()).ending.succeeded
        nameless = replace(wanted, task_id='b', client='')
        with pytest.raises(NotAllowedError, match=r"nameless client .*'r1'.*client that is listed"):
            fleet.planner.prepare(nameless)
        with pytest.raises(NotAllowedError, match=r"'mine' may not .*'r2'.*expected robots r1"):
            fleet.planner.prepare(replace(wanted, task_id='c', robot='r2'))

    in_fleet(body, allows=allows)


def test_a_planner_that_chooses_takes_only_a_robot_that_its_client_may_command() -> None:
    allows = AllowList('access.yaml', {'mine': Grant(robots=frozenset({'r2'}))})

    async def body(fleet: Fleet) -> None:
        either = fleet.task('a', 'r1', client='mine', alternatives=(('r2', 'exact'),))
        assert fleet.planner.choose(either).robot == 'r2'
        with pytest.raises(NotAllowedError, match='no robot can take it'):
            fleet.planner.choose(replace(either, client='another'))
        del fleet.links['r2']
        with pytest.raises(RobotUnavailableError, match='may not command'):
            fleet.planner.choose(either)

    in_fleet(body, allows=allows)
