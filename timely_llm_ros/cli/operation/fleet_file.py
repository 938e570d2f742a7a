"""The file that ``timely-llm fleet`` starts a fleet from, and its JSON schema for editors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import yaml

from lrtrace.record import RecorderParameters
from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.nodes.executor import ExecutorParameters
from timely_llm_ros.nodes.planner import PlannerParameters
from timely_llm_ros.nodes.window import WindowParameters
from timely_llm_ros.ros import check, declarations, robot_entries
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.window import WindowOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from timely_llm_ros.options import Option

SCHEMA_VERSION = 'https://json-schema.org/draft/2020-12/schema'

_NAMESPACE = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)?')

METRICS_OF = {'planner': 0, 'recorder': 1, 'executor': 9}
"""What is added to ``metrics_port`` for the programs; executors count on from theirs."""

PORTS_OF_SHARE = 100
"""Ports of one share: those of the next one begin so many later."""

GIVEN = {
    'planner': {'robots', 'metrics_port'},
    'executor': {'robot', 'skill_set', 'robots', 'metrics_port'},
    'recorder': {'robots', 'metrics_port'},
    'window': {'robots'},
}
"""Parameters of each program that follow from the rest of the file."""

RECORDS: Mapping[str, type[Any]] = {
    'planner': PlannerParameters,
    'executor': ExecutorParameters,
    'recorder': RecorderParameters,
    'window': WindowParameters,
}

TEXTS = {
    'robots': 'Skill set of each robot: the name of a shipped one or a path.',
    'namespace': 'Namespace of the fleet, without slashes; empty for none.',
    'together': 'Whether one executor moves all robots. Tellos always share one.',
    'metrics_port': 'First port for Prometheus: that of the planner. The recorder has the next '
    'one, executors have those from the ninth after it on; 0 for none.',
    'shares': 'Robots of each of several planners, by the name of their share; each robot is in '
    "one. A share's programs are in the namespace NAMESPACE/SHARE; in their texts {share} stands "
    'for its name. Without this key one planner has all robots.',
    'planner': "The planner's parameters.",
    'executor': "The executors' parameters.",
    'recorder': "The recorder's parameters; without this key nothing is recorded.",
    'window': "The window's parameters; without this key there is no window.",
}
"""What the keys of the file mean."""

_JSON_TYPES: Mapping[type[Any], Any] = {
    bool: 'boolean',
    int: 'integer',
    float: 'number',
    str: 'string',
    tuple: 'array',
}


@dataclass(frozen=True, slots=True)
class FleetFile:
    """What a fleet consists of. The values of programs are ROS parameters, by name."""

    robots: dict[str, str]
    namespace: str = ''
    together: bool = False
    metrics_port: int = 0
    shares: dict[str, list[str]] = field(default_factory=dict)
    planner: dict[str, Any] = field(default_factory=dict)
    executor: dict[str, Any] = field(default_factory=dict)
    recorder: dict[str, Any] | None = None
    window: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FleetProgram:
    """One program of a fleet, with the name of its node, its namespace and its parameters."""

    program: str
    name: str
    parameters: dict[str, Any]
    namespace: str = ''

    @property
    def title(self) -> str:
        """Its name among all programs of the fleet, for people and log files."""
        share = self.namespace.partition('/')[2]
        return f'{share}.{self.name}' if share else self.name


def read_fleet_file(path: Path) -> FleetFile:
    """Read a fleet from YAML.

    Raises:
        ConfigurationError: It cannot be read, or a key or a value cannot be used.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding='utf-8'))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as err:
        problem = ' '.join(str(getattr(err, 'strerror', None) or err).split())
        raise ConfigurationError(f'{path}: {problem}: expected a YAML file') from err
    return parse_fleet(content, str(path))


