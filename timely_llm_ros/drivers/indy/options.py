"""The options of an Indy's driver."""

from __future__ import annotations

import math
from dataclasses import dataclass

from timely_llm_ros.errors import ConfigurationError, SkillFailedError
from timely_llm_ros.options import check_options, option

STATES = {'HIGH_PNP': 2, 'HIGH_NPN': 1, 'UNUSED': 0, 'LOW_NPN': -1, 'LOW_PNP': -2}
"""States of the tool's outputs, as the SDK counts them."""

BOX_STATES = {'off': 0, 'on': 1}
"""States of the control box's outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndyOptions:
    """How one Indy is driven. Shares become whole percentages within the SDK's limits.

    Raises:
        ConfigurationError: A value is out of range.
    """

    host: str = option('192.168.0.10', 'Address of the controller.')
    index: int = option(0, 'Which of its two sets of ports.', minimum=0, maximum=1)
    speed: float = option(0.25, 'Share of the greatest speed.', minimum=0.01, maximum=1)
    acceleration: float = option(1.0, 'Share of the usual acceleration.', minimum=0.01, maximum=9)
    reach_m: float = option(
        0.8, "How far from the base's vertical axis the tool may go (m).", minimum=0.001
    )
    floor_m: float = option(0.0, 'Least height of the tool (m): that of the table.')
    ceiling_m: float = option(1.1, 'Greatest height of the tool (m).')
    approach_m: float = option(
        0.10,
        'Height above an object from which the tool comes and to which it goes (m).',
        minimum=0,
    )
    stack_m: float = option(
        0.05, 'Height above an object at which another is put down (m).', minimum=0
    )
    look_m: float = option(0.30, 'Height above an object from which to look at it (m).', minimum=0)
    tool_rotation_rad: tuple[float, float, float] = option(
        (0.0, math.pi, 0.0),
        'Rotation of the tool about x, y and z (rad); by default it points down.',
    )
    gripper_port: str | int = option(
        'C',
        "The tool's output that works the gripper, A to C, or the number of one of the control "
        'box; empty where there is no gripper.',
    )
    gripper_open: str = option(
        'LOW_PNP', 'State of that output that opens the gripper; on or off for the control box.'
    )
    gripper_close: str = option('HIGH_PNP', 'State of that output that closes it.')
    gripper_s: float = option(
        0.5, 'How long the gripper takes (s); outputs tell nothing back.', minimum=0
    )
    auto_recover: bool = option(
        False, 'Recover from a violation or a collision before the next motion; else a person does.'
    )
    answer_limit_s: float = option(
        0.2, 'How long the controller may take to answer (s).', minimum=0.001
    )
    link_limit_s: float = option(
        0.4, 'Without an answer for this long the link counts as lost (s).', minimum=0.001
    )
    poll_s: float = option(
        0.02, 'How often the state is asked for during a motion (s).', minimum=0.001
    )
    sdk_python: str = option('', "Python of the SDK's environment; looked for where empty.")

    def __post_init__(self) -> None:
        check_options(self)
        if not self.floor_m < self.ceiling_m:
            raise ConfigurationError(
                f'ceiling_m {self.ceiling_m!r}: expected more than floor_m, {self.floor_m!r}'
            )
        if not all(map(math.isfinite, self.tool_rotation_rad)):
            raise ConfigurationError(
                f'tool_rotation_rad {self.tool_rotation_rad!r}: expected three angles'
            )
        # Told now and not at the first motion.
        _ = self.gripper

    def tool_pose(self, x_m: float, y_m: float, z_m: float) -> list[float]:
        """Return the tool's pose (mm, mm, mm, deg, deg, deg) at a point of the base's frame.

        Raises:
            SkillFailedError: The tool may not go there.
        """
        point = f'({x_m:.3f}, {y_m:.3f}, {z_m:.3f}) m'
        reach_m = math.hypot(x_m, y_m)
        # NaN is outside too.
        if not reach_m <= self.reach_m:
            raise SkillFailedError(
                f'point {point}: {reach_m:.3f} m from the base: expected at most {self.reach_m:g} m'
            )
        if not self.floor_m <= z_m <= self.ceiling_m:
            raise SkillFailedError(
                f'point {point}: expected a height from {self.floor_m:g} to {self.ceiling_m:g} m'
            )
        return [1000 * x_m, 1000 * y_m, 1000 * z_m, *map(math.degrees, self.tool_rotation_rad)]

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
