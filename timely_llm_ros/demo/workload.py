"""The demo's tasks: a seeded mix of kinds, several arriving at once."""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.sample_tasks import KINDS, ask, kinds_of, sample_scene, sample_task
from timely_llm_ros.skills import Scene, expected_execution_s, parse
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.sample_tasks import TaskSample
    from timely_llm_ros.utility import TimeUtility

MAX_DRONES, MAX_ARMS = 12, 4
"""More robots than that are no demo any more."""

BURST_PERIOD_S = 19.0
"""Tasks arrive in bursts this far apart (s): every robot that should be free by then gets one."""

BURST_PERIOD_OF_ROOMS_S = 25.0
"""The same for robots with bodies, which take longer (s)."""

BURST_SPREAD_S = 0.6
"""The tasks of a burst arrive within this time (s)."""

REST_S = 2.0
"""A robot is left alone for so long (s) after the expected end of its task: skills vary."""

LONGEST_S = 13.5
"""Tasks are drawn again while their plans should take longer (s): people watch."""

MAX_DRAWS = 100
"""After so many draws the shortest is taken."""

OBJECTS = (6, 14)
"""Least and most objects of a scene."""

ROOM_OBJECTS = 10
"""Objects of a room."""

SLOWER, SETTLES_S = 1.1, 3.0
"""A robot with a body takes so many times as long as its skills' models say, and this much more
(s): it stands still after each move before the next one begins."""

LEFT_OUT = ('check_for',)
"""Kinds whose plan's text depends on what the robot sees. A whole plan would have to be written
without seeing, which may go on for ever: no fair comparison."""

URGENT_SHARE = 0.3
"""Share of the drones' tasks in which the robot is in danger."""


BUDGETED = (1, 4)
"""Places, in the order of arrival, of the tasks that get a time budget."""

BUDGET_S = 20.0
"""That budget (s): generous, because all robots share the engine."""

IMPOSSIBLE_S = 0.02
"""Budget (s) of a task on top that no engine can keep: it is refused at once."""

REST_OF_BURST_S = 1.5
"""When that one comes after the first task (s)."""


@dataclass(frozen=True, slots=True)
class Robot:
    """One robot of the demo's fleet."""

    name: str
    skill_set: str


@dataclass(frozen=True, slots=True)
class TimedTask:
    """One task of the demo.

    Attributes:
        key: Unique in the workload.
        at_s: When it arrives, since the run began (s).
        expected_execution_s: How long the right plan should take (s).
        time_budget_s: Time within which its plan must have been generated (s); None for none.
    """

    key: str
    at_s: float
    robot: str
    kind: str
    sample: TaskSample
    expected_execution_s: float
    time_budget_s: float | None = None

    @property
    def impossible(self) -> bool:
        """Whether it is there to be refused."""
        return self.time_budget_s == IMPOSSIBLE_S

    @property
    def utility(self) -> TimeUtility:
        """What an answer is worth."""
        return URGENT if self.sample.urgent else NORMAL

    def command(self) -> dict[str, Any]:
        """Return the task as ``nodes/tools/plan_client.py`` takes it."""
        budget = {} if self.time_budget_s is None else {'time_budget_s': self.time_budget_s}
        return {
            **budget,
            'key': self.key,
            'robot': self.robot,
            'instruction': self.sample.instruction,
            'task_kind': self.kind,
            'scene': [asdict(item) for item in self.sample.scene.objects],
            'utility': self.utility.as_dict(),
            'when_busy': 'queue',
        }


