"""Messages out of YAML: checked against their types at the start, filled in for each call.

A value is a constant, or a text that begins with ``$``:

``$distance``          an argument, in SI units; ``-$distance``, ``$distance as cm``
``$target``            an object as what the field is: its name, position, or pose
``$target.x``          a part of it: x, y, z, yaw, distance, name, kind, attribute
``$frame``             the frame of scenes; ``$body_frame`` that of the robot's body
``$home``              one of the file's ``constants``
``$poses[target]``     the entry of a constant that is named as an argument says
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.ros.message_types import (
    FieldType,
    fields_of,
    find_message,
    require_field,
)
from timely_llm_ros.errors import ConfigurationError, SkillFailedError
from timely_llm_ros.skills import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.skills import ArgumentSpec, Call, Scene, SceneObject
    from timely_llm_ros.skills.loading import YamlValue

MOST_ELEMENTS = 1000
"""Elements of a list in a file."""

MOST_CHARACTERS = 10_000
"""Characters of a text in a file."""

GREATEST = 1e12
"""Greatest number in a file."""

PARTS = ('x', 'y', 'z', 'yaw', 'distance', 'name', 'kind', 'attribute')
"""What a template may take of an object."""

_REFERENCE = re.compile(
    r'(?P<minus>-)?\$(?P<name>[a-z][a-z0-9_]*)'
    r'(?:\.(?P<part>[a-z]+)|\[(?P<key>[a-z][a-z0-9_]*)\])?(?: as (?P<unit>\S+))?'
)
_DURATIONS = ('builtin_interfaces/Duration', 'builtin_interfaces/Time')
_POINTS = ('geometry_msgs/Point', 'geometry_msgs/Vector3', 'geometry_msgs/Point32')
_STAMPED = {'geometry_msgs/PoseStamped': 'pose', 'geometry_msgs/PointStamped': 'point'}
_DIMENSIONS = (
    {'m', 'cm', 'mm'}, {'rad', 'deg'}, {'s', 'ms', 'min'}, {'m/s', 'cm/s'}, {'rad/s', 'deg/s'},
    {'kg', 'g'}, {'N'}, {'', 'percent'},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filling:
    """What templates are filled in from."""

    call: Call
    scene: Scene

    def text(self, argument: str) -> str:
        """Return an argument as a word."""
        return str(self.value(argument))

    def value(self, argument: str) -> float | str:
        """Return an argument's value, a number in SI units."""
        return next(item.value for item in self.call.arguments if item.name == argument)

    def object(self, argument: str) -> SceneObject:
        """Return the object that an argument names.

        Raises:
            SkillFailedError: The scene has none of this name.
        """
        name = self.text(argument)
        item = self.scene.get(name)
        if item is None:
            raise SkillFailedError(f'{self.call.text}: {name!r}: expected an object of the scene')
        return item


if TYPE_CHECKING:
    Fill = Callable[[Filling], Any]


