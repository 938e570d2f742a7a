"""Reads the file that says what each skill of a robot calls.

``docs/reference/calls.md`` explains every key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.ros.link import Endpoint, EndpointKind
from timely_llm_ros.drivers.ros.message_types import (
    FieldPath,
    FieldType,
    find_message,
    find_type,
    require_field,
)
from timely_llm_ros.drivers.ros.templates import GREATEST, Filling, Templates
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.installation import shipped_folders
from timely_llm_ros.plugins import plugin_files
from timely_llm_ros.skills.loading import YamlValue, compose, is_skill_path, read_skill_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.drivers.ros.options import RosOptions
    from timely_llm_ros.skills import Skill, SkillSet

MOST_STEPS = 32
"""Calls of one skill."""

MOST_NAME_LENGTH = 256
MOST_SECONDS = 3600.0
MOST_RATE_HZ = 1000.0
MOST_METRES = 1000.0

_MESSAGES: dict[EndpointKind, tuple[str, str, str, str]] = {
    'action': ('action', 'goal', 'Goal', 'Result'),
    'service': ('srv', 'request', 'Request', 'Response'),
    'topic': ('msg', 'message', '', ''),
}
"""By kind: the part of a package, the key of the template, the message sent, the one answered."""

_DURATION = 'builtin_interfaces/Duration'


@dataclass(frozen=True, slots=True)
class Request:
    """One call of an action, a service or a topic.

    Attributes:
        endpoint: What is called.
        fill: Makes the message that is sent.
        success: Fields of the answer, with what they must be.
        value: The field of the answer that is the skill's value; None for none.
        remaining: The field of an action's feedback that says how long it will take; None for none.
        silence_s: An action that gives no feedback for so long (s) is lost; None for never.
        limit_s: How long it may take (s); None for no limit of its own.
        seconds: For how long a topic is published (s); None for once.
        rate_hz: How often it is, meanwhile.
        then: Makes the message that is published after that; None for none.
        cancel: What is called to cancel it; None for what actions have of themselves.
    """

    endpoint: Endpoint
    fill: Callable[[Filling], Any]
    success: tuple[tuple[FieldPath, Any], ...] = ()
    value: FieldPath | None = None
    remaining: FieldPath | None = None
    silence_s: float | None = None
    limit_s: float | None = None
    seconds: Callable[[Filling], Any] | None = None
    rate_hz: float = 10.0
    then: Callable[[Filling], Any] | None = None
    cancel: Request | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Lets time pass; ``seconds`` says how much (s)."""

    seconds: Callable[[Filling], Any]


@dataclass(frozen=True, slots=True)
class TakePicture:
    """Has the robot's perception take a picture."""


@dataclass(frozen=True, slots=True)
class CancelAll:
    """Cancels every goal of every action in the file, whoever sent it."""


@dataclass(frozen=True, slots=True)
class Look:
    """Asks the robot's perception whether an object is seen."""

    argument: str


