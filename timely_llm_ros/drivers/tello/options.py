"""The options of a Tello's driver."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import check_options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class TelloOptions:
    """How one Tello is reached, and the limits within which it flies.

    Raises:
        ConfigurationError: A value is out of range, or an address is none.
    """

    address: str = option('192.168.10.1', 'Its IPv4 address; by default that of its own network.')
    local_address: str = option('', "This machine's address towards it; empty for any.")
    video: bool = option(False, 'Switch its video stream on, for whoever shows it.')
    speed_m_s: float = option(0.5, 'Speed of moves (m/s).', minimum=0.1, maximum=1)
    maximum_height_m: float = option(
        3.0,
        'It flies no higher than this above the place of take-off (m).',
        minimum=0.5,
        maximum=30,
    )
    minimum_battery_percent: int = option(
        20, 'It does not take off with less charge.', minimum=0, maximum=100
    )
    landing_battery_percent: int = option(
        10, 'With this much charge or less it ends its flight and lands.', minimum=0, maximum=100
    )
    link_timeout_s: float = option(
        0.4, 'Silence of the aircraft that counts as its loss (s).', minimum=0.25, maximum=60
    )
    halt_limit_s: float = option(
        0.45, 'How long it may take to stand still when told to hover (s).', minimum=0.1, maximum=10
    )
    land_after_s: float = option(
        15.0, 'After this time in the air with nothing to do it lands (s).', minimum=0, maximum=3600
    )
    takeoff_when_needed: bool = option(False, 'A move on the ground takes off first.')

    def __post_init__(self) -> None:
        check_options(self)
        for name in ('address', 'local_address') if self.local_address else ('address',):
            value = getattr(self, name)
            try:
                ipaddress.IPv4Address(value)
            except ValueError as err:
                raise ConfigurationError(
                    f'{name} {value!r}: expected an IPv4 address, for example 192.168.10.1'
                ) from err
