"""A YAML file that says which driver moves which robot, and with which options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from timely_llm_ros.drivers import DRIVERS
from timely_llm_ros.errors import ConfigurationError

_PLAIN = (bool, int, float, str)


@dataclass(frozen=True, slots=True)
class DriverChoice:
    """What moves one robot.

    Attributes:
        driver: Name of the driver.
        options: Its keyword options, of plain values.
    """

    driver: str
    options: dict[str, Any]


def read_driver_file(path: str, default: str) -> dict[str, DriverChoice]:
    """Return the drivers of a file by robot; none for an empty path.

    Args:
        path: The file: a mapping of robots to mappings of options, ``driver`` among them.
        default: Driver of a robot whose entry names none.

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
    options = dict(entry)
    driver = options.pop('driver', default)
    if driver not in DRIVERS:
        raise ConfigurationError(
            f'{where}: driver {driver!r}: expected one of {", ".join(sorted(DRIVERS))}'
        )
    for name, value in options.items():
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(one, _PLAIN) for one in values):
            raise ConfigurationError(f'{where}: {name} {value!r}: expected plain values')
    return DriverChoice(driver, options)
