"""The drivers by name, as launch files and parameters know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.drivers.indy import IndyDriver, IndyOptions
from timely_llm_ros.drivers.options import read_record
from timely_llm_ros.drivers.simulated import SimulatedDriver, SimulatedOptions
from timely_llm_ros.drivers.tello import TelloDriver, TelloOptions
from timely_llm_ros.drivers.trajectory import TrajectoryDriver, TrajectoryOptions
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.drivers.trajectory import JointLink
    from timely_llm_ros.execution import Driver, Perception
    from timely_llm_ros.skills import SkillSet

DriverOptions = SimulatedOptions | IndyOptions | TelloOptions | TrajectoryOptions
"""The options of one driver. Their type says which driver it is."""

DRIVERS: Mapping[str, type[DriverOptions]] = {
    'simulated': SimulatedOptions,
    'indy': IndyOptions,
    'tello': TelloOptions,
    'trajectory': TrajectoryOptions,
}
"""The options of every driver by its name."""


def read_options(
    driver: str, values: Mapping[str, object], base: DriverOptions | None = None
) -> DriverOptions:
    """Return a driver's options from plain values, as a YAML file has them.

    Args:
        driver: Its name.
        values: The options that are given, by name.
        base: Options of the same driver that hold where none is given; its defaults where None.

    Raises:
        ConfigurationError: There is no such driver, or it does not take an option or its value.
    """
    if driver not in DRIVERS:
        raise ConfigurationError(f'driver {driver!r}: expected one of {", ".join(sorted(DRIVERS))}')
    try:
        return read_record(DRIVERS[driver], values, base)
    except ConfigurationError as err:
        raise ConfigurationError(f'driver {driver!r}: {err}') from err


def create_driver(
    skill_set: SkillSet,
    options: DriverOptions,
    *,
    perception: Perception | None = None,
    joints: JointLink | None = None,
) -> Driver:
    """Return a new driver, not yet connected: the one that the options are for.

    Args:
        skill_set: The robot's skills.
        options: Of its driver.
        perception: The robot's eyes; None for none. Simulated robots need none.
        joints: The joints of an arm that is driven by trajectories; no other driver needs them.

    Raises:
        ConfigurationError: The driver cannot do the skills, or lacks what it is to drive.
    """
    match options:
        case SimulatedOptions():
            return SimulatedDriver(skill_set, options)
        case IndyOptions():
            return IndyDriver(skill_set, options, perception=perception)
        case TelloOptions():
            return TelloDriver(options, perception=perception)
        case TrajectoryOptions():
            if joints is None:
                raise ConfigurationError("driver 'trajectory': expected a link to the arm's joints")
            return TrajectoryDriver(skill_set, options, joints, perception=perception)
