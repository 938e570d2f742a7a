"""The nodes' parameters: typed records that declare, check and document themselves.

Every parameter is a field of a frozen dataclass, with a default, a description and bounds: the
node's own dataclass, or a room's configuration in it. So the declaration, the value that the
program reads and ``docs/reference/parameters.md`` cannot differ.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import Group, Option, Variants, group, option, option_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rclpy.node import Node

_FIXED = 'fixed'

NO_TEXTS = ['']
"""How an empty list is declared."""

NO_CHANGES: Mapping[str, object] = MappingProxyType({})

Value = bool | int | float | str | list[str]
"""What a ROS parameter of ours may hold."""

TYPE_NAMES = {bool: 'bool', int: 'integer', float: 'double', str: 'string', tuple: 'string array'}
"""What ROS calls the types of the defaults."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is declared for one parameter, apart from its name.

    Attributes:
        default: Its default value.
        option: What it does and which values it allows.
        read_only: Whether it is fixed once the node has started.
    """

    default: Any
    option: Option
    read_only: bool


def fixed(
    default: Any,
    description: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Return the dataclass field of an option that is fixed once the node has started."""
    made = option(default, description, minimum=minimum, maximum=maximum, choices=choices)
    return field(default=default, metadata={**made.metadata, _FIXED: True})


def fixed_group(default: Any) -> Any:
    """Return the dataclass field of a group of options that are fixed once the node has started."""
    return field(default=default, metadata={**group(default).metadata, _FIXED: True})


Record = TypeVar('Record')


def declarations(
    record: type[Any], values: Any = None, prefix: str = '', *, all_fixed: bool = False
) -> dict[str, Declaration]:
    """Return the declarations of a record's parameters by name.

    Groups of options are spread out. Of variants there are the parameters of all, so that another
    one can be chosen while the node is unconfigured.

    Args:
        record: The dataclass.
        values: Has the defaults; None for those of the fields.
        prefix: Stands before every name.
        all_fixed: Whether all are fixed, whatever the fields say.

    Raises:
        TypeError: Variants have an option of one name with different declarations.
    """
    found: dict[str, Declaration] = {}
    for item in fields(record):
        default = item.default if values is None else getattr(values, item.name)
        read_only = all_fixed or item.metadata.get(_FIXED, False)
        match option_of(item):
            case Option() as declared:
                if default is None:
                    default = declared.off
                _add(found, {prefix + item.name: Declaration(default, declared, read_only)})
            case Group(inner, own):
                given = None if default is MISSING else default
                _add(found, declarations(inner, given, prefix + own, all_fixed=read_only))
            case Variants(records, chosen, description):
                names = Option(description, choices=tuple(records))
                _add(found, {prefix + item.name: Declaration(chosen, names, read_only)})
                for variant in records.values():
                    _add(found, declarations(variant, prefix=prefix, all_fixed=read_only))
            case None:
                pass
    return found


def _add(found: dict[str, Declaration], more: Mapping[str, Declaration]) -> None:
    for name, declared in more.items():
        if found.setdefault(name, declared) != declared:
            raise TypeError(f'parameter {name!r}: {declared}: expected {found[name]}')


def build(record: type[Record], values: Mapping[str, Any], prefix: str = '') -> Record:
    """Make a record of the values of its parameters.

    Raises:
        ConfigurationError: The record cannot be made of these values.
    """
    made: dict[str, Any] = {}
    for item in fields(record):  # type: ignore[arg-type]
        name = prefix + item.name
        match option_of(item):
            case Option(off=off):
                value = values[name]
                made[item.name] = None if off is not None and value == off else value
            case Group(inner, own):
                made[item.name] = build(inner, values, prefix + own)
            case Variants(records):
                made[item.name] = build(records[values[name]], values, prefix)
            case None:
                pass
    return record(**made)


def check(record: type[Any], name: str, value: object) -> None:
    """Check a value against its declaration.

    Raises:
        ConfigurationError: It is of the wrong type, out of range or none of the choices.
    """
    declared = declarations(record)[name]
    type_ = type(declared.default)
    fits = (
        isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value)
        if type_ is tuple
        else type(value) is type_
    )
    if not fits:
        raise ConfigurationError(
            f'parameter {name!r}: {value!r}: expected a value of type {TYPE_NAMES[type_]}'
        )
    if not declared.option.allows(value):
        expected = declared.option.expected
        raise ConfigurationError(f'parameter {name!r}: {value!r}: expected {expected}')


def declare(node: Node, record: type[Record]) -> Record:
    """Declare every parameter of a record on a node and return the values.

    Logs a warning of each parameter that the node was started with but does not have.

    Raises:
        ConfigurationError: A value that the node was started with cannot be used.
    """
    from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
    from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
    from rclpy.parameter import Parameter

    overrides: Mapping[str, Parameter] = getattr(node, '_parameter_overrides', {})
    for name, declared in declarations(record).items():
        default, told = declared.default, declared.option
        type_name = TYPE_NAMES[type(default)]
        type_ = Parameter.Type[type_name.upper().replace(' ', '_')]
        descriptor = ParameterDescriptor(
            name=name,
            type=type_.value,
            description=told.description,
            additional_constraints=told.expected if told.choices else '',
            read_only=declared.read_only,
        )
        if told.minimum is not None and told.maximum is not None:
            if isinstance(default, float):
                descriptor.floating_point_range.append(
                    FloatingPointRange(from_value=told.minimum, to_value=told.maximum)
                )
            else:
                descriptor.integer_range.append(
                    IntegerRange(from_value=int(told.minimum), to_value=int(told.maximum))
                )
        # An empty list has no type of its own, be it the default or given, and a parameter without
        # a value keeps rclpy from telling any other that is asked for with it.
        initial: Any = list(default) or NO_TEXTS if isinstance(default, tuple) else default
        emptied = isinstance(default, tuple) and name in overrides and not overrides[name].value
        if emptied:
            initial = NO_TEXTS
        try:
            node.declare_parameter(name, initial, descriptor, ignore_override=emptied)
        except InvalidParameterTypeException as err:
            raise ConfigurationError(
                f'parameter {name!r}: {err}: expected a value of type {type_name}'
            ) from err
        except InvalidParameterValueException as err:
            given = overrides[name].value if name in overrides else None
            raise ConfigurationError(
                f'parameter {name!r}: {given!r}: expected {told.expected}'
            ) from err
    for name in sorted(overrides):
        # Those of publishers and subscriptions are declared with them.
        if not node.has_parameter(name) and not name.startswith('qos_overrides.'):
            node.get_logger().warning(f'parameter {name!r}: there is none of this name')
    return read(node, record)


def read(node: Node, record: type[Record], changes: Mapping[str, object] = NO_CHANGES) -> Record:
    """Return the present values of a record's parameters, or with ``changes`` those they would be.

    Raises:
        ConfigurationError: A value cannot be used.
    """
    values: dict[str, Any] = {}
    for name, declared in declarations(record).items():
        value = changes[name] if name in changes else node.get_parameter(name).value
        if isinstance(declared.default, tuple):
            value = () if value == NO_TEXTS else tuple(cast('list[str]', value))
        check(record, name, value)
        values[name] = value
    return build(record, values)


def live_values(node: Node, record: type[Any]) -> dict[str, object]:
    """Return the present values of the parameters that may change while they are in use."""
    known = declarations(record).items()
    return {name: node.get_parameter(name).value for name, it in known if it.option.live}
