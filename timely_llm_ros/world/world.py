"""The world: a room that lives on as time is let pass, and tells what happens in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.sample_tasks import PEOPLE
from timely_llm_ros.world.drones import WRECK_TILT, Drones
from timely_llm_ros.world.event_log import EventLog
from timely_llm_ros.world.eyes import RANGE_M, WIDE_RAD, Camera
from timely_llm_ros.world.judge import FlightWatch
from timely_llm_ros.world.options import WorldOptions
from timely_llm_ros.world.room import STEP_S, build_room
from timely_llm_ros.world.table import STAY_S, Table, TableWatch, WorldArm
from timely_llm_ros.world.walkers import FROM_M, WALK_M_S, make_walkers, place_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.world.event_log import WorldEvent
    from timely_llm_ros.world.judge import TaskWatch, Verdict, WorldTask
    from timely_llm_ros.world.options import Bay
    from timely_llm_ros.world.walkers import Walker

LOOK_STEPS = 25
"""Cameras look and tasks are watched every so many steps: ten times a second."""

NEAR_M = 0.5
"""A drone nearer to the middle of a person than this (m) is too near."""

APART_S = 1.0
"""A drone that touches a thing again within this time (s) still touches it."""

_DEFAULTS = WorldOptions()


class World:
    """A room with a bay for each robot. Equal arguments and equal commands give equal events.

    Args:
        bays: What is where.
        options: Weather and eyesight.
        on_event: Told each event as it happens.
        on_verdict: Told how each task ended, by the world.
    """

    def __init__(
        self,
        bays: Sequence[Bay],
        options: WorldOptions = _DEFAULTS,
        *,
        on_event: Callable[[WorldEvent], None] = lambda _: None,
        on_verdict: Callable[[Verdict], None] = lambda _: None,
    ) -> None:
        self.room = build_room(bays)
        self.model, self.data = self.room.model, mujoco.MjData(self.room.model)
        self.robots = tuple(bay.robot for bay in bays)
        self._fliers = tuple(self.room.drone_bodies)
        self.log = EventLog(on_event)
        self._on_verdict = on_verdict
        things = [thing for in_bay in self.room.things.values() for thing in in_bay.values()]
        self.walkers = make_walkers(things, options.seed)
        self._by_body = {thing.body: thing for thing in things}
        place_all(self.walkers.values(), self.data, 0.0)
        self.arms: dict[str, WorldArm] = {}
        self.tables: dict[str, Table] = {}
        for robot in self.robots:
            if robot not in self._fliers:
                in_bay = self.room.things[robot]
                arm = WorldArm(self.model, self.data, robot, self.room.origins[robot], in_bay)
                self.arms[robot] = arm
                self.tables[robot] = Table(self.model, self.data, arm, in_bay)
        mujoco.mj_forward(self.model, self.data)
        self.drones = Drones(self.model, self.data, list(self.room.drone_bodies.values()), options)
        self.cameras = {
            robot: Camera(self.model, self.data, self.room, robot, options) for robot in self.robots
        }
        self._tasks: dict[str, TaskWatch] = {}
        # Of an arm only its palm: closed fingers may push things.
        self._is_robot = np.zeros(self.model.ngeom, dtype=bool)
        for robot in self.robots:
            part = robot if robot in self._fliers else f'{robot}/palm'
            self._is_robot[self.model.geom(part).id] = True
        self._robot_of = {body: robot for robot, body in self.room.drone_bodies.items()}
        self._robot_of |= {arm.hand: robot for robot, arm in self.arms.items()}
        self._floor = self.model.geom('floor').id
        self._touched_s: dict[tuple[str, str], float] = {}
        self._near: set[tuple[str, str]] = set()
        self._wrecks: set[str] = set()
        self._steps = 0

    @property
    def now_s(self) -> float:
        """Time since the world began (s)."""
        return self._steps * STEP_S

    def advance(self, now_s: float) -> None:
        """Let time pass until ``now_s``; no-op if that is past."""
        while self.now_s + STEP_S <= now_s + 1e-9:
            self._step()

    def number_of(self, robot: str) -> int:
        """Return the number of a drone.

        Raises:
            ConfigurationError: There is no such drone.
        """
        if robot not in self._fliers:
            raise ConfigurationError(f'drone {robot!r}: expected one of {", ".join(self._fliers)}')
        return self._fliers.index(robot)

    def place_of(self, robot: str) -> tuple[float, float, float]:
        """Return where a drone is, or what an arm's fingers hold (m, in the room)."""
        if robot in self.arms:
            arm = self.arms[robot]
            x_m, y_m, z_m = (arm.base_m + arm.hold_m).tolist()
        else:
            x_m, y_m, z_m = self.drones.positions_m[self.number_of(robot)].tolist()
        return x_m, y_m, z_m

    def pose_of(self, robot: str) -> tuple[float, float, float, float]:
        """Return where a drone is, from its start: ahead, left, up (m), heading (rad)."""
        number = self.number_of(robot)
        x_m, y_m, z_m = self.drones.positions_m[number].tolist()
        frame = self.drones.frames[number]
        origin = self.room.origins[robot]
        heading_rad = math.atan2(frame[1, 0], frame[0, 0])
        return x_m - origin[0], y_m - origin[1], z_m, heading_rad

    def is_wreck(self, robot: str) -> bool:
        """Return whether a drone turned over."""
        return robot in self._wrecks

    def begin(self, task: WorldTask) -> None:
        """Watch a task from now on.

        One who is a danger sets out to where its drone is. A table is tidied, if no other task is
        under way there; else once that was judged.

        Raises:
            ConfigurationError: It names a robot or a thing that there is not.
        """
        if task.robot not in self.robots:
            raise ConfigurationError(
                f'robot {task.robot!r}: expected one of {", ".join(self.robots)}'
            )
        for name in task.things:
            if name not in self.room.things[task.robot]:
                raise ConfigurationError(
                    f'task {task.key!r}: {name!r}: expected something in the bay of {task.robot!r}'
                )
        if task.robot in self.tables:
            table = self.tables[task.robot]
            if not self._watches(task.robot):
                table.tidy()
            self._tasks[task.key] = TableWatch(task, table=table)
        else:
            self._tasks[task.key] = FlightWatch(task)
        view = {} if task.robot in self.tables else {'view': [round(WIDE_RAD, 3), RANGE_M]}
        facts: dict[str, Any] = {'targets': [it for it in task.things if it != task.danger], **view}
        self.log.note(
            self.now_s,
            'task',
            task.robot,
            task.key,
            task.kind,
            things={
                name: self._place(thing.body)
                for name, thing in self.room.things[task.robot].items()
            },
            **facts,
        )
        if task.danger:
            walker = self._walker(task.robot, task.danger)
            end_m = tuple(self.drones.positions_m[self.number_of(task.robot)][:2].tolist())
            bearing_rad = self.pose_of(task.robot)[3] + task.danger_bearing_rad
            start_m = (
                end_m[0] + FROM_M * math.cos(bearing_rad),
                end_m[1] + FROM_M * math.sin(bearing_rad),
            )
            walker.come(self.now_s, start_m, (end_m[0], end_m[1]))
            way = [round(value, 2) for value in (*start_m, *end_m, FROM_M / WALK_M_S)]
            self.log.note(self.now_s, 'danger', task.robot, task.danger, way=way)

    def end(self, key: str, plan: str = '') -> None:
        """Judge a task that ended; one with a danger only once that has come.

        Args:
            key: The task's.
            plan: Id of its plan, which the verdict in the log names.
        """
        if key in self._tasks:
            self._tasks[key].ended_s, self._tasks[key].plan = self.now_s, plan
            self._judge_ended()

    def close(self, robot: str) -> None:
        """Close an arm's gripper."""
        if self.arms[robot].is_open:
            self.log.note(self.now_s, 'grip', robot, self.arms[robot].close() or 'nothing')

    def open(self, robot: str) -> None:
        """Open an arm's gripper."""
        if let_go := self.arms[robot].open():
            self.log.note(self.now_s, 'let_go', robot, let_go)

    def picture(self, robot: str) -> None:
        """Note that a robot took a picture."""
        for watch in self._watches(robot):
            watch.pictures += 1

    def _place(self, body: int) -> list[float]:
        return [round(value, 2) for value in self.data.xpos[body][:2].tolist()]

    def _walker(self, robot: str, name: str) -> Walker:
        thing = self.room.things[robot].get(name)
        if thing is None or thing.body not in self.walkers:
            raise ConfigurationError(
                f'danger {name!r}: expected something that moves in the bay of {robot!r}'
            )
        return self.walkers[thing.body]

    def _watches(self, robot: str) -> list[TaskWatch]:
        return [watch for watch in self._tasks.values() if watch.task.robot == robot]

    def _step(self) -> None:
        looks = self._steps % LOOK_STEPS == 0
        if self._steps % 5 == 0:
            place_all(self.walkers.values(), self.data, self.now_s)
        self.drones.control()
        for arm in self.arms.values():
            arm.step(self.now_s)
        mujoco.mj_step(self.model, self.data)
        self._steps += 1
        if self.data.ncon:
            self._note_hits()
        if looks:
            self._look()

    def _note_hits(self) -> None:
        pairs = self.data.contact.geom[: self.data.ncon]
        touches = pairs[self._is_robot[pairs].any(axis=1) & (pairs != self._floor).all(axis=1)]
        for pair in touches.tolist():
            first, second = (int(self.model.geom_bodyid[geom]) for geom in pair)
            for body, other in ((first, second), (second, first)):
                if body in self._robot_of:
                    self._note_hit(self._robot_of[body], other)

    def _note_hit(self, robot: str, other: int) -> None:
        thing = self._by_body.get(other)
        what = thing.item.name if thing is not None else self._robot_of.get(other, 'furniture')
        before_s = self._touched_s.get((robot, what), -math.inf)
        self._touched_s[robot, what] = self.now_s
        if self.now_s - before_s > APART_S:
            self.log.note(self.now_s, 'hit', robot, what)
            for watch in self._watches(robot):
                watch.hits.append(what)

    def _look(self) -> None:
        up = self.drones.frames[:, 2, 2]
        for number, robot in enumerate(self._fliers):
            if up[number] < WRECK_TILT and robot not in self._wrecks:
                self._wrecks.add(robot)
                self.log.note(self.now_s, 'wreck', robot, 'turned over')
            self._note_near(robot, number)
        for robot, table in self.tables.items():
            for name in table.newly_fallen():
                self.log.note(self.now_s, 'fall', robot, name)
        for watch in self._tasks.values():
            if isinstance(watch, TableWatch):
                watch.look()
            elif isinstance(watch, FlightWatch):
                self._look_after(watch)
        self._judge_ended()

    def _look_after(self, watch: FlightWatch) -> None:
        task = watch.task
        watch.wrecked |= task.robot in self._wrecks
        for seen in self.cameras[task.robot].in_view(task.targets):
            watch.note_seen(seen.thing.item.name, seen.beside_m)
        if task.danger:
            thing = self.room.things[task.robot][task.danger]
            off_m = self.data.xpos[thing.body] - self.place_of(task.robot)
            above_m = abs(float(off_m[2])) - thing.shape.height_m / 2
            beside_m = float(np.hypot(off_m[0], off_m[1]))
            watch.note_danger(math.hypot(beside_m, max(0.0, above_m)))

    def _note_near(self, robot: str, number: int) -> None:
        place_m = self.drones.positions_m[number]
        for thing in self.room.things[robot].values():
            if thing.item.kind not in PEOPLE:
                continue
            off_m = self.data.xpos[thing.body] - place_m
            near = float(np.hypot(off_m[0], off_m[1])) < NEAR_M and self.drones.motors[number]
            key = (robot, thing.item.name)
            if near and key not in self._near:
                self.log.note(self.now_s, 'near', robot, thing.item.name)
            (self._near.add if near else self._near.discard)(key)

    def _judge_ended(self) -> None:
        for key, watch in tuple(self._tasks.items()):
            if key not in self._tasks or not self._is_due(watch):
                continue
            robot, danger = watch.task.robot, watch.task.danger
            waiting = self._watches(robot)
            del self._tasks[key]
            if danger:
                self._walker(robot, danger).go_home()
            verdict = watch.verdict()
            word = 'succeeded' if verdict.succeeded else 'failed'
            self.log.note(
                self.now_s, 'verdict', verdict.robot, key, f'{word}: {verdict.why}', watch.plan
            )
            if robot in self.tables and len(waiting) > 1 and waiting[0] is watch:
                self.tables[robot].tidy()
            self._on_verdict(verdict)

    def _is_due(self, watch: TaskWatch) -> bool:
        """Return whether a task is to be judged."""
        task = watch.task
        if watch.ended_s is None:
            return False
        if task.robot in self.tables:
            # The arm goes on at once with what waits.
            return len(self._watches(task.robot)) > 1 or self.now_s >= watch.ended_s + STAY_S
        return not task.danger or self._walker(task.robot, task.danger).has_come(self.now_s)
