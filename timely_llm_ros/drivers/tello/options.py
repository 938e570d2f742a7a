"""The options of a Tello's driver."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from timely_llm_ros.errors import ConfigurationError

_RANGES = {
    'speed_m_s': (0.1, 1.0),
    'maximum_height_m': (0.5, 30.0),
    'minimum_battery_percent': (0, 100),
    'landing_battery_percent': (0, 100),
    'link_timeout_s': (0.25, 60.0),
    'halt_limit_s': (0.1, 10.0),
    'land_after_s': (0.0, 3600.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TelloOptions:
    """How one Tello is reached, and the limits within which it flies.

    Attributes:
        address: Its IPv4 address; that of its own network by default.
        local_address: Address of this machine's interface towards it; empty for all interfaces.
        video: Whether its video stream is switched on, for whoever shows it.
        speed_m_s: Speed of moves (m/s), 0.1 to 1.
        maximum_height_m: It flies no higher than this above the place of take-off (m).
        minimum_battery_percent: It does not take off with less charge.
        landing_battery_percent: With so much charge or less it ends its flight and lands.
        link_timeout_s: Silence of the aircraft that counts as its loss (s).
        halt_limit_s: How long the aircraft may take to answer after it was told to hover (s).
        land_after_s: After this time in the air with nothing to do (s) it lands.
        takeoff_when_needed: Whether a move on the ground takes off first; else it fails.

    Raises:
        ConfigurationError: A value is out of range, or no address.
    """

    address: str = '192.168.10.1'
    local_address: str = ''
    video: bool = False
    speed_m_s: float = 0.5
    maximum_height_m: float = 3.0
    minimum_battery_percent: int = 20
    landing_battery_percent: int = 10
    link_timeout_s: float = 0.4
    halt_limit_s: float = 0.45
    land_after_s: float = 15.0
    takeoff_when_needed: bool = False

    def __post_init__(self) -> None:
        _require_ipv4('address', self.address)
        if self.local_address:
            _require_ipv4('local_address', self.local_address)
        for name, (least, greatest) in _RANGES.items():
            value = getattr(self, name)
            if not least <= value <= greatest:
                raise ConfigurationError(f'{name} {value!r}: expected {least:g} to {greatest:g}')


def _require_ipv4(name: str, value: str) -> None:
    try:
        ipaddress.IPv4Address(value)
    except ValueError as err:
        raise ConfigurationError(
            f'{name} {value!r}: expected an IPv4 address, for example 192.168.10.1'
        ) from err