def fleet(robots: int) -> tuple[Robot, ...]:
    """Return a fleet of that many robots, a quarter of them arms.

    Raises:
        ConfigurationError: The number is out of range.
    """
    arms = max(1, robots // 4) if robots > 1 else 0
    if not 1 <= robots <= MAX_DRONES + MAX_ARMS or arms > MAX_ARMS:
        raise ConfigurationError(f'{robots} robots: expected 1 to {MAX_DRONES + MAX_ARMS}')
    drones = [Robot(f'drone_{number + 1}', 'tello') for number in range(robots - arms)]
    return (*drones, *(Robot(f'arm_{number + 1}', 'arm') for number in range(arms)))


def ros_fleet(robots: int) -> tuple[Robot, ...]:
    """Return a fleet of drones, rovers and arms with ROS interfaces, in turns.

    Raises:
        ConfigurationError: The number is out of range.
    """
    if not 1 <= robots <= MAX_DRONES:
        raise ConfigurationError(f'{robots} robots with --drivers ros: expected 1 to {MAX_DRONES}')
    kinds = (('drone', 'tello'), ('rover', 'rover'), ('arm', 'arm'))
    found = [(kinds[place % 3], place // 3 + 1) for place in range(robots)]
    return tuple(Robot(f'{name}_{number}', skill_set) for (name, skill_set), number in found)


def make_rooms(
    robots: tuple[Robot, ...], seed: int, arrange: Mapping[str, Callable[[Scene], Scene]]
) -> dict[Robot, Scene]:
    """Return a scene around each robot in which every kind of task can be asked for.

    Args:
        robots: The fleet.
        seed: Of the scenes.
        arrange: By skill set, lays a scene out as the world has room for it; robots with another
            one get no room.
    """
    rng = random.Random(f'rooms {seed}')
    return {
        robot: arrange[robot.skill_set](_room(rng, robot.skill_set))
        for robot in robots
        if robot.skill_set in arrange
    }


def _room(rng: random.Random, skill_set: str) -> Scene:
    kinds = [kind.number for kind in kinds_of(skill_set) if kind.name not in LEFT_OUT]
    scene = sample_scene(rng, kinds, ROOM_OBJECTS)
    for _ in range(MAX_DRAWS if skill_set == 'arm' else 0):
        # An arm clears away all that lies on a desk: little should.
        if max(_shortest_s(rng, scene, kind) for kind in kinds) <= LONGEST_S:
            break
        scene = sample_scene(rng, kinds, ROOM_OBJECTS)
    return scene


def _shortest_s(rng: random.Random, scene: Scene, kind: int) -> float:
    """Return how long the shortest of some tasks of a kind should take (s)."""
    skill_set = find_skill_set(KINDS[kind].skill_set)
    plans = [one.plan for one in (ask(rng, scene, kind) for _ in range(5)) if one is not None]
    return min(
        (expected_execution_s(parse(plan, skill_set, scene), skill_set, scene) for plan in plans),
        default=math.inf,
    )


def make_workload(
    robots: tuple[Robot, ...], tasks: int, seed: int, rooms: Mapping[Robot, Scene] | None = None
) -> tuple[TimedTask, ...]:
    """Return that many tasks in the order of their arrival; the same for the same arguments.

    A robot that has a room is asked for what is there; any other has a new scene with each task.

    Raises:
        ConfigurationError: The number is out of range.
    """
    if not 1 <= tasks <= 1000:
        raise ConfigurationError(f'{tasks} tasks: expected 1 to 1000')
    rng = random.Random(seed)
    free_s = dict.fromkeys(robots, 0.0)
    shared = {robot.skill_set: _Deck(rng, robot.skill_set) for robot in robots}
    decks = {
        robot: _RoomDeck(rng, robot.skill_set, rooms[robot])
        if rooms and robot in rooms
        else shared[robot.skill_set]
        for robot in robots
    }
    found: list[TimedTask] = []
    burst = 0
    while len(found) < tasks:
        start_s = burst * (BURST_PERIOD_OF_ROOMS_S if rooms else BURST_PERIOD_S)
        ready = [robot for robot in robots if free_s[robot] <= start_s]
        rng.shuffle(ready)
        for robot in ready[: tasks - len(found)]:
            sample, execution_s = decks[robot].draw()
            at_s = start_s + rng.uniform(0.0, BURST_SPREAD_S)
            kind = KINDS[sample.kind].name
            found.append(
                TimedTask(f'task_{len(found) + 1}', at_s, robot.name, kind, sample, execution_s)
            )
            free_s[robot] = at_s + execution_s + REST_S
        burst += 1
    return tuple(sorted(found, key=lambda task: task.at_s))


def with_budgets(tasks: tuple[TimedTask, ...]) -> tuple[TimedTask, ...]:
    """Return the tasks, some with a time budget, and one more that cannot be kept."""
    found = [
        replace(task, time_budget_s=BUDGET_S) if place in BUDGETED else task
        for place, task in enumerate(tasks)
    ]
    at_s = tasks[0].at_s + REST_OF_BURST_S
    found.append(replace(tasks[0], key='impossible', at_s=at_s, time_budget_s=IMPOSSIBLE_S))
    return tuple(sorted(found, key=lambda task: task.at_s))


class _Deck:
    """Draws tasks for robots with one skill set, so that every kind comes up equally often."""

    def __init__(self, rng: random.Random, skill_set: str) -> None:
        self._rng = rng
        self._skill_set = find_skill_set(skill_set)
        kinds = [kind for kind in kinds_of(skill_set) if kind.name not in LEFT_OUT]
        self._kinds = {
            urgent: [kind for kind in kinds if kind.urgent == urgent] for urgent in (True, False)
        }
        self._left: dict[bool, list[int]] = {True: [], False: []}

    def draw(self) -> tuple[TaskSample, float]:
        urgent = bool(self._kinds[True]) and self._rng.random() < URGENT_SHARE
        if not self._left[urgent]:
            self._left[urgent] = [kind.number for kind in self._kinds[urgent]]
            self._rng.shuffle(self._left[urgent])
        number = self._left[urgent].pop()
        drawn = [self._sample(number)]
        while drawn[-1][1] > LONGEST_S and len(drawn) < MAX_DRAWS:
            drawn.append(self._sample(number))
        return min(drawn, key=lambda one: max(one[1], LONGEST_S))

    def _sample(self, number: int) -> tuple[TaskSample, float]:
        objects = max(self._rng.randint(*OBJECTS), KINDS[number].min_objects)
        sample = sample_task(self._rng, number, objects, skill_set=self._skill_set)
        statements = parse(sample.plan, self._skill_set, sample.scene)
        return sample, expected_execution_s(statements, self._skill_set, sample.scene)


class _RoomDeck(_Deck):
    """Draws tasks for one robot that stays in its room, and knows where it will be."""

    def __init__(self, rng: random.Random, skill_set: str, room: Scene) -> None:
        super().__init__(rng, skill_set)
        self._room = room
        self._at: tuple[float, float] | None = None
        """Where the thing is to which it went last; None where it went to none."""

    def draw(self) -> tuple[TaskSample, float]:
        sample, execution_s = super().draw()
        for item in self._room.objects:
            if f'goto({item.name})' in sample.plan:
                self._at = (item.x_m, item.y_m)
        return sample, execution_s

    def _sample(self, number: int) -> tuple[TaskSample, float]:
        sample = None
        for _ in range(MAX_DRAWS):
            found = ask(self._rng, self._room, number)
            # What is asked for may not be there: then something else is asked for.
            number = self._rng.choice(self._kinds[KINDS[number].urgent]).number
            sample = sample or found
            # A drone that flew to a thing stands before it, and gets out of no way forwards.
            if found is not None and (self._at is None or 'move_forward' not in found.plan):
                sample = found
                break
        if sample is None:
            raise ConfigurationError(f'room of {len(self._room.objects)} objects: nothing to ask')
        x_m, y_m = self._at or (0.0, 0.0)
        from_here = Scene(
            tuple(
                replace(item, x_m=item.x_m - x_m, y_m=item.y_m - y_m) for item in self._room.objects
            )
        )
        statements = parse(sample.plan, self._skill_set, sample.scene)
        expected_s = expected_execution_s(statements, self._skill_set, from_here)
        return sample, SLOWER * expected_s + SETTLES_S