def parse_fleet(content: object, source: str) -> FleetFile:
    """Make a fleet of what a file says; ``source`` is what errors call it.

    Raises:
        ConfigurationError: A key or a value cannot be used.
    """
    keys = {item.name: item for item in fields(FleetFile)}
    if not isinstance(content, dict) or 'robots' not in content:
        raise ConfigurationError(f'{source}: expected a mapping with the key robots')
    given: dict[str, Any] = {}
    for key, value in content.items():
        if key not in keys:
            raise ConfigurationError(f'{source}: {key!r}: expected one of {", ".join(keys)}')
        kind = str(keys[key].type).split('[')[0]
        if not _fits(kind, value):
            raise ConfigurationError(f'{source}: {key}: {value!r}: expected a {kind}')
        if key == 'shares':
            given[key] = value or {}
        elif key in RECORDS:
            given[key] = _parameters(key, value or {}, f'{source}: {key}')
        else:
            given[key] = value
    fleet = FleetFile(**given)
    if not fleet.robots:
        raise ConfigurationError(f'{source}: robots: expected at least one')
    for robot, skill_set in fleet.robots.items():
        if not (isinstance(robot, str) and isinstance(skill_set, str) and robot and skill_set):
            raise ConfigurationError(
                f'{source}: robots: {robot!r}: {skill_set!r}: expected the name of a skill set'
            )
    try:
        for entry in robot_entries(tuple(f'{one}:{skill}' for one, skill in fleet.robots.items())):
            find_skill_set(entry.skill_set)
    except TimelyError as err:
        raise ConfigurationError(f'{source}: robots: {err}') from err
    if not _NAMESPACE.fullmatch(fleet.namespace):
        raise ConfigurationError(
            f'{source}: namespace: {fleet.namespace!r}: expected letters, digits and underscores'
        )
    _check_shares(fleet, source)
    ports = METRICS_OF['executor'] + len(fleet.robots) + PORTS_OF_SHARE * len(fleet.shares)
    if not 0 <= fleet.metrics_port < 65536 - ports:
        raise ConfigurationError(f'{source}: metrics_port: {fleet.metrics_port}: expected a port')
    return fleet


def _check_shares(fleet: FleetFile, source: str) -> None:
    """Require that each robot is in one share, and that shares do not get into each other's way.

    Raises:
        ConfigurationError: It is otherwise.
    """
    if not fleet.shares:
        return
    source = f'{source}: shares'
    shared: list[object] = []
    for share, robots in fleet.shares.items():
        if not (isinstance(share, str) and share and _NAMESPACE.fullmatch(share)):
            raise ConfigurationError(f'{source}: {share!r}: expected the name of a namespace')
        if not (isinstance(robots, list) and robots):
            raise ConfigurationError(f'{source}: {share}: {robots!r}: expected a list of robots')
        shared += robots
        if fleet.metrics_port and len(robots) > PORTS_OF_SHARE - METRICS_OF['executor']:
            raise ConfigurationError(f'{source}: {share}: {len(robots)} robots: expected fewer')
    for robot in {*map(str, shared), *fleet.robots}:
        count = shared.count(robot)
        if robot not in fleet.robots or count != 1:
            raise ConfigurationError(
                f'{source}: robot {robot!r} is in {count} of them: expected each robot of the '
                'fleet in one'
            )
    if len(fleet.shares) > 1:
        if fleet.executor.get('driver') == 'tello':
            raise ConfigurationError(f'{source}: driver tello: expected all Tellos in one share')
        for program, name in (
            ('recorder', 'output'),
            ('planner', 'audit_file'),
            ('planner', 'background_prompts'),
            ('planner', 'background_answers'),
        ):
            value = (getattr(fleet, program) or {}).get(name, '')
            wanted = fleet.recorder is not None and program == 'recorder'
            if '{share}' not in str(value) and (value or wanted):
                raise ConfigurationError(
                    f'{source}: {program}: {name} {value!r}: expected {{share}} in it, so that '
                    'each share has its own'
                )


def shares_of(fleet: FleetFile) -> list[FleetFile]:
    """Return a fleet of its own for each share; the whole fleet where there are no shares."""
    if not fleet.shares:
        return [fleet]

    def own(values: dict[str, Any] | None, share: str) -> dict[str, Any]:
        return {
            name: value.replace('{share}', share) if isinstance(value, str) else value
            for name, value in (values or {}).items()
        }

    found = []
    for number, (share, robots) in enumerate(fleet.shares.items()):
        window = own(fleet.window, share)
        port = window.get('port', WindowOptions().port)
        if port:
            window['port'] = port + number
        first = fleet.metrics_port and fleet.metrics_port + PORTS_OF_SHARE * number
        made = replace(
            fleet,
            robots={robot: fleet.robots[robot] for robot in robots},
            namespace=f'{fleet.namespace}/{share}',
            metrics_port=first,
            shares={},
            planner=own(fleet.planner, share),
            executor=own(fleet.executor, share),
            recorder=None if fleet.recorder is None else own(fleet.recorder, share),
            window=None if fleet.window is None else window,
        )
        found.append(made)
    return found