Step = Request | CancelAll | Look | TakePicture | Wait
"""One thing that a skill does."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The content of a file.

    Attributes:
        source: Its path.
        skills: What each skill does, one step after the other.
    """

    source: str
    skills: Mapping[str, tuple[Step, ...]]

    @property
    def requests(self) -> tuple[Request, ...]:
        """One call of everything that is called."""
        found: dict[tuple[str, str], Request] = {}
        for steps in self.skills.values():
            for step in steps:
                request = step if isinstance(step, Request) else None
                while request is not None:
                    found.setdefault((request.endpoint.kind, request.endpoint.name), request)
                    request = request.cancel
        return tuple(found.values())

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Everything that is called, once each."""
        return tuple(request.endpoint for request in self.requests)

    @property
    def actions(self) -> tuple[Endpoint, ...]:
        """The actions among them."""
        return tuple(endpoint for endpoint in self.endpoints if endpoint.kind == 'action')


def find_calls_file(name_or_path: str) -> Path:
    """Return a file that ships by its name, or the path that is given.

    Raises:
        ConfigurationError: None of this name ships.
    """
    if is_skill_path(name_or_path):
        return Path(name_or_path).expanduser()
    shipped = plugin_files('calls')
    for folder in reversed(shipped_folders('config')):
        for path in sorted(folder.glob('calls/*.yaml')):
            shipped[path.stem] = path
    if name_or_path not in shipped:
        raise ConfigurationError(
            f'calls file {name_or_path!r}: expected a path or one of {", ".join(shipped) or "none"}'
        )
    return shipped[name_or_path]


def read_calls(skill_set: SkillSet, options: RosOptions) -> Calls:
    """Read what each skill of a skill set calls, and check it against the types that there are.

    Raises:
        ConfigurationError: The file cannot be read, does not fit the skill set, or names a type
            or a field that there is not. The error has the file and the line.
    """
    path = find_calls_file(options.calls_file)
    text, source = read_skill_file(path), str(path)
    top = compose(text, source).mapping(required=('skills',), optional=('constants',))
    constants = top['constants'].mapping(any_key=True) if 'constants' in top else {}
    items = top['skills'].mapping(any_key=True)
    for name in skill_set.skills:
        if name not in items:
            top['skills'].refuse(f'expected what skill {name!r} of {skill_set.name!r} calls')
    for name, item in items.items():
        if name not in skill_set.skills:
            there = ', '.join(skill_set.skills)
            item.refuse(f'expected a skill of skill set {skill_set.name!r}: {there}')
    calls = Calls(
        source,
        {
            name: _Reader(skill_set.skills[name], options, constants).steps(item)
            for name, item in items.items()
        },
    )
    _require_types_agree(calls)
    _require_safe_action(calls, items[skill_set.safe_action], skill_set.safe_action)
    return calls


def _require_types_agree(calls: Calls) -> None:
    types = {(endpoint.kind, endpoint.name): endpoint for endpoint in calls.endpoints}
    for steps in calls.skills.values():
        for step in steps:
            if isinstance(step, Request):
                first = types[step.endpoint.kind, step.endpoint.name]
                if first.type_name != step.endpoint.type_name:
                    raise ConfigurationError(
                        f'{step.endpoint.where}: {step.endpoint} is {step.endpoint.type_name}: '
                        f'expected {first.type_name}, as in {first.where}'
                    )


def _require_safe_action(calls: Calls, item: YamlValue, name: str) -> None:
    for step in calls.skills[name]:
        lasts = isinstance(step, Request) and step.seconds is not None
        if lasts or not isinstance(step, CancelAll | Request):
            item.refuse('the safe action takes at once: expected no look, take_picture, wait, for')
        if isinstance(step, CancelAll) and not calls.actions:
            item.refuse('cancel_all: expected an action in the file')


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads what one skill does."""

    skill: Skill
    options: RosOptions
    constants: Mapping[str, YamlValue]

    def steps(self, item: YamlValue) -> tuple[Step, ...]:
        items = item.sequence(MOST_STEPS) if item.form == 'list' else [item]
        steps = tuple(self._step(one) for one in items)
        gives = [isinstance(one, Look) or getattr(one, 'value', None) is not None for one in steps]
        if any(gives) != self.skill.blocking or any(gives[:-1]):
            wanted = 'its last call to say the value' if self.skill.blocking else 'no value'
            item.refuse(f'the skill returns {self.skill.returns}: expected {wanted}')
        return steps

    def _step(self, item: YamlValue) -> Step:
        for key, step in (('cancel_all', CancelAll), ('take_picture', TakePicture)):
            if item.has(key):
                if not item.mapping(required=(key,))[key].boolean():
                    item.refuse(f'{key}: expected true')
                return step()
        if item.has('wait'):
            return Wait(self._seconds(item.mapping(required=('wait',))['wait']))
        if item.has('look'):
            argument = item.mapping(required=('look',))['look'].word()
            kinds = {spec.name: spec.kind for spec in self.skill.arguments}
            if kinds.get(argument) != 'object' or self.skill.returns != 'bool':
                item.refuse(f'look {argument!r}: expected an object of a skill that returns bool')
            return Look(argument)
        return self._request(item)

    def _request(self, item: YamlValue) -> Request:
        kinds = [kind for kind in _MESSAGES if item.has(kind)]
        if len(kinds) != 1:
            item.refuse(
                'expected one of action, service, topic, cancel_all, look, take_picture, wait'
            )
        (kind,) = kinds
        part, template, sent, answered = _MESSAGES[kind]
        optional: tuple[str, ...] = (template, 'stand_off_m', 'above_m')
        match kind:
            case 'action':
                optional += ('success', 'value', 'remaining', 'silence_s', 'limit_s', 'cancel')
            case 'service':
                optional += ('success', 'value', 'limit_s', 'cancel')
            case 'topic':
                optional += ('for', 'rate_hz', 'then', 'cancel')
        keys = item.mapping(required=(kind, 'type'), optional=optional)
        name = self._name(keys[kind])
        type_name = keys['type'].line(MOST_NAME_LENGTH)
        try:
            found = find_type(type_name)
        except ConfigurationError as err:
            keys['type'].refuse(str(err))
        if type_name.split('/')[1] != part:
            keys['type'].refuse(f'{type_name!r}: expected the type of a {kind}, in package/{part}')
        answer = getattr(found, answered) if answered else None
        templates = self._templates
        if 'above_m' in keys:
            above_m = keys['above_m'].number(-MOST_METRES, MOST_METRES)
            templates = replace(templates, above_m=above_m)
        if 'stand_off_m' in keys:
            stand_off_m = self._measured(keys['stand_off_m'], ('m', 'cm', 'mm'), MOST_METRES)
            templates = replace(templates, stand_off_m=stand_off_m)
        message = getattr(found, sent) if sent else found

        def made(key: str) -> Callable[[Filling], Any]:
            return templates.message(keys[key], message)

        def seconds(key: str) -> float | None:
            return keys[key].number(0.001, MOST_SECONDS) if key in keys else None

        return Request(
            Endpoint(kind, name, type_name, keys[kind].place),
            made(template) if template in keys else lambda _: message(),
            success=tuple(_expected(keys['success'], answer)) if 'success' in keys else (),
            value=self._value(keys['value'], answer) if 'value' in keys else None,
            remaining=_remaining(keys['remaining'], found) if 'remaining' in keys else None,
            silence_s=seconds('silence_s'),
            limit_s=seconds('limit_s'),
            seconds=self._seconds(keys['for']) if 'for' in keys else None,
            rate_hz=keys['rate_hz'].number(0.1, MOST_RATE_HZ) if 'rate_hz' in keys else 10.0,
            then=made('then') if 'then' in keys else None,
            cancel=self._cancel(keys['cancel']) if 'cancel' in keys else None,
        )

    def _name(self, item: YamlValue) -> str:
        name = item.line(MOST_NAME_LENGTH)
        return name if name.startswith('/') else self.options.prefix + name

    def _cancel(self, item: YamlValue) -> Request:
        request = self._request(item)
        if request.endpoint.kind == 'action' or request.seconds is not None:
            item.refuse('expected a service, or a topic that is published once')
        return request

    def _value(self, item: YamlValue, answer: Any) -> FieldPath:
        path = _path(item, answer)
        expected = {'bool': 'boolean', 'text': 'string'}.get(self.skill.returns)
        if path.type.base != expected or path.type.is_list:
            item.refuse(
                f'the field is {path.type.text}, the skill returns {self.skill.returns}: '
                f'expected {expected or "no value"}'
            )
        return path

    @property
    def _templates(self) -> Templates:
        arguments = {spec.name: spec for spec in self.skill.arguments}
        frames = {'frame': self.options.frame, 'body_frame': self.options.body_frame}
        return Templates(arguments, self.constants, frames)

    def _seconds(self, item: YamlValue) -> Callable[[Filling], Any]:
        return self._measured(item, ('s', 'ms', 'min'), MOST_SECONDS, least=0.001)

    def _measured(
        self, item: YamlValue, units: tuple[str, ...], most: float, *, least: float | None = None
    ) -> Callable[[Filling], Any]:
        """Return what makes a number, which may be an argument in one of the units."""
        for spec in self.skill.arguments:
            if item.form == 'text' and item.line(80).removeprefix('-') == f'${spec.name}':
                if spec.unit not in units:
                    item.refuse(
                        f'argument {spec.name!r} is in {spec.unit!r}: expected it in one of '
                        f'{", ".join(units)}'
                    )
                return self._templates.value(item, FieldType.of('double'))
        number = item.number(-most if least is None else least, most)
        return lambda _: number


