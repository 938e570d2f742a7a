"""The nodes' parameters: typed records that declare, check and document themselves.

Every parameter is a field of a frozen dataclass with a default, a description and bounds, so that
the declaration, the value that the program reads and ``docs/reference/parameters.md`` cannot
differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field

    from rclpy.node import Node

_KEY = 'parameter'


Value = bool | int | float | str | list[str]
"""What a ROS parameter of ours may hold."""

TYPE_NAMES = {bool: 'bool', int: 'integer', float: 'double', str: 'string', tuple: 'string array'}
"""What ROS calls the types of the defaults."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is declared for one parameter, apart from its name and default.

    Attributes:
        description: What it does, with its unit.
        minimum: Least number, None for no bound.
        maximum: Greatest number, None for no bound.
        choices: The allowed words, empty for any text.
        read_only: Whether it is fixed once the node has started.
    """

    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = True

    @property
    def expected(self) -> str:
        """What a value must be, for messages and the documentation; empty for anything."""
        if self.choices:
            return 'one of ' + ', '.join(self.choices)
        if self.minimum is not None and self.maximum is not None:
            return f'{self.minimum} to {self.maximum}'
        return '' if self.minimum is None else f'at least {self.minimum}'


def parameter(
    default: Any,
    description: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    read_only: bool = True,
) -> Any:
    """Return the dataclass field of one parameter."""
    declaration = Declaration(description, minimum, maximum, choices, read_only)
    return field(default=default, metadata={_KEY: declaration})


Record = TypeVar('Record')


def declarations(record: type[Any]) -> dict[str, tuple[Field[Any], Declaration]]:
    """Return the fields and declarations of a record's parameters by name."""
    return {item.name: (item, item.metadata[_KEY]) for item in fields(record)}


def check(record: type[Any], name: str, value: object) -> None:
    """Check a value against its declaration.

    Raises:
        ConfigurationError: It is of the wrong type, out of range or none of the choices.
    """
    item, declared = declarations(record)[name]
    default = item.default
    type_ = type(default)
    fits = (
        isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value)
        if type_ is tuple
        else type(value) is type_
    )
    if not fits:
        raise ConfigurationError(
            f'parameter {name!r}: {value!r}: expected a value of type {TYPE_NAMES[type_]}'
        )
    out_of_range = isinstance(value, int | float) and (
        not math.isfinite(value)
        or (declared.minimum is not None and value < declared.minimum)
        or (declared.maximum is not None and value > declared.maximum)
    )
    if out_of_range or (declared.choices and value not in declared.choices):
        raise ConfigurationError(f'parameter {name!r}: {value!r}: expected {declared.expected}')


def declare(node: Node, record: type[Record]) -> Record:
    """Declare every parameter of a record on a node and return the values.

    Raises:
        ConfigurationError: A value that the node was started with cannot be used.
    """
    from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
    from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
    from rclpy.parameter import Parameter

    types = {
        bool: Parameter.Type.BOOL,
        int: Parameter.Type.INTEGER,
        float: Parameter.Type.DOUBLE,
        str: Parameter.Type.STRING,
        tuple: Parameter.Type.STRING_ARRAY,
    }
    for name, (item, declared) in declarations(record).items():
        default = item.default
        descriptor = ParameterDescriptor(
            name=name,
            type=types[type(default)].value,
            description=declared.description,
            additional_constraints=declared.expected if declared.choices else '',
            read_only=declared.read_only,
        )
        if declared.minimum is not None and declared.maximum is not None:
            if isinstance(default, float):
                descriptor.floating_point_range.append(
                    FloatingPointRange(from_value=declared.minimum, to_value=declared.maximum)
                )
            else:
                descriptor.integer_range.append(
                    IntegerRange(from_value=int(declared.minimum), to_value=int(declared.maximum))
                )
        # An empty list has no type of its own, so its type is declared in place of it.
        initial: Any = types[tuple] if isinstance(default, tuple) else default
        try:
            node.declare_parameter(name, initial, descriptor)
        except InvalidParameterTypeException as err:
            raise ConfigurationError(
                f'parameter {name!r}: {err}: expected a value of type {TYPE_NAMES[type(default)]}'
            ) from err
        except InvalidParameterValueException as err:
            raise ConfigurationError(
                f'parameter {name!r}: {_overridden(node, name)!r}: expected {declared.expected}'
            ) from err
    return read(node, record)


def read(node: Node, record: type[Record]) -> Record:
    """Return the present values of a record's parameters.

    Raises:
        ConfigurationError: A value cannot be used.
    """
    from rclpy.parameter import Parameter

    values: dict[str, Any] = {}
    for name, (item, _) in declarations(record).items():
        value: object
        if isinstance(item.default, tuple):
            unset = Parameter(name, Parameter.Type.STRING_ARRAY, list(item.default))
            value = tuple(node.get_parameter_or(name, unset).value)
        else:
            value = node.get_parameter(name).value
        check(record, name, value)
        values[name] = value
    return record(**values)


def _overridden(node: Node, name: str) -> object:
    given = getattr(node, '_parameter_overrides', {}).get(name)
    return given.value if given is not None else None


def unknown_overrides(node: Node) -> list[str]:
    """Return the names of parameters that the node was started with but does not have."""
    overrides: Mapping[str, object] = getattr(node, '_parameter_overrides', {})
    return sorted(name for name in overrides if not node.has_parameter(name))
