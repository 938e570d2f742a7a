"""The world in real time: mock Tellos in it, ROS topics of what they see, and tasks to judge."""

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
from timely_llm_ros.sample_tasks import ANIMALS, PEOPLE
from timely_llm_ros.world.aircraft import WorldAircraft
from timely_llm_ros.world.judge import WorldTask
from timely_llm_ros.world.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from typing import TextIO

    from timely_llm_ros.nodes.bodies import BodyTopics
    from timely_llm_ros.world.event_log import WorldEvent
    from timely_llm_ros.world.options import Bay, WorldOptions

PERIOD_S = 0.1
"""How often poses are told; things, and what each robot sees, every second time (s)."""

_PERSON, _ANIMAL, _THING = (0.9, 0.45, 0.2), (0.85, 0.7, 0.2), (0.45, 0.6, 0.8)


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
        self._file = events
        self._topics: BodyTopics | None = None

    async def serve(self, topics: BodyTopics, stop: asyncio.Event) -> int:
        """Live until the event is set or the input ends; return the exit code."""
        self._topics = topics
        tasks = []
        try:
            for mock in self._mocks.values():
                await mock.start()
            print(f'world of {", ".join(self.world.robots)}', flush=True)
            tasks = [asyncio.create_task(self._tell()), asyncio.create_task(self._obey(stop))]
            await stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            for mock in self._mocks.values():
                await mock.close()
        return 0

    def obey(self, line: str) -> None:
        """Do what a line asks for: ``{"begin": {a task}}`` or ``{"end": "its key"}``.

        Raises:
            ConfigurationError: It asks for something else.
        """
        try:
            match json.loads(line):
                case {'begin': dict(fields)}:
                    fields['targets'] = tuple(fields.get('targets', ()))
                    self.world.begin(WorldTask(**fields))
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

    async def _tell(self) -> None:
        world, topics = self.world, self._topics
        assert topics is not None  # noqa: S101 (it is set before)
        for turn in itertools.count():
            for number, robot in enumerate(world.robots):
                place_m = world.drones.positions_m[number].tolist()
                topics.tell_pose(robot, place_m, world.pose_of(robot)[3])
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
                kind, shape = thing.item.kind, thing.shape
                color = _PERSON if kind in PEOPLE else _ANIMAL if kind in ANIMALS else _THING
                at: Any = self.world.data.xpos[thing.body].tolist()
                size_m = (2 * shape.radius_m, 2 * shape.radius_m, shape.height_m)
                shown.append(ShownThing(thing.item.name, tuple(at), size_m, shape.is_cube, color))
        return shown

    def _on_event(self, event: WorldEvent) -> None:
        line = event.line()
        print(line, flush=True)
        if self._file is not None:
            self._file.write(f'{line}\n')
            self._file.flush()
        if self._topics is not None:
            self._topics.tell_event(line)


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
