"""The drivers by name, as launch files and parameters know them."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass, replace
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from timely_llm_ros.drivers.indy import IndyDriver, IndyOptions
from timely_llm_ros.drivers.ros import RosDriver, RosOptions
from timely_llm_ros.drivers.simulated import SimulatedDriver, SimulatedOptions
from timely_llm_ros.drivers.tello import TelloDriver, TelloOptions
from timely_llm_ros.drivers.trajectory import TrajectoryDriver, TrajectoryOptions
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.plugins import load_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.drivers.ros import RosLink
    from timely_llm_ros.drivers.trajectory import JointLink
    from timely_llm_ros.execution import Driver, Perception
    from timely_llm_ros.skills import SkillSet


@runtime_checkable
class PluginOptions(Protocol):
    """The options of a driver of another package: a frozen dataclass that makes its driver.

    An entry point of the group ``timely_llm_ros.drivers`` names the class.
    """

    def make_driver(self, robot: str, skill_set: SkillSet, perception: Perception | None) -> Driver:
        """Return the driver of one robot, not yet connected."""
        ...


DriverOptions = (
    SimulatedOptions | IndyOptions | RosOptions | TelloOptions | TrajectoryOptions | PluginOptions
)
"""The options of one driver. Their type says which driver it is."""

DRIVERS: Mapping[str, type[DriverOptions]] = {
    'simulated': SimulatedOptions,
    'indy': IndyOptions,
    'ros': RosOptions,
    'tello': TelloOptions,
    'trajectory': TrajectoryOptions,
}
"""The options of every driver by its name: fields of bool, int, float or str, a union of these, or
a tuple of so many of them."""

_WORDS = {bool: 'true or false', int: 'a whole number', float: 'a number', str: 'a text'}


def driver_names() -> tuple[str, ...]:
    """Return the names of the drivers, those of other packages last."""
    return (*DRIVERS, *(name for name in plugin_names('drivers') if name not in DRIVERS))


def _options_of(driver: str) -> Any:
    """Return the class of a driver's options."""
    if driver in DRIVERS:
        return DRIVERS[driver]
    if driver not in driver_names():
        raise ConfigurationError(
            f'driver {driver!r}: expected one of {", ".join(sorted(driver_names()))}'
        )
    kind = load_plugin('drivers', driver)
    if not is_dataclass(kind) or not hasattr(kind, 'make_driver'):
        raise ConfigurationError(
            f'driver {driver!r}: {kind!r}: expected a frozen dataclass with make_driver'
        )
    return kind


def read_options(
    driver: str, values: Mapping[str, object], base: DriverOptions | None = None
) -> DriverOptions:
    """Return a driver's options from plain values, as a YAML file has them.

    Args:
        driver: Its name.
        values: The options that are given, by name.
        base: Options of the same driver that hold where none is given; its defaults where None.

    Raises:
        ConfigurationError: There is no such driver, an option is unknown or missing, or a value
            does not fit its option.
    """
    kind = _options_of(driver)
    try:
        return _read_options(kind, values, base)
    except ConfigurationError as err:
        raise ConfigurationError(f'driver {driver!r}: {err}') from err


def _read_options(kind: Any, values: Mapping[str, object], base: Any) -> DriverOptions:
    known = {one.name: one for one in fields(kind)}
    types = get_type_hints(kind)
    given: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise ConfigurationError(f'option {name!r}: expected one of {", ".join(known)}')
        given[name] = _read(f'{name} {value!r}', types[name], value)
    if base is not None:
        changed: DriverOptions = replace(base, **given)
        return changed
    for name, one in known.items():
        if name not in given and one.default is MISSING:
            raise ConfigurationError(
                f'option {name!r}: is missing: expected {_expected(types[name])}'
            )
    made: DriverOptions = kind(**given)
    return made


def _read(what: str, type_: object, value: object) -> object:
    if get_origin(type_) is tuple and isinstance(value, list | tuple):
        parts = get_args(type_)
        if len(value) == len(parts):
            return tuple(_read(what, *pair) for pair in zip(parts, value, strict=True))
    for one in get_args(type_) if isinstance(type_, UnionType) else (type_,):
        if type(value) is one:
            return value
        if one is float and type(value) is int:
            return float(value)
    raise ConfigurationError(f'{what}: expected {_expected(type_)}')


def _expected(type_: object) -> str:
    if get_origin(type_) is tuple:
        parts = get_args(type_)
        return f'{len(parts)} values, each {_expected(parts[0])}'
    if isinstance(type_, UnionType):
        return ' or '.join(map(_expected, get_args(type_)))
    return _WORDS[type_] if isinstance(type_, type) else str(type_)


def create_driver(
    skill_set: SkillSet,
    options: DriverOptions,
    *,
    robot: str = '',
    perception: Perception | None = None,
    joints: JointLink | None = None,
    calls: RosLink | None = None,
) -> Driver:
    """Return a new driver, not yet connected: the one that the options are for.

    Args:
        skill_set: The robot's skills.
        options: The options of its driver.
        robot: Name of the robot, for drivers of other packages.
        perception: The robot's eyes; None for none.
        joints: The joints of an arm that is driven by trajectories; no other driver needs them.
        calls: What a robot with ROS interfaces offers; no other driver needs it.

    Raises:
        ConfigurationError: The driver cannot do the skills, or lacks what it is to drive.
    """
    match options:
        case SimulatedOptions():
            return SimulatedDriver(skill_set, options)
        case IndyOptions():
            return IndyDriver(skill_set, options, perception=perception)
        case RosOptions():
            if calls is None:
                raise ConfigurationError("driver 'ros': expected a link to what the robot offers")
            return RosDriver(skill_set, options, calls, perception=perception)
        case TelloOptions():
            return TelloDriver(options, perception=perception)
        case TrajectoryOptions():
            if joints is None:
                raise ConfigurationError("driver 'trajectory': expected a link to the arm's joints")
            return TrajectoryDriver(skill_set, options, joints, perception=perception)
        case PluginOptions():
            return options.make_driver(robot, skill_set, perception)
