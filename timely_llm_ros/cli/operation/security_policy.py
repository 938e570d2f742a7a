"""Policies of least right for a fleet, in the format that ``ros2 security`` makes artifacts from.

Each program has an enclave of its own, with its topics, services and actions by their full names. A
test compares them with what the programs really have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from timely_llm_ros.cli.operation.fleet_file import programs_of, shares_of
from timely_llm_ros.nodes.window import WindowParameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from timely_llm_ros.cli.operation.fleet_file import FleetFile

Right = Literal['publish', 'subscribe', 'reply', 'request', 'execute', 'call']
"""What may be done: with a topic the first two, with a service the next two, with an action the
last two."""

_KINDS: dict[Right, str] = {
    'publish': 'topic',
    'subscribe': 'topic',
    'reply': 'service',
    'request': 'service',
    'execute': 'action',
    'call': 'action',
}

_EVERY_NODE = (
    'describe_parameters',
    'get_parameter_types',
    'get_parameters',
    'get_type_description',
    'list_parameters',
    'set_parameters',
    'set_parameters_atomically',
)
"""Services that rclpy gives every node of a program."""

_LIFECYCLE = (
    'change_state',
    'get_available_states',
    'get_available_transitions',
    'get_state',
    'get_transition_graph',
)


@dataclass(frozen=True, slots=True)
class Profile:
    """What one node may do, by full names.

    Attributes:
        namespace: The node's, ``/`` for none.
        node: The node's name.
        rights: Names of topics, services and actions by what may be done with them.
    """

    namespace: str
    node: str
    rights: dict[Right, tuple[str, ...]]

    @property
    def enclave(self) -> str:
        """Path of its enclave: the node's full name."""
        return f'{self.namespace.rstrip("/")}/{self.node}'


def fleet_profiles(fleet: FleetFile) -> list[Profile]:
    """Return a profile for each program of a fleet, for whoever sends tasks and for operators.

    Each share of a fleet has clients and operators of its own.
    """
    if fleet.shares:
        return [profile for share in shares_of(fleet) for profile in fleet_profiles(share)]
    namespace = f'/{fleet.namespace.strip("/")}'
    robots, programs = tuple(fleet.robots), programs_of(fleet)
    # An executor's action bears the name of its first robot.
    first = [
        one.parameters['robots'][0].partition(':')[0]
        for one in programs
        if one.program == 'executor'
    ]
    found = []
    for one in programs:
        match one.program:
            case 'planner':
                rights = _planner(robots, first)
            case 'executor':
                own = [entry.partition(':')[0] for entry in one.parameters['robots']]
                rights = _executor(own)
            case 'recorder':
                rights = _recorder(robots, first)
            case _:
                rights = _window(robots, WindowParameters(), one.parameters)
        managed = one.program != 'window'
        services = _EVERY_NODE + (_LIFECYCLE if managed else ())
        rights['reply'] += tuple(f'{one.name}/{service}' for service in services)
        if managed:
            rights['publish'] += (f'{one.name}/transition_event',)
        found.append(_profile(namespace, one.name, rights))
    found.append(_profile(namespace, 'client', _client()))
    found.append(_profile(namespace, 'operator', _operator(robots)))
    return found


def _planner(robots: Iterable[str], first: Iterable[str]) -> dict[Right, tuple[str, ...]]:
    return {
        'publish': (
            'diagnostics',
            'pending_approvals',
            'planner_heartbeat',
            'scene_markers',
            'scheduler_state',
            'skill_catalogue',
            'task_events',
            *_below(robots, 'skill_segments'),
        ),
        'subscribe': (
            # Of another planner that came by this name.
            'planner_heartbeat',
            *_below(robots, 'detections', 'detections_2d', 'detections_3d', 'robot_state'),
        ),
        'reply': ('decide_approval', 'describe_scene', 'describe_skills'),
        'execute': ('plan_task',),
        'call': _below(first, 'execute_segment'),
    }


def _executor(robots: Sequence[str]) -> dict[Right, tuple[str, ...]]:
    return {
        'publish': _below(robots, 'robot_state'),
        'subscribe': ('planner_heartbeat', 'task_events', *_below(robots, 'robot_state')),
        'reply': _below(robots, 'emergency', 'halt', 'stop'),
        'execute': _below(robots[:1], 'execute_segment'),
    }


def _recorder(robots: Iterable[str], first: Iterable[str]) -> dict[Right, tuple[str, ...]]:
    feedback = ('_action/feedback', '_action/status')
    return {
        'publish': ('diagnostics',),
        'subscribe': (
            '/rosout',
            'diagnostics',
            'pending_approvals',
            'scene_markers',
            'scheduler_state',
            'skill_catalogue',
            'task_events',
            *(f'plan_task/{name}' for name in feedback),
            *_below(robots, 'detections', 'robot_state', 'skill_segments'),
            *_below(first, *(f'execute_segment/{name}' for name in feedback)),
        ),
        'reply': (),
    }


def _window(
    robots: Iterable[str], default: WindowParameters, given: dict[str, Any]
) -> dict[Right, tuple[str, ...]]:
    poses = given.get('pose_topics', default.pose_topics)
    return {
        'subscribe': (
            *given.get('marker_topics', default.marker_topics),
            *_below(robots, *poses),
            'pending_approvals',
            'planner_heartbeat',
            'scheduler_state',
            'skill_catalogue',
            'task_events',
            *_below(robots, 'robot_state', 'skill_segments'),
        ),
        'reply': (),
        'request': ('describe_scene', *_below(robots, 'halt')),
        'call': ('plan_task',),
    }


def _client() -> dict[Right, tuple[str, ...]]:
    return {
        'subscribe': ('planner_heartbeat', 'task_events'),
        'request': ('describe_scene', 'describe_skills'),
        'call': ('plan_task',),
    }


def _operator(robots: Iterable[str]) -> dict[Right, tuple[str, ...]]:
    return {
        'subscribe': ('pending_approvals', *_below(robots, 'robot_state')),
        'request': (
            'decide_approval',
            'planner/change_state',
            'planner/get_state',
            *_below(robots, 'emergency', 'halt', 'stop'),
        ),
    }


def _below(robots: Iterable[str], *names: str) -> tuple[str, ...]:
    return tuple(f'{robot}/{name}' for robot in robots for name in names)


def _profile(namespace: str, node: str, rights: dict[Right, tuple[str, ...]]) -> Profile:
    rights = rights | {
        'publish': (*rights.get('publish', ()), '/parameter_events', '/rosout'),
    }
    full: dict[Right, tuple[str, ...]] = {
        right: tuple(
            sorted(
                name if name.startswith('/') else f'{namespace.rstrip("/")}/{name}'
                for name in names
            )
        )
        for right, names in rights.items()
        if names
    }
    return Profile(namespace, node, full)


def policy_xml(profiles: Iterable[Profile]) -> str:
    """Return the policy file of some nodes, each in an enclave of its own."""
    policy = ElementTree.Element('policy', version='0.2.0')
    enclaves = ElementTree.SubElement(policy, 'enclaves')
    for profile in profiles:
        enclave = ElementTree.SubElement(enclaves, 'enclave', path=profile.enclave)
        inner = ElementTree.SubElement(enclave, 'profiles')
        one = ElementTree.SubElement(inner, 'profile', ns=profile.namespace, node=profile.node)
        for right, names in profile.rights.items():
            kind = _KINDS[right]
            allowed = ElementTree.SubElement(one, f'{kind}s', {right: 'ALLOW'})
            for name in names:
                ElementTree.SubElement(allowed, kind).text = name
    ElementTree.indent(policy)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(policy, "unicode")}\n'
