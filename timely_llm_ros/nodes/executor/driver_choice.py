"""Which driver moves which robot: from the executor's parameters and its drivers file."""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from timely_llm_ros.drivers import DriverOptions, driver_names, read_options
from timely_llm_ros.drivers.tello import TelloOptions
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.execution import Envelope, read_envelope
from timely_llm_ros.nodes.executor.robot_body import PERCEPTIONS, RobotBody
from timely_llm_ros.ros import robot_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.nodes.executor.parameters import ExecutorParameters
    from timely_llm_ros.nodes.executor.robot_body import PerceptionName

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DriverChoice:
    """What moves one robot.

    Attributes:
        where: What says so, for messages.
        driver: Name of the driver.
        values: The options that are given for it, not yet checked.
        perception: Name of the robot's eyes; None for a driver that needs none.
        envelope: The rules that every call keeps; None for none.
    """

    where: str
    driver: str
    values: Mapping[str, object] = field(default_factory=dict)
    perception: PerceptionName | None = None
    envelope: Envelope | None = None

    def options(self, base: DriverOptions | None = None) -> DriverOptions:
        """Return the driver's options; those not given are the base's, or the defaults.

        Raises:
            ConfigurationError: The driver does not take an option or its value.
        """
        try:
            return read_options(self.driver, self.values, base)
        except ConfigurationError as err:
            raise ConfigurationError(f'{self.where}: {err}') from err


def robot_bodies(parameters: ExecutorParameters, namespace: str = '') -> list[RobotBody]:
    """Return how each robot of an executor is driven; ``namespace`` is that of their fleet.

    Raises:
        ConfigurationError: No robot is named, one comes twice or has no skill set, or the drivers
            file cannot be used.
    """
    entries = parameters.robots
    if parameters.robot:
        if not parameters.skill_set:
            raise ConfigurationError(
                f"parameter 'skill_set': '': expected the skill set of robot {parameters.robot!r}: "
                'the name of a shipped one, for example tello or arm, or the path of a file'
            )
        entries = (f'{parameters.robot}:{parameters.skill_set}', *entries)
    robots = robot_entries(entries)
    if not robots:
        raise ConfigurationError("parameter 'robot': '': expected the name of a robot")
    journal = parameters.simulated.journal_path
    if journal and len(robots) > 1 and '{robot}' not in journal:
        raise ConfigurationError(
            f"parameter 'journal_path': {journal!r}: expected {{robot}} in it for several robots"
        )
    chosen = read_drivers_file(parameters.drivers_file, parameters.driver)
    bodies = []
    for robot in robots:
        if chosen and robot.name not in chosen:
            _logger.warning(
                'robot %s: not in the drivers file, which has %s: driver %s, no envelope',
                robot.name, ', '.join(chosen), parameters.driver,
            )  # fmt: skip
        choice = chosen.get(robot.name) or _choice(f'robot {robot.name!r}', {}, parameters.driver)
        # The same robot acts alike whichever process hosts it.
        seed = parameters.simulated.seed ^ zlib.crc32(robot.name.encode())
        base = None
        if choice.driver == 'simulated':
            journal_path = journal.replace('{robot}', robot.name)
            base = replace(parameters.simulated, seed=seed, journal_path=journal_path)
        options = choice.options(base)
        takes_off = isinstance(options, TelloOptions) and options.takeoff_when_needed
        if takes_off and choice.envelope is not None:
            raise ConfigurationError(
                f'{choice.where}: takeoff_when_needed: expected false with an envelope, by which '
                'only takeoff takes off'
            )
        bodies.append(
            RobotBody(
                robot.name,
                robot.skill_set,
                options,
                perception=choice.perception,
                seed=seed,
                namespace=namespace,
                envelope=choice.envelope,
            )
        )
    return bodies


def read_drivers_file(path: str, default: str) -> dict[str, DriverChoice]:
    """Return what a YAML file says of robots, by name; nothing for an empty path.

    The file maps robots to options, ``driver``, ``perception`` and ``envelope`` among them;
    ``default`` is the driver of a robot whose entry names none.

    Raises:
        ConfigurationError: It cannot be read, or is not of that form.
    """
    if not path:
        return {}
    where = f'drivers file {path!r}'
    try:
        content = yaml.safe_load(Path(path).expanduser().read_text(encoding='utf-8'))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as err:
        raise ConfigurationError(f'{where}: expected a readable YAML file: {err}') from err
    if not isinstance(content, dict):
        raise ConfigurationError(f'{where}: expected a mapping of robots to their options')
    return {
        str(robot): _choice(f'{where}, robot {robot!r}', entry, default)
        for robot, entry in content.items()
    }


def _choice(where: str, entry: object, default: str) -> DriverChoice:
    if not isinstance(entry, dict) or not all(isinstance(name, str) for name in entry):
        raise ConfigurationError(f'{where}: {entry!r}: expected a mapping of options')
    values = dict(entry)
    driver = values.pop('driver', default)
    if driver not in driver_names():
        raise ConfigurationError(
            f'{where}: driver {driver!r}: expected one of {", ".join(sorted(driver_names()))}'
        )
    envelope = None
    if 'envelope' in values:
        try:
            envelope = read_envelope(values.pop('envelope'))
        except ConfigurationError as err:
            raise ConfigurationError(f'{where}: envelope: {err}') from err
    if driver == 'simulated':
        return DriverChoice(where, driver, values, envelope=envelope)
    perception = values.pop('perception', 'topic')
    if perception not in PERCEPTIONS:
        raise ConfigurationError(
            f'{where}: perception {perception!r}: expected one of {", ".join(PERCEPTIONS)}'
        )
    return DriverChoice(where, driver, values, perception, envelope)
