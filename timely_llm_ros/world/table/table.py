"""An arm's table: what lies on it, what was done with it, and whether a task on it succeeded.

A task succeeds if, two seconds after its end, each block that it stacks stands on the block that it
should, each thing that it puts away lies in its box, and the hand has gone over each place that it
wipes, with closed fingers just above it, for at least eight centimetres.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from timely_llm_ros.world.judge import TaskWatch
from timely_llm_ros.world.table.things import CONTAINER, SURFACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.world.shapes import Thing
    from timely_llm_ros.world.table.world_arm import WorldArm

STAY_S = 2.0
"""So long after its end a task is judged (s): towers fall."""

WIPED_M, OVER_M = 0.08, 0.03
"""How far a hand goes over a place to wipe it, and how near above it (m)."""

ASIDE_M, ABOVE_M = 0.02, 0.01
"""How far a block's middle may be beside that of the block below, and off its height (m)."""

FALLEN_M = -0.1
"""A thing that low fell off the table (m, from its top)."""


class Table:
    """One arm's table.

    Args:
        model: The room.
        data: Its state.
        arm: Stands on it.
        things: What lies on it, by name.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        arm: WorldArm,
        things: Mapping[str, Thing],
    ) -> None:
        self._model, self._data, self.arm, self.things = model, data, arm, things
        joints = {name: int(model.body_jntadr[thing.body]) for name, thing in things.items()}
        self._loose = {
            name: (int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint]))
            for name, joint in joints.items()
            if joint >= 0
        }
        self.fallen: set[str] = set()

    def tidy(self) -> None:
        """Lay everything back where it was at first, at once."""
        for name, (place, speed) in self._loose.items():
            if name == self.arm.held:
                self.arm.open()
            self._data.qpos[place : place + 7] = (*self.things[name].home_m, 1.0, 0.0, 0.0, 0.0)
            self._data.qvel[speed : speed + 6] = 0.0
        mujoco.mj_kinematics(self._model, self._data)
        self.fallen.clear()

    def place_m(self, name: str) -> tuple[float, float, float]:
        """Return where the middle of a thing is (m, from the arm's base)."""
        x_m, y_m, z_m = (self._data.xpos[self.things[name].body] - self.arm.base_m).tolist()
        return x_m, y_m, z_m

    def newly_fallen(self) -> list[str]:
        """Return what has fallen off the table since this was last asked."""
        low = {name for name in self._loose if self.place_m(name)[2] < FALLEN_M}
        found = sorted(low - self.fallen)
        self.fallen |= low
        return found

    def stands_on(self, upper: str, lower: str) -> bool:
        """Return whether a block stands on another one, and nobody holds it."""
        ahead_m, aside_m, above_m = np.subtract(self.place_m(upper), self.place_m(lower))
        height_m = (self.things[upper].shape.height_m + self.things[lower].shape.height_m) / 2
        return (
            math.hypot(ahead_m, aside_m) <= ASIDE_M
            and abs(above_m - height_m) <= ABOVE_M
            and upper != self.arm.held
        )

    def lies_in(self, name: str, box: str) -> bool:
        """Return whether a thing lies in a box."""
        ahead_m, aside_m, above_m = np.subtract(self.place_m(name), self.place_m(box))
        inside_m = CONTAINER.radius_m
        within = abs(ahead_m) <= inside_m and abs(aside_m) <= inside_m
        return within and abs(above_m) <= 2 * CONTAINER.height_m and name != self.arm.held


@dataclass(slots=True, kw_only=True)
class TableWatch(TaskWatch):
    """What was seen of an arm's task so far."""

    table: Table
    _over: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def look(self) -> None:
        """Note where the hand is."""
        arm = self.table.arm
        if arm.is_open or arm.held:
            return
        x_m, y_m, z_m = arm.hold_m.tolist()
        for name in self.task.wiped:
            at_x_m, at_y_m, at_z_m = self.table.place_m(name)
            beside_m = math.hypot(x_m - at_x_m, y_m - at_y_m)
            if beside_m <= SURFACE.radius_m and z_m - at_z_m <= OVER_M:
                self._over.setdefault(name, []).append((x_m, y_m))

    def decide(self) -> tuple[bool, str]:
        """Return whether it succeeded, and what decided."""
        table, task = self.table, self.task
        for upper, lower in task.stacked:
            if not table.stands_on(upper, lower):
                return False, f'{upper} does not stand on {lower}'
        for name, box in task.stored:
            if not table.lies_in(name, box):
                return False, f'{name} does not lie in {box}'
        for name in task.wiped:
            points = self._over.get(name, [])
            way_m = max((math.dist(points[0], point) for point in points), default=0.0)
            if way_m < WIPED_M:
                return False, f'{name} was wiped for {100 * way_m:.0f} cm'
        done = [
            *(f'{upper} on {lower}' for upper, lower in task.stacked),
            *(f'{name} in {box}' for name, box in task.stored),
            *(f'{name} wiped' for name in task.wiped),
        ]
        return bool(done), ', '.join(done) or 'nothing was asked for'