@dataclass(frozen=True, slots=True)
class Templates:
    """Compiles the templates of one skill.

    Attributes:
        arguments: The skill's arguments by name.
        constants: The file's constants by name.
        frames: Frames by the name that templates give them.
        above_m: How far above an object its position is taken (m).
        stand_off_m: Says how far before it, as seen from the robot's start (m).
    """

    arguments: Mapping[str, ArgumentSpec]
    constants: Mapping[str, YamlValue]
    frames: Mapping[str, str]
    above_m: float = 0.0
    stand_off_m: Fill = lambda _: 0.0

    def message(self, item: YamlValue, message: Any) -> Fill:
        """Return what makes a message of a class.

        Raises:
            SkillSetError: The template does not fit the class.
        """
        fills = self._fields(item, message)

        def fill(filling: Filling) -> Any:
            made = message()
            for name, value in fills.items():
                setattr(made, name, value(filling))
            return made

        return fill

    def value(self, item: YamlValue, field: FieldType) -> Fill:
        """Return what makes the value of a field.

        Raises:
            SkillSetError: The template does not fit the field.
        """
        if item.form == 'text':
            text = item.line(MOST_CHARACTERS)
            if text.startswith(('$', '-$')):
                return self._reference(item, text, field)
        if field.is_list:
            return self._list(item, field)
        if field.is_message:
            return self._message_value(item, field)
        if field.is_float:
            return _constant(item.number(-GREATEST, GREATEST))
        if field.integers is not None:
            return _constant(item.integer(*field.integers))
        if field.base == 'boolean':
            return _constant(item.boolean())
        if field.base != 'string':
            item.refuse(f'the field is {field.text}: expected one that a file can fill in')
        return _constant(item.line(MOST_CHARACTERS if field.longest is None else field.longest))

    def _fields(self, item: YamlValue, message: Any) -> dict[str, Fill]:
        values, fields = item.mapping(any_key=True), fields_of(message)
        for name, value in values.items():
            try:
                require_field(message, name)
            except ConfigurationError as err:
                value.refuse(str(err))
        return {
            name: self.value(value, FieldType.of(fields[name])) for name, value in values.items()
        }

    def _list(self, item: YamlValue, field: FieldType) -> Fill:
        items = item.sequence(MOST_ELEMENTS if field.most is None else field.most)
        if len(items) < field.least:
            item.refuse(f'{len(items)} values: expected {field.least}, as {field.text} says')
        fills = [self.value(one, field.element) for one in items]
        return lambda filling: [fill(filling) for fill in fills]

    def _message_value(self, item: YamlValue, field: FieldType) -> Fill:
        message = find_message(field.base)
        if field.base in _DURATIONS and item.form != 'mapping':
            seconds = item.number(0 if field.base.endswith('Time') else -GREATEST, GREATEST)
            return lambda _: _duration(message, seconds)
        if field.base == 'geometry_msgs/Quaternion' and item.has('yaw'):
            yaw = item.mapping(required=('yaw',))['yaw']
            angle = self.value(yaw, FieldType.of('double'))
            return lambda filling: _turned(message(), angle(filling))
        return self.message(item, message)

    # What begins with $

    def _reference(self, item: YamlValue, text: str, field: FieldType) -> Fill:
        match = _REFERENCE.fullmatch(text)
        if match is None:
            item.refuse(
                f'{text!r}: expected $ and the name of an argument or a constant, as in $distance, '
                '-$angle, $angle as deg, $target.x, $poses[target]'
            )
        name, part, key, unit = match.group('name', 'part', 'key', 'unit')
        minus = match.group('minus') is not None
        spec = self.arguments.get(name)
        if spec is None and (minus or part or unit):
            item.refuse(f'{text!r}: expected an argument: {", ".join(self.arguments) or "none"}')
        if spec is not None and key is None:
            return self._argument(item, spec, field, part=part, unit=unit, minus=minus)
        if name in self.frames and key is None:
            if field.base != 'string' or field.is_list:
                item.refuse(f'{text!r} is a text, the field is {field.text}')
            return _constant(self.frames[name])
        if name not in self.constants:
            there = [*self.arguments, *self.frames, *self.constants]
            item.refuse(f'{text!r}: expected an argument or a constant: {", ".join(there)}')
        # A constant that names constants could name itself.
        plain = replace(self, constants={})
        if key is None:
            return plain.value(self.constants[name], field)
        return self._entry(item, name, plain, key, field)

    def _entry(
        self, item: YamlValue, name: str, plain: Templates, key: str, field: FieldType
    ) -> Fill:
        table, spec = self.constants[name], self.arguments.get(key)
        if spec is None or spec.kind not in ('object', 'choice'):
            item.refuse(f'${name}[{key}]: expected an argument that is an object or a choice')
        entries = {
            word: plain.value(value, field) for word, value in table.mapping(any_key=True).items()
        }
        for choice in spec.choices:
            if choice not in entries:
                table.refuse(f'expected an entry {choice!r}: argument {key!r} may be that')

        def fill(filling: Filling) -> Any:
            word = filling.text(key)
            if word not in entries:
                raise SkillFailedError(
                    f'{filling.call.text}: {word!r}: expected one of constants.{name} in '
                    f'{table.place}: {", ".join(entries)}'
                )
            return entries[word](filling)

        return fill

    def _argument(
        self,
        item: YamlValue,
        spec: ArgumentSpec,
        field: FieldType,
        *,
        part: str | None,
        unit: str | None,
        minus: bool,
    ) -> Fill:
        if field.is_list:
            item.refuse(f'argument {spec.name!r}: the field is {field.text}: expected a list')
        if spec.kind == 'object':
            if unit is not None:
                item.refuse(f'argument {spec.name!r} is an object: expected no unit')
            return self._object(item, spec.name, field, part, minus)
        if part is not None:
            item.refuse(f'argument {spec.name!r} is no object: expected it without .{part}')
        if spec.kind in ('int', 'number'):
            return self._number(item, spec, field, unit, minus)
        if field.base != 'string' or minus or unit:
            item.refuse(f'argument {spec.name!r} is a text, the field is {field.text}')
        longest = max(map(len, spec.choices), default=spec.max_length)
        if field.longest is not None and longest > field.longest:
            item.refuse(f'argument {spec.name!r} has up to {longest} characters: {field.text}')
        return lambda filling: filling.text(spec.name)

    def _number(
        self, item: YamlValue, spec: ArgumentSpec, field: FieldType, unit: str | None, minus: bool
    ) -> Fill:
        own = spec.unit
        if unit is not None and (
            unit not in UNITS or not any({own, unit} <= kind for kind in _DIMENSIONS)
        ):
            item.refuse(
                f'argument {spec.name!r} is in {own or "no unit"}: {unit!r} is another kind'
            )
        multiplier, divisor = UNITS[unit or '']
        factor = (-1.0 if minus else 1.0) * divisor / multiplier

        def number(filling: Filling) -> float:
            return factor * float(filling.value(spec.name))

        if field.base in _DURATIONS:
            if own not in ('s', 'ms', 'min') or unit:
                item.refuse(f'argument {spec.name!r} is in {own or "no unit"}: expected a time')
            message = find_message(field.base)
            return lambda filling: _duration(message, number(filling))
        if field.is_float:
            return number
        if field.integers is None:
            item.refuse(f'argument {spec.name!r} is a number, the field is {field.text}')
        low, high = field.integers
        for limit in (spec.minimum, spec.maximum):
            if not low <= round(factor * spec.si(limit)) <= high:
                item.refuse(
                    f'argument {spec.name!r} may be {factor * spec.si(limit):g}: '
                    f'{field.text} holds {low} to {high}'
                )
        return lambda filling: round(number(filling))

    def _object(
        self, item: YamlValue, name: str, field: FieldType, part: str | None, minus: bool
    ) -> Fill:
        if part is not None and part not in PARTS:
            item.refuse(f'${name}.{part}: expected one of {", ".join(PARTS)}')
        if part in ('name', 'kind', 'attribute') or (part is None and field.base == 'string'):
            if field.base != 'string' or minus:
                item.refuse(f'${name}.{part} is a text, the field is {field.text}')
            word = part or 'name'
            return lambda filling: getattr(filling.object(name), word)
        if part is not None:
            if not field.is_float:
                item.refuse(f'${name}.{part} is a number, the field is {field.text}')
            sign = -1.0 if minus else 1.0
            return lambda filling: sign * self._place(filling, name)[part]
        if minus or field.base not in (*_POINTS, 'geometry_msgs/Pose', *_STAMPED):
            expected = ', '.join(('string', *_POINTS, 'geometry_msgs/Pose', *_STAMPED))
            item.refuse(f'${name} is an object, the field is {field.text}: expected {expected}')
        message = find_message(field.base)
        return lambda filling: self._placed(
            message(), field.base, self._place(filling, name), filling.object(name).frame
        )

    def _placed(self, made: Any, base: str, place: Mapping[str, float], frame: str) -> Any:
        if base in _STAMPED:
            # Without a stamp: the newest transform that there is.
            made.header.frame_id = frame or self.frames['frame']
            inner = getattr(made, _STAMPED[base])
            self._placed(inner, f'geometry_msgs/{type(inner).__name__}', place, frame)
            return made
        point = made.position if base == 'geometry_msgs/Pose' else made
        point.x, point.y, point.z = place['x'], place['y'], place['z']
        if base == 'geometry_msgs/Pose':
            _turned(made.orientation, place['yaw'])
        return made

    def _place(self, filling: Filling, name: str) -> dict[str, float]:
        """Return where to be at an object: on the line to it from the robot's start."""
        item = filling.object(name)
        way_m = math.hypot(item.x_m, item.y_m)
        share = max(0.0, way_m - self.stand_off_m(filling)) / way_m if way_m else 1.0
        return {
            'x': item.x_m * share,
            'y': item.y_m * share,
            'z': item.z_m + self.above_m,
            'yaw': math.atan2(item.y_m, item.x_m),
            'distance': item.distance_m,
        }


def _constant(value: Any) -> Fill:
    return lambda _: value


def _duration(message: Any, seconds: float) -> Any:
    nanoseconds = round(seconds * 1e9)
    return message(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def _turned(orientation: Any, yaw: float) -> Any:
    orientation.x = orientation.y = 0.0
    orientation.z, orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return orientation
