"""The file of a fleet: what it starts, what it refuses, and its JSON schema."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

from timely_llm_ros.cli.main import main
from timely_llm_ros.cli.operation import fleet_command
from timely_llm_ros.cli.operation.fleet_command import _Follower
from timely_llm_ros.cli.operation.fleet_file import (
    fleet_schema,
    parse_fleet,
    programs_of,
    read_fleet_file,
)
from timely_llm_ros.cli.operation.log_lines import json_line
from timely_llm_ros.cli.operation.security_policy import fleet_profiles
from timely_llm_ros.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / 'config' / 'fleet_file.yaml'
TASK = '0b5e7c1e-8c55-4d38-9d9a-3a4b5c6d7e8f'


def test_the_committed_schema_is_this_one() -> None:
    text = (ROOT / 'config' / 'schemas' / 'fleet.json').read_text(encoding='utf-8')
    assert json.loads(text) == fleet_schema(), 'write it anew: timely-llm fleet --schema'
    jsonschema.Draft202012Validator.check_schema(fleet_schema())


def test_the_shipped_example_starts_every_program_with_a_port_of_its_own() -> None:
    jsonschema.validate(yaml.safe_load(EXAMPLE.read_text(encoding='utf-8')), fleet_schema())
    programs = programs_of(read_fleet_file(EXAMPLE))
    assert [one.name for one in programs] == [
        'recorder',
        'drone_1_executor',
        'drone_2_executor',
        'arm_1_executor',
        'window',
        'planner',
    ]
    ports = {one.name: one.parameters.get('metrics_port') for one in programs}
    assert ports == {
        'planner': 9401,
        'recorder': 9402,
        'drone_1_executor': 9410,
        'drone_2_executor': 9411,
        'arm_1_executor': 9412,
        'window': None,
    }


def test_tellos_share_an_executor() -> None:
    fleet = parse_fleet(
        {'robots': {'a': 'tello', 'b': 'tello'}, 'executor': {'driver': 'tello'}}, ''
    )
    (executor,) = [one for one in programs_of(fleet) if one.program == 'executor']
    assert executor.parameters['robots'] == ['a:tello', 'b:tello']


def test_a_whole_number_will_do_where_a_parameter_is_a_double() -> None:
    fleet = parse_fleet({'robots': {'a': 'tello'}, 'planner': {'robot_timeout_s': 2}}, '')
    assert fleet.planner == {'robot_timeout_s': 2.0}
    assert isinstance(fleet.planner['robot_timeout_s'], float)


@pytest.mark.parametrize(
    ('content', 'named'),
    [
        ([], 'robots'),
        ({}, 'robots'),
        ({'robots': {}}, 'robots'),
        ({'robots': {'a': 1}}, 'skill set'),
        ({'robots': {'a': 'tello'}, 'speed': 1}, 'speed'),
        ({'robots': {'a': 'tello'}, 'together': 'yes'}, 'together'),
        ({'robots': {'a': 'tello'}, 'planner': {'polcy': 'edf'}}, 'polcy'),
        ({'robots': {'a': 'tello'}, 'planner': {'policy': 'magic'}}, 'policy'),
        ({'robots': {'a': 'tello'}, 'planner': {'robots': []}}, 'robots'),
        ({'robots': {'a': 'tello'}, 'window': {'port': -1}}, 'port'),
    ],
)
def test_what_cannot_be_used_is_named_and_the_schema_refuses_it_too(
    content: Any, named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        parse_fleet(content, 'fleet.yaml')
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, fleet_schema())


def test_a_log_line_becomes_json_with_the_tasks_that_it_names() -> None:
    line = f'[WARN] [1764000000.250000000] [site.planner]: task {TASK} said "no"\n'
    assert json.loads(json_line(line, 'planner')) == {
        'program': 'planner',
        'time': 1764000000.25,
        'severity': 'WARN',
        'node': 'site.planner',
        'message': f'task {TASK} said "no"',
        'tasks': [TASK],
    }


def test_a_line_of_a_traceback_is_kept_as_it_is() -> None:
    assert json.loads(json_line('  File "a.py", line 1')) == {'message': '  File "a.py", line 1'}


def test_the_shipped_policy_is_that_of_the_shipped_fleet(tmp_path: Path) -> None:
    written = tmp_path / 'policy.xml'
    assert main(['security', 'init', str(EXAMPLE), '-o', str(written)]) == 0
    shipped = (ROOT / 'config' / 'sros2' / 'policy.xml').read_text(encoding='utf-8')
    assert written.read_text(encoding='utf-8') == shipped
    assert main(['security', 'init', str(EXAMPLE), '-o', str(written)]) != 0


def test_only_the_planner_may_send_segments_and_only_executors_take_them() -> None:
    policy = ElementTree.parse(ROOT / 'config' / 'sros2' / 'policy.xml')
    found: dict[str, set[str]] = {'call': set(), 'execute': set()}
    for enclave in policy.iter('enclave'):
        for actions in enclave.iter('actions'):
            for right, who in found.items():
                names = [name.text or '' for name in actions.iter('action')]
                if actions.get(right) and any(n.endswith('execute_segment') for n in names):
                    who.add(enclave.get('path', ''))
    executors = {'/drone_1_executor', '/drone_2_executor', '/arm_1_executor'}
    assert found == {'call': {'/planner'}, 'execute': executors}


@pytest.mark.parametrize(
    ('content', 'named'),
    [
        ({'robots': {'Drone-1': 'tello'}}, 'Drone-1'),
        ({'robots': {'drone_1': 'telo'}}, 'telo'),
        ({'robots': {'drone_1': 'tello'}, 'namespace': 'a/b'}, 'a/b'),
    ],
)
def test_names_that_no_program_could_use_are_refused_before_any_starts(
    content: Any, named: str
) -> None:
    with pytest.raises(ConfigurationError, match=f'fleet.yaml: .*{named}'):
        parse_fleet(content, 'fleet.yaml')


def shared(**more: Any) -> dict[str, Any]:
    robots = dict.fromkeys(('a', 'b', 'c'), 'tello')
    return {'robots': robots, 'shares': {'north': ['a', 'c'], 'south': ['b']}, **more}


def test_each_share_is_a_fleet_in_a_namespace_of_its_own() -> None:
    content = shared(
        namespace='site',
        metrics_port=9401,
        planner={'audit_file': '{share}.jsonl'},
        recorder={'output': 'trace_{share}'},
        window={'port': 8095},
    )
    jsonschema.validate(content, fleet_schema())
    programs = {one.title: one for one in programs_of(parse_fleet(content, ''))}
    assert list(programs) == [
        'north.recorder', 'north.a_executor', 'north.c_executor', 'north.window', 'north.planner',
        'south.recorder', 'south.b_executor', 'south.window', 'south.planner',
    ]  # fmt: skip
    north, south = programs['north.planner'], programs['south.planner']
    assert (north.namespace, south.namespace) == ('site/north', 'site/south')
    assert north.parameters['robots'] == ['a:tello', 'c:tello']
    assert south.parameters['audit_file'] == 'south.jsonl'
    assert programs['south.recorder'].parameters['output'] == 'trace_south'
    assert programs['south.window'].parameters['port'] == 8096
    ports = [one.parameters['metrics_port'] for one in programs.values() if one.program != 'window']
    assert len(set(ports)) == len(ports)
    names = [profile.enclave for profile in fleet_profiles(parse_fleet(content, ''))]
    assert len(set(names)) == len(names)
    assert '/site/south/planner' in names


@pytest.mark.parametrize(
    ('content', 'named'),
    [
        (shared(shares={'north': ['a', 'b', 'c'], 'south': ['c']}), 'c'),
        (shared(shares={'north': ['a', 'b']}), 'c'),
        (shared(shares={'north': ['a', 'b', 'c', 'd']}), 'd'),
        (shared(shares={'north': ['a', 'b', 'c'], 'south': []}), 'south'),
        (shared(shares={'north': 'abc'}), 'abc'),
        (shared(shares={'no/rth': ['a', 'b', 'c']}), 'no/rth'),
        (shared(recorder={'output': 'trace'}), 'output'),
        (shared(recorder={}), 'output'),
        (shared(planner={'audit_file': 'all.jsonl'}), 'audit_file'),
        (shared(planner={'background_prompts': 'all.jsonl'}), 'background_prompts'),
        (shared(planner={'background_answers': 'all.jsonl'}), 'background_answers'),
        (shared(executor={'driver': 'tello'}), 'Tellos'),
        (shared(metrics_port=65400), 'metrics_port'),
    ],
)
def test_shares_that_get_into_each_others_way_are_refused(content: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=f'fleet.yaml: .*{named}'):
        parse_fleet(content, 'fleet.yaml')


def test_of_a_log_only_what_comes_is_shown(tmp_path: Path) -> None:
    log, shown = tmp_path / 'planner.log', []
    log.write_text('of an earlier run\n', encoding='utf-8')
    follower = _Follower('planner', log, lambda *told: shown.append(told))
    with log.open('a', encoding='utf-8') as program:
        for text in ('one\ntw', 'o\nth'):
            program.write(text)
            program.flush()
            follower.follow()
    assert shown == [('planner', 'one'), ('planner', 'two')]
    follower.close()
    assert shown[2:] == [('planner', 'th')]


@pytest.mark.parametrize(
    ('code', 'ran_s', 'again'),
    [(-9, 0.0, True), (1, 100.0, True), (1, 0.0, False), (2, 100.0, False), (0, 100.0, False)],
    ids=['killed', 'failed', 'failed at once', 'cannot start', 'ended'],
)
def test_a_planner_that_cannot_start_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch, code: int, ran_s: float, again: bool
) -> None:
    clock = SimpleNamespace(s=100.0)
    monkeypatch.setattr(fleet_command, 'time', SimpleNamespace(monotonic=lambda: clock.s))
    (planner,) = (it for it in programs_of(read_fleet_file(EXAMPLE)) if it.program == 'planner')
    running = fleet_command._Running(planner, MagicMock())
    clock.s += ran_s
    assert running.may_live_again(code) == again


def test_windows_of_shares_count_on_from_the_default_port_too() -> None:
    programs = programs_of(parse_fleet(shared(window={}), ''))
    ports = [one.parameters['port'] for one in programs if one.program == 'window']
    assert ports == [8095, 8096]
