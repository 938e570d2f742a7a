"""The world in real time: mock Tellos and arms in it, ROS topics of what they see, and a judge."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.tello.mock import MockTello
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.nodes.bodies import ShownThing
from timely_llm_ros.world.aircraft import WorldAircraft
from timely_llm_ros.world.colors import WOOD, color_of
from timely_llm_ros.world.eyes import Photographer
from timely_llm_ros.world.judge import WorldTask
from timely_llm_ros.world.move_group import MoveGroup
from timely_llm_ros.world.table import TABLE_HALF_M, ArmReach, JointController
from timely_llm_ros.world.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from typing import TextIO

    from timely_llm_ros.nodes.bodies import BodyTopics
    from timely_llm_ros.world.event_log import WorldEvent
    from timely_llm_ros.world.options import Bay, WorldOptions

TICK_S = 0.02
"""How often the world lives on at least (s)."""

PERIOD_S = 0.1
"""How often poses are told; things, and what each robot sees, every second time (s)."""


class WorldProgram:
    """Lets a world live in real time.

    Args:
        bays: What is where.
        options: Weather and eyesight.
        addresses: Where each drone takes commands in the Tello's protocol, by robot.
        events: Takes the events, as lines of JSON.
    """

    def __init__(
        self,
        bays: Sequence[Bay],
        options: WorldOptions,
        addresses: Mapping[str, str],
        events: TextIO | None = None,
    ) -> None:
        self.world = World(bays, options, on_event=self._on_event)
        self._mocks = {
            robot: MockTello(address, airframe=WorldAircraft(self.world, robot))
            for robot, address in addresses.items()
        }
        reach = ArmReach()
        groups = {robot: MoveGroup(self.world, robot, reach) for robot in self.world.arms}
        self.arms = {
            robot: (
                group,
                JointController(self.world.arms[robot], lambda: self.world.now_s, group.grip),
            )
            for robot, group in groups.items()
        }
        self._file = events
        self._photographer = Photographer(self.world.model, self.world.data)
        self._taking: set[asyncio.Task[None]] = set()
        self._topics: BodyTopics | None = None

    async def serve(self, topics: BodyTopics, stop: asyncio.Event) -> int:
        """Live until the event is set or the input ends; return the exit code."""
        self._topics = topics
        tasks = []
        try:
            for mock in self._mocks.values():
                await mock.start()
            print(f'world of {", ".join(self.world.robots)}', flush=True)
            works = (self._live(), self._tell(), self._obey(stop))
            tasks = [asyncio.create_task(work) for work in works]
            await stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            for mock in self._mocks.values():
                await mock.close()
            self._photographer.close()
        return 0

    def picture(self, robot: str) -> None:
        """Note that a robot takes a picture, and publish it where somebody wants it."""
        self.world.picture(robot)
        if self._topics is not None and self._topics.wants_picture(robot):
            taking = asyncio.get_running_loop().create_task(self._take(robot, self._topics))
            self._taking.add(taking)
            taking.add_done_callback(self._taking.discard)

    async def _take(self, robot: str, topics: BodyTopics) -> None:
        try:
            pixels = await self._photographer.take(self.world.cameras[robot])
        except ConfigurationError as err:
            print(f'error: {err}', file=sys.stderr, flush=True)
        else:
            topics.tell_picture(robot, pixels.tobytes(), pixels.shape[1])

    def obey(self, line: str) -> None:
        """Do what a line asks for: ``{"begin": {a task}}`` or ``{"end": "its key"}``.

        Raises:
            ConfigurationError: It asks for something else.
        """
        try:
            match json.loads(line):
                case {'begin': dict(fields)}:
                    self.world.begin(WorldTask(**{name: _fixed(it) for name, it in fields.items()}))
                case {'end': str(key), **more}:
                    self.world.end(key, str(more.get('plan', '')))
                case _:
                    raise ConfigurationError(f'command {line!r}: expected begin or end')
        except (ValueError, TypeError) as err:
            raise ConfigurationError(f'command {line!r}: expected JSON of a task: {err}') from err

    async def _obey(self, stop: asyncio.Event) -> None:
        async for line in _lines(sys.stdin):
            try:
                self.obey(line.decode(errors='replace'))
            except ConfigurationError as err:
                print(f'error: {err}', file=sys.stderr, flush=True)
        stop.set()

    async def _live(self) -> None:
        # Drones let time pass too, each time that they are steered.
        assert self._topics is not None  # noqa: S101 (it is set before)
        loop = asyncio.get_running_loop()
        began_s = loop.time() - self.world.now_s
        while True:
            self.world.advance(loop.time() - began_s)
            self._topics.advance(self.world.now_s)
            await asyncio.sleep(TICK_S)

    async def _tell(self) -> None:
        world, topics = self.world, self._topics
        assert topics is not None  # noqa: S101 (it is set before)
        for turn in itertools.count():
            for number, robot in enumerate(world.robots):
                heading_rad = 0.0 if robot in world.arms else world.pose_of(robot)[3]
                topics.tell_pose(robot, world.place_of(robot), heading_rad)
                if (turn + number) % 2 == 0:
                    seen = world.cameras[robot].look()
                    topics.tell_detections(
                        robot, [(one.label, one.score, one.position_m) for one in seen]
                    )
            if turn % 2 == 0:
                topics.tell_things(self._things())
            await asyncio.sleep(PERIOD_S)

    def _things(self) -> list[ShownThing]:
        shown = []
        for in_bay in self.world.room.things.values():
            for thing in in_bay.values():
                shape, color = thing.shape, color_of(thing.item)
                at: Any = self.world.data.xpos[thing.body].tolist()
                size_m = (2 * shape.radius_m, 2 * shape.radius_m, shape.height_m)
                shown.append(ShownThing(thing.item.name, tuple(at), size_m, shape.is_cube, color))
        for robot, table in self.world.tables.items():
            arm, wide_m = table.arm, 2 * TABLE_HALF_M
            x_m, y_m, z_m = arm.base_m.tolist()
            size_m = (wide_m, wide_m, 0.04)
            shown += [
                ShownThing(f'{robot} table', (x_m, y_m, z_m - 0.02), size_m, True, WOOD),
                ShownThing(robot, (0.0, 0.0, 0.0), (0.08, 0.0, 0.0), points_m=arm.chain_m),
            ]
        return shown

    def _on_event(self, event: WorldEvent) -> None:
        line = event.line()
        print(line, flush=True)
        if self._file is not None:
            self._file.write(f'{line}\n')
            self._file.flush()
        if self._topics is not None:
            self._topics.tell_event(line)


def _fixed(value: Any) -> Any:
    """Return a value of JSON with tuples for lists."""
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


async def _lines(source: TextIO) -> AsyncIterator[bytes]:
    """Give the lines of an input, as they come."""
    mode = os.fstat(source.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or source.isatty()):
        # No loop can wait for a file or /dev/null, and none need: reading them never blocks.
        for line in source.buffer:
            yield line
        return
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), source
    )
    while line := await reader.readline():
        yield line
