"""The body of a mock Tello: where it is, what it does, and how it answers commands.

It is written by the user guides of the Tello SDK 1.3 and 2.0, not by what a driver expects. What
they leave open is as on aircraft that people measured, or decided for the worse:

- ``ok`` comes when a manoeuvre is over. A command in its midst is answered with an error.
- ``stop`` works at any time: it breaks off a landing too, and the aircraft hovers where it is.
- ``rc`` is not answered and ends no move.
- 15 s without a command and the aircraft lands by itself; any command in the midst ends that.
- An aircraft whose motors are cut in the air is a wreck.
- ``time`` counts the seconds for which the motors ran, over all flights.

Flips, curves, ``go`` and mission pads are commands that it does not know. The caller passes the
time in, so a body can be faster than real time.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from timely_llm_ros.drivers.tello.mock.maneuver import Maneuver
from timely_llm_ros.drivers.tello.mock.pose import Phase, Pose

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.drivers.tello.mock.airframe import Airframe

TAKEOFF_M = 0.8
"""Height to which it takes off (m)."""

SILENCE_LAND_S = 15.0
"""It lands by itself this long after its last command, or after the end of its last move (s)."""

TURN_DEG_S = 60.0
CLIMB_M_S, SINK_M_S = 0.5, 0.4
REACT_S, SETTLE_S = 0.1, 0.4
"""What every move takes beside its way (s), and how much of that is before it."""

SPIN_UP_S, TAKEOFF_S = 1.0, 3.5
WIND_DOWN_S = 0.5
"""How long the motors turn on the ground after a landing (s)."""

TAKEOFF_PERCENT = 10.0
"""With less charge it does not take off."""

EMPTY_PERCENT = 3.0
"""With so little charge it lands by itself."""

ARRIVED_M, ARRIVED_DEG, SLOW_M_S = 0.08, 3.0, 0.06
"""A manoeuvre of an airframe is over this near to its end (m, degrees) and this slow (m/s)."""

OVERDUE_S = 3.0
"""An airframe that has not arrived so long after it should have (s) gives up the manoeuvre."""

_DIRECTIONS = {
    'forward': (1, 0, 0, 0),
    'back': (-1, 0, 0, 0),
    'left': (0, 1, 0, 0),
    'right': (0, -1, 0, 0),
    'up': (0, 0, 1, 0),
    'down': (0, 0, -1, 0),
    'cw': (0, 0, 0, 1),
    'ccw': (0, 0, 0, -1),
}
"""What each move changes: forward, left, up, clockwise."""


class TelloBody:
    """One aircraft. Call :meth:`advance` before anything else at a new time.

    Args:
        battery_percent: Its charge at first.
        drain_percent_s: How much charge a second in the air costs.
        airframe: What carries it; without one it is always where it is told to be.
        on_phase: Told the time (s) and the new phase at every change.
    """

    def __init__(
        self,
        *,
        battery_percent: float = 87.0,
        drain_percent_s: float = 0.12,
        airframe: Airframe | None = None,
        on_phase: Callable[[float, Phase], None] = lambda _time_s, _phase: None,
    ) -> None:
        self._airframe = airframe
        self._aim = Pose()
        """Where it is told to be at this moment."""
        self.phase = Phase.GROUND
        self.battery_percent, self._drain_percent_s = battery_percent, drain_percent_s
        self.speed_m_s = 0.5
        self.takes_commands = False
        """Whether its video stream is on."""
        self.stalled = False
        """Whether moves are slow and never end, as when its camera sees no ground."""
        self.blind = False
        """Whether moves break off half way, as with an inertial unit that is not calibrated."""
        self.height_error_m = 0.0
        """How much too low it reports its height; real ones 0.1 to 0.6 m, anew in each flight."""
        self.refusals: dict[str, str] = {}
        """Its answers to commands that it does not do, by their first word."""
        self._on_phase = on_phase
        self._maneuver: Maneuver | None = None
        self._lands_for_silence = False
        self._rates = (0.0, 0.0, 0.0, 0.0)
        self._noise = random.Random(0)
        self._now_s = self._told_s = self._airborne_s = 0.0

    @property
    def pose(self) -> Pose:
        """Where it is."""
        return self._aim if self._airframe is None else self._airframe.pose

    @property
    def flies(self) -> bool:
        """Whether its motors turn."""
        return self.phase not in (Phase.GROUND, Phase.WRECK)

    def advance(self, now_s: float) -> None:
        """Let time pass until ``now_s``, which never goes back."""
        step_s = max(0.0, now_s - self._now_s)
        if self.flies:
            self._airborne_s += step_s
            drained = self.battery_percent - self._drain_percent_s * step_s
            self.battery_percent = max(0.0, drained)
        self._now_s = now_s
        maneuver = self._maneuver
        if maneuver is not None:
            self._follow(maneuver, now_s)
        elif self.phase is Phase.RC:
            right, forward, up, turn = self._rates
            self._aim = self._aim.moved(
                forward * step_s, -right * step_s, up * step_s, turn * step_s
            )
        if self._airframe is not None:
            self._airframe.steer(now_s, self._aim, motors=self.flies)
            if self._airframe.is_wreck and self.phase is not Phase.WRECK:
                self._break_off('error Motor stop')
                self._enter(Phase.WRECK, now_s)
        silent = now_s - self._told_s > SILENCE_LAND_S and self._maneuver is None
        empty = self.battery_percent <= EMPTY_PERCENT
        if self.flies and self.phase is not Phase.LANDING and (silent or empty):
            self._break_off('error Auto land')
            self._land(lambda _: None)
            self._lands_for_silence = not empty

    def take(self, command: str, answer: Callable[[str], None]) -> None:
        """Do a command; ``answer`` is called at once, at the end of a move, or never."""
        word, *arguments = command.split() or ['']
        if word != 'command' and not self.takes_commands:
            return
        self._told_s = self._now_s
        if self.phase is Phase.LANDING and self._lands_for_silence and word not in ('', 'land'):
            # Somebody is there after all.
            self._break_off('')
            self._enter(Phase.HOVER, self._now_s)
        if word in self.refusals:
            answer(self.refusals[word])
            return
        match word:
            case 'command':
                self.takes_commands = True
                answer('ok')
            case 'takeoff':
                self._take_off(answer)
            case 'land':
                self._land_if_it_flies(answer)
            case 'emergency':
                self._cut(answer)
            case 'stop':
                self._stop(answer)
            case 'rc':
                self._steer(_whole(arguments, 4, -100, 100))
            case 'speed':
                self._set_speed(_whole(arguments, 1, 10, 100), answer)
            case 'streamon' | 'streamoff':
                answer('ok')
            case _ if word in (reads := self._readings()):
                answer(f'{reads[word]}\r\n')
            case _ if word in _DIRECTIONS:
                self._move(word, arguments, answer)
            case _:
                answer(f'unknown command: {word}')

    def state_line(self, pace: float = 1.0) -> str:
        """Return the state as it is sent: the fields of SDK 2.0, without mission pads.

        Args:
            pace: How many times as fast as its own clock runs it is seen to fly.
        """
        forward, left, up = (pace * part for part in self._velocity_m_s())
        yaw = round(math.remainder(self.pose.yaw_deg, 360.0))
        shake = self._noise.gauss
        # Velocities in dm/s, as aircraft send them whatever the guide says.
        return (
            f'mid:-1;x:-100;y:-100;z:-100;mpry:0,0,0;pitch:0;roll:0;yaw:{yaw};'
            f'vgx:{_dm(forward)};vgy:{_dm(-left)};vgz:{_dm(-up)};templ:61;temph:63;'
            f'tof:{self._tof_cm};h:{self._height_cm};bat:{int(self.battery_percent)};'
            f'baro:{58.9 + self.pose.z_m + shake(0, 0.1):.2f};time:{int(self._airborne_s)};'
            f'agx:{shake(0, 5):.2f};agy:{shake(0, 5):.2f};agz:{shake(-1000, 5):.2f};\r\n'
        )

    @property
    def _height_cm(self) -> int:
        height_m = self.pose.z_m - self.height_error_m if self.flies else self.pose.z_m
        return max(0, round(height_m * 100))

    @property
    def _tof_cm(self) -> int:
        """Return what it measures down to the ground: never less than 10 cm."""
        return max(10, round(self.pose.z_m * 100))

    def _readings(self) -> dict[str, str]:
        return {
            'speed?': f'{self.speed_m_s * 100:.1f}',
            'battery?': f'{int(self.battery_percent)}',
            'time?': f'{int(self._airborne_s)}s',
            'height?': f'{self._height_cm // 10}dm',
            'tof?': f'{self._tof_cm * 10}mm',
            'temp?': '61~63C',
            'wifi?': '90',
            'sdk?': '20',
        }

    def _follow(self, maneuver: Maneuver, now_s: float) -> None:
        share = maneuver.share(now_s)
        if self._creeps:
            self._aim = maneuver.start.towards(maneuver.end, 0.5 * share)
            return
        self._aim = maneuver.start.towards(maneuver.end, min(1.0, share))
        if self.phase is Phase.MOVE and self.blind and share >= 0.5:
            self._break_off('error No valid imu')
            self._enter(Phase.HOVER, now_s)
        elif now_s >= maneuver.ends_s:
            overdue = now_s >= maneuver.ends_s + OVERDUE_S
            if not (overdue or self._has_arrived(maneuver.end)):
                return
            over_s = maneuver.ends_s if self._airframe is None else now_s
            self._maneuver = None
            self._told_s = max(self._told_s, over_s)
            landed = self.phase is Phase.LANDING
            if landed:
                self._aim = self.pose
            self._enter(Phase.GROUND if landed else Phase.HOVER, over_s)
            maneuver.answer('error' if overdue and not landed else 'ok')

    def _has_arrived(self, end: Pose) -> bool:
        if self._airframe is None:
            return True
        pose = self.pose
        off_deg = abs(math.remainder(pose.yaw_deg - end.yaw_deg, 360.0))
        # One that lands may come to rest on something, and does not sink any more.
        off_m = 0.0 if self.phase is Phase.LANDING else math.dist(pose[:3], end[:3])
        is_slow = all(abs(part) <= SLOW_M_S for part in self._airframe.velocity_m_s)
        return off_m <= ARRIVED_M and off_deg <= ARRIVED_DEG and is_slow

    @property
    def _creeps(self) -> bool:
        return self.stalled and self.phase is Phase.MOVE

    def _take_off(self, answer: Callable[[str], None]) -> None:
        if self.phase is not Phase.GROUND:
            answer('error')
        elif self.battery_percent < TAKEOFF_PERCENT:
            answer('error Low battery')
        else:
            end = self._aim._replace(z_m=TAKEOFF_M)
            way_s = TAKEOFF_S - SPIN_UP_S - SETTLE_S + REACT_S
            self._begin(Phase.TAKEOFF, end, (SPIN_UP_S, way_s, SETTLE_S - REACT_S), answer)

    def _land_if_it_flies(self, answer: Callable[[str], None]) -> None:
        if not self.flies:
            answer('error Motor stop')
        elif self.phase is Phase.LANDING:
            answer('error Auto land')
        else:
            self._break_off('error Auto land')
            self._land(answer)

    def _land(self, answer: Callable[[str], None]) -> None:
        way_s = self._aim.z_m / SINK_M_S
        end = self._aim._replace(z_m=0.0)
        self._begin(Phase.LANDING, end, (0.0, way_s, WIND_DOWN_S), answer)
        self._lands_for_silence = False

    def _cut(self, answer: Callable[[str], None]) -> None:
        fell = self.flies
        self._break_off('error Motor stop')
        if fell:
            self._aim = self._aim._replace(z_m=0.0)
            self._enter(Phase.WRECK, self._now_s)
        answer('ok')

    def _stop(self, answer: Callable[[str], None]) -> None:
        if self.flies:
            self._break_off('forced stop')
            self._aim = self.pose
            self._enter(Phase.HOVER, self._now_s)
        answer('ok' if self.flies else 'error Motor stop')

    def _steer(self, rates: tuple[int, ...] | None) -> None:
        if rates is None or self.phase not in (Phase.HOVER, Phase.RC):
            return
        right, forward, up, turn = (rate / 100 for rate in rates)
        self._rates = (right, forward, up * CLIMB_M_S, turn * TURN_DEG_S)
        self._enter(Phase.RC if any(rates) else Phase.HOVER, self._now_s)

    def _set_speed(self, given: tuple[int, ...] | None, answer: Callable[[str], None]) -> None:
        if given is not None:
            self.speed_m_s = given[0] / 100
        answer('ok' if given is not None else 'out of range')

    def _move(self, word: str, arguments: list[str], answer: Callable[[str], None]) -> None:
        direction = _DIRECTIONS[word]
        turns, climbs = direction[3] != 0, direction[2] != 0
        given = _whole(arguments, 1, *((1, 360) if turns else (20, 500)))
        if given is None:
            answer('out of range')
        elif not self.flies:
            answer('error Motor stop')
        elif self.phase in (Phase.LANDING, Phase.TAKEOFF):
            answer('error Auto land')
        elif self.phase is Phase.MOVE:
            answer('error Not joystick')
        else:
            amount = given[0] if turns else given[0] / 100
            end = self._aim.moved(*(amount * part for part in direction))
            speed = min(self.speed_m_s, CLIMB_M_S) if climbs else self.speed_m_s
            rate = TURN_DEG_S if turns else speed
            parts_s = (REACT_S, amount / rate, SETTLE_S - REACT_S)
            self._begin(Phase.MOVE, end, parts_s, answer)

    def _begin(
        self,
        phase: Phase,
        end: Pose,
        parts_s: tuple[float, float, float],
        answer: Callable[[str], None],
    ) -> None:
        """Begin to fly somewhere by itself: how long it waits, flies, and waits again (s)."""
        before_s, way_s, after_s = parts_s
        starts_s = self._now_s + before_s
        ends_s = starts_s + way_s + after_s
        self._maneuver = Maneuver(self._aim, end, starts_s, way_s, ends_s, answer)
        self._enter(phase, self._now_s)

    def _break_off(self, answer: str) -> None:
        maneuver, self._maneuver = self._maneuver, None
        if maneuver is not None:
            maneuver.answer(answer)

    def _enter(self, phase: Phase, at_s: float) -> None:
        if phase is not self.phase:
            self.phase = phase
            self._on_phase(at_s, phase)

    def _velocity_m_s(self) -> tuple[float, float, float]:
        """Return how fast it is: forward, left and up (m/s)."""
        if self._airframe is not None:
            return self._airframe.velocity_m_s
        if self.phase is Phase.RC:
            right, forward, up, _ = self._rates
            return forward, -right, up
        maneuver = self._maneuver
        share = maneuver.share(self._now_s) if maneuver is not None else 0.0
        if maneuver is None or share == 0 or (share >= 1 and not self._creeps):
            return 0.0, 0.0, 0.0
        start, end = maneuver.start, maneuver.end
        way_s = 2 * maneuver.way_s if self._creeps else maneuver.way_s
        ahead, aside = end.x_m - start.x_m, end.y_m - start.y_m
        angle_rad = math.radians(self.pose.yaw_deg)
        return (
            (ahead * math.cos(angle_rad) - aside * math.sin(angle_rad)) / way_s,
            (ahead * math.sin(angle_rad) + aside * math.cos(angle_rad)) / way_s,
            (end.z_m - start.z_m) / way_s,
        )


def _whole(arguments: list[str], count: int, least: int, greatest: int) -> tuple[int, ...] | None:
    """Return so many whole numbers, or None where one is none or out of range."""
    try:
        values = tuple(int(argument) for argument in arguments)
    except ValueError:
        return None
    if len(values) != count or not all(least <= value <= greatest for value in values):
        return None
    return values


def _dm(velocity_m_s: float) -> int:
    """Return a velocity in dm/s; what moves at all is at least 1."""
    rounded = round(velocity_m_s * 10)
    if rounded == 0 and abs(velocity_m_s) > 1e-6:
        return 1 if velocity_m_s > 0 else -1
    return rounded
