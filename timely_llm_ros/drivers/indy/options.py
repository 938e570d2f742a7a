"""The options of an Indy's driver."""

from __future__ import annotations

import math
from dataclasses import dataclass

from timely_llm_ros.drivers.indy.units import ACCELERATION_RATIO, VELOCITY_RATIO, Workspace, ratio
from timely_llm_ros.errors import ConfigurationError

STATES = {'HIGH_PNP': 2, 'HIGH_NPN': 1, 'UNUSED': 0, 'LOW_NPN': -1, 'LOW_PNP': -2}
"""States of the tool's outputs, as the SDK counts them."""

BOX_STATES = {'off': 0, 'on': 1}
"""States of the control box's outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndyOptions:
    """How one Indy is driven.

    Attributes:
        host: Address of the controller.
        index: Which of its two sets of ports.
        speed: Share of the greatest speed, 0.01 to 1.
        acceleration: Share of the usual acceleration, 0.01 to 9.
        reach_m: How far from the base's axis the tool may go (m).
        floor_m: Least height of the tool (m); that of the table.
        ceiling_m: Its greatest height (m).
        approach_m: Height above an object from which the tool comes and to which it goes (m).
        stack_m: Height above an object at which another is put down (m).
        look_m: Height above an object from which it is looked at (m).
        tool_rotation_rad: Rotation of the tool about x, y and z (rad); pointing down by default.
        gripper_port: The tool's output that works the gripper, A to C, or the number of one of the
            control box; empty where there is no gripper.
        gripper_open: State of that output for an open gripper: one of ``STATES``, or of
            ``BOX_STATES`` for the control box.
        gripper_close: The same for a closed one.
        gripper_s: How long the gripper takes (s); outputs tell nothing back.
        auto_recover: Recover from a violation or a collision before the next motion. Without it a
            person does.
        answer_limit_s: How long the controller may take to answer (s).
        link_limit_s: Without any answer for this long (s), the link counts as lost.
        poll_s: How often the state is asked for during a motion (s).
        sdk_python: Python of the SDK's environment; found by itself where empty.

    Raises:
        ConfigurationError: One is out of range.
    """

    host: str = '192.168.0.10'
    index: int = 0
    speed: float = 0.25
    acceleration: float = 1.0
    reach_m: float = 0.8
    floor_m: float = 0.0
    ceiling_m: float = 1.1
    approach_m: float = 0.10
    stack_m: float = 0.05
    look_m: float = 0.30
    tool_rotation_rad: tuple[float, float, float] = (0.0, math.pi, 0.0)
    gripper_port: str | int = 'C'
    gripper_open: str = 'LOW_PNP'
    gripper_close: str = 'HIGH_PNP'
    gripper_s: float = 0.5
    auto_recover: bool = False
    answer_limit_s: float = 0.2
    link_limit_s: float = 0.4
    poll_s: float = 0.02
    sdk_python: str = ''

    def __post_init__(self) -> None:
        if self.index not in (0, 1):
            raise ConfigurationError(f'index {self.index!r}: expected 0 or 1')
        for name in ('reach_m', 'answer_limit_s', 'link_limit_s', 'poll_s'):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ConfigurationError(f'{name} {value!r}: expected a number above 0')
        for name in ('approach_m', 'stack_m', 'look_m', 'gripper_s'):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ConfigurationError(f'{name} {value!r}: expected a number of 0 or more')
        if not self.floor_m < self.ceiling_m:
            raise ConfigurationError(
                f'ceiling_m {self.ceiling_m!r}: expected more than floor_m, {self.floor_m!r}'
            )
        if not all(map(math.isfinite, self.tool_rotation_rad)):
            raise ConfigurationError(
                f'tool_rotation_rad {self.tool_rotation_rad!r}: expected three angles'
            )
        # Told now and not at the first motion.
        _ = self.velocity_ratio, self.acceleration_ratio, self.gripper

    @property
    def velocity_ratio(self) -> int:
        """Velocity of every motion (%)."""
        return ratio(self.speed, VELOCITY_RATIO, 'speed')

    @property
    def acceleration_ratio(self) -> int:
        """Acceleration of every motion (%)."""
        return ratio(self.acceleration, ACCELERATION_RATIO, 'acceleration')

    @property
    def workspace(self) -> Workspace:
        """Where the tool may go."""
        return Workspace(self.reach_m, self.floor_m, self.ceiling_m, self.tool_rotation_rad)

    @property
    def gripper(self) -> tuple[str, dict[str, dict[str, object]]] | None:
        """The SDK's operation that works the gripper, and its fields to ``open`` and ``close``."""
        port, words = self.gripper_port, {'open': self.gripper_open, 'close': self.gripper_close}
        if port == '':
            return None
        is_box = isinstance(port, int) or port.isdigit()
        if not is_box and port not in ('A', 'B', 'C'):
            raise ConfigurationError(
                f'gripper_port {port!r}: expected A, B, C, a number or nothing'
            )
        states = BOX_STATES if is_box else STATES
        for word, state in words.items():
            if state not in states:
                raise ConfigurationError(
                    f'gripper_{word} {state!r}: expected one of {", ".join(states)}'
                )
        if is_box:
            return 'box_output', {
                word: {'address': int(port), 'state': states[state]}
                for word, state in words.items()
            }
        return 'tool_output', {
            word: {'port': port, 'states': [states[state]]} for word, state in words.items()
        }