def _fits(kind: str, value: object) -> bool:
    if kind == 'dict':
        return value is None or isinstance(value, dict)
    return type(value).__name__ == kind


def _parameters(program: str, values: dict[str, Any], source: str) -> dict[str, Any]:
    known, found = declarations(RECORDS[program]), {}
    for name, given in values.items():
        value = given
        if name not in known or name in GIVEN[program]:
            raise ConfigurationError(f'{source}: {name!r}: expected the name of a parameter')
        if isinstance(known[name].default, float) and type(value) is int:
            value = float(value)
        try:
            check(RECORDS[program], name, value)
        except ConfigurationError as err:
            raise ConfigurationError(f'{source}: {err}') from err
        found[name] = value
    return found


def executor_groups(robots: Sequence[str], driver: str, *, together: bool) -> list[list[str]]:
    """Return which robots share an executor's process, as lists of "name:skill_set" entries.

    Each has one of its own unless they are to be ``together``. Tellos always share one: the two UDP
    ports of their SDK belong to one program. ``launch/fleet.launch.py`` groups them the same way.
    """
    if together or driver == 'tello':
        return [list(robots)]
    return [[entry] for entry in robots]


def programs_of(fleet: FleetFile) -> list[FleetProgram]:
    """Return the programs of a fleet in the order in which they are started.

    Of each share the planner is the last.
    """
    if fleet.shares:
        return [one for share in shares_of(fleet) for one in programs_of(share)]
    entries = [f'{robot}:{skill_set}' for robot, skill_set in fleet.robots.items()]
    robots = list(fleet.robots)

    def metrics(program: str, number: int = 0) -> dict[str, Any]:
        if not fleet.metrics_port:
            return {}
        return {'metrics_port': fleet.metrics_port + METRICS_OF[program] + number}

    found = []

    def add(program: str, name: str, given: dict[str, Any]) -> None:
        found.append(FleetProgram(program, name, given, fleet.namespace))

    if fleet.recorder is not None:
        add('recorder', 'recorder', fleet.recorder | {'robots': robots} | metrics('recorder'))
    driver = fleet.executor.get('driver', 'simulated')
    groups = executor_groups(entries, driver, together=fleet.together)
    for number, group in enumerate(groups):
        first = group[0].partition(':')[0]
        name = 'fleet_executor' if len(group) > 1 else f'{first}_executor'
        add('executor', name, fleet.executor | {'robots': group} | metrics('executor', number))
    if fleet.window is not None:
        add('window', 'window', fleet.window | {'robots': robots})
    add('planner', 'planner', fleet.planner | {'robots': entries} | metrics('planner'))
    return found


def fleet_schema() -> dict[str, Any]:
    """Return the JSON schema of a fleet file, made of the types that read it."""
    properties: dict[str, Any] = {}
    for item in fields(FleetFile):
        kind = str(item.type).split('[')[0]
        if item.name in RECORDS:
            shape: dict[str, Any] = {
                'type': ['object', 'null'],
                'additionalProperties': False,
                'properties': {
                    name: _parameter_schema(declared.default, declared.option)
                    for name, declared in declarations(RECORDS[item.name]).items()
                    if name not in GIVEN[item.name]
                },
            }
        elif kind == 'dict':
            shape = {
                'type': 'object',
                'minProperties': 1,
                'additionalProperties': {'type': 'string', 'minLength': 1},
            }
            if item.name == 'shares':
                robots = {'type': 'string', 'minLength': 1}
                each = {'type': 'array', 'minItems': 1, 'items': robots}
                shape = {'type': ['object', 'null'], 'additionalProperties': each}
        else:
            shape = {'type': _JSON_TYPES[{'str': str, 'bool': bool, 'int': int}[kind]]}
        properties[item.name] = shape | {'description': TEXTS[item.name]}
    return {
        '$schema': SCHEMA_VERSION,
        'title': 'A fleet of timely_llm_ros',
        'type': 'object',
        'required': ['robots'],
        'additionalProperties': False,
        'properties': properties,
    }


def _parameter_schema(default: Any, option: Option) -> dict[str, Any]:
    found: dict[str, Any] = {'type': _JSON_TYPES[type(default)], 'description': option.description}
    if isinstance(default, tuple):
        found['items'] = {'type': 'string'}
    if option.choices:
        found['enum'] = list(option.choices)
    if option.minimum is not None:
        found['minimum'] = option.minimum
    if option.maximum is not None:
        found['maximum'] = option.maximum
    return found | {'default': list(default) if isinstance(default, tuple) else default}