def _path(item: YamlValue, message: Any) -> FieldPath:
    try:
        return FieldPath.of(item.line(MOST_NAME_LENGTH), message)
    except ConfigurationError as err:
        item.refuse(str(err))


def _remaining(item: YamlValue, found: Any) -> FieldPath:
    path = _path(item, found.Feedback)
    if path.type.is_list or not (path.type.is_float or path.type.base == _DURATION):
        item.refuse(f'the field is {path.type.text}: expected seconds or {_DURATION}')
    return path


def _expected(
    item: YamlValue, message: Any, names: tuple[str, ...] = ()
) -> list[tuple[FieldPath, Any]]:
    """Return which fields of a message must have which values."""
    found: list[tuple[FieldPath, Any]] = []
    for name, value in item.mapping(any_key=True).items():
        try:
            require_field(message, name)
        except ConfigurationError as err:
            value.refuse(str(err))
        path = FieldPath.of(name, message)
        whole = FieldPath((*names, name), message, path.type)
        field = path.type
        if field.is_list:
            value.refuse(f'the field is {field.text}: expected one that is no list')
        if field.is_message:
            found += _expected(value, find_message(field.base), whole.names)
        elif field.is_float:
            found.append((whole, value.number(-GREATEST, GREATEST)))
        elif field.integers is not None:
            found.append((whole, value.integer(*field.integers)))
        elif field.base == 'boolean':
            found.append((whole, value.boolean()))
        else:
            found.append((whole, value.line(MOST_NAME_LENGTH)))
    return found
