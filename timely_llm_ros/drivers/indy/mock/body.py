"""The controller and the body of a mock Indy7, without a network.

A record is told everything that happens to the arm, so that a test sees what the arm did and not
what a driver believes. Units are the SDK's: millimetres, degrees, seconds.
"""

from __future__ import annotations

import math
import random
import threading
import time
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from timely_llm_ros.drivers.indy.mock import motion as arm_motion
from timely_llm_ros.drivers.indy.mock.motion import JOINT_LIMIT_DEG, Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.drivers.indy.mock.motion import Numbers

    Record = Callable[[dict[str, object]], None]

HOME_POSE = (350.0, 0.0, 400.0, 0.0, 180.0, 0.0)
"""Where the tool is at the home position (mm, deg)."""

MM_PER_S, DEG_PER_S = 1000.0, 120.0
"""Task speed at a velocity ratio of 100 %: the SDK's greatest ones."""

JOINT_DEG_PER_S = 150.0
"""Joint speed at a velocity ratio of 100 %; an Indy7's."""

RAMP_S = 0.1
"""Time in which an acceleration ratio of 100 % reaches a velocity ratio of 25 %."""

START_S = 0.02
"""A motion begins this long after its command; until then the state is that of the one before."""

RECOVERY_S = 0.3
"""How long a recovery takes."""


class OpState(IntEnum):
    """The controller's states that the mock has, with the SDK's numbers."""

    VIOLATE = 2
    RECOVER_SOFT = 4
    IDLE = 5
    MOVING = 6
    COLLISION = 8
    STOP_AND_OFF = 9


class Refusal(IntEnum):
    """The codes of the mock's answers; any but 0 is a refusal."""

    NONE = 0
    NOT_READY = 1
    OUT_OF_REACH = 2
    JOINT_LIMIT = 3
    TOLD_TO = 4


@dataclass(frozen=True, slots=True)
class _Motion:
    """One motion, or the rest of one that is being stopped, at a pace of its own."""

    start: Numbers
    end: Numbers
    joints: bool
    profile: Profile
    began_s: float
    pace: float
    offset: float = 0.0
    length: float = 0.0
    stopping: bool = False

    def share(self, now_s: float) -> float:
        """Return which share of the whole path is behind."""
        if self.length <= 0:
            return 1.0
        return min(1.0, (self.offset + self.profile.travelled(self.local_s(now_s))) / self.length)

    def local_s(self, now_s: float) -> float:
        return max(0.0, now_s - self.began_s) * self.pace

    def is_over(self, now_s: float) -> bool:
        return self.local_s(now_s) >= self.profile.duration_s and now_s >= self.began_s


class IndyBody:
    """One arm. Every method may be called from any thread.

    Args:
        record: Told each event as a record of plain values.
        clock: Tells the time (s).
        speed: The arm is this many times as fast as its ratios say.
        jitter: Relative standard deviation of the durations of motions, up to 0.3.
        seed: Equal seeds draw equal deviations.
    """

    def __init__(
        self,
        record: Record,
        *,
        clock: Callable[[], float] = time.monotonic,
        speed: float = 1.0,
        jitter: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._record, self._clock, self._speed, self._jitter = record, clock, speed, jitter
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._state = OpState.IDLE
        self._motion: _Motion | None = None
        self._reached = True
        self.home = arm_motion.inverse(HOME_POSE) or ()
        """The home position's joint angles (deg)."""
        self._joints, self._pose = self.home, arm_motion.forward(self.home)
        self._violation = ''
        self._refuse_next = ''
        self._pressed = False
        self._recovered_s = 0.0
        self._note('still')

    def move_joints(
        self, target: Sequence[float], velocity: float, acceleration: float
    ) -> tuple[Refusal, str]:
        """Begin a motion to joint angles (deg), at ratios (%); return why not."""
        with self._lock:
            end, ratio = tuple(target), velocity / 100.0
            length = max(abs(b - a) for a, b in zip(self._joints, end, strict=True))
            speed = JOINT_DEG_PER_S * ratio
            ramp = JOINT_DEG_PER_S * 0.25 / RAMP_S * acceleration / 100.0
            return self._begin(end, end, Profile(length, speed, ramp), joints=True)

    def move_line(
        self, target: Sequence[float], velocity: float, acceleration: float
    ) -> tuple[Refusal, str]:
        """Begin a straight motion to a pose (mm, deg), at ratios (%); return why not."""
        with self._lock:
            end = tuple(target)
            ratio, ramp = velocity / 100.0, 0.25 / RAMP_S * acceleration / 100.0
            length_mm = math.dist(self._pose[:3], end[:3])
            straight = Profile(length_mm, MM_PER_S * ratio, MM_PER_S * ramp)
            turn = arm_motion.turn_deg(self._pose, end)
            turning = Profile(turn, DEG_PER_S * ratio, DEG_PER_S * ramp)
            slower = max(straight, turning, key=lambda profile: profile.duration_s)
            return self._begin(end, arm_motion.inverse(end), slower, joints=False)

    def stop(self, category: int) -> None:
        """Stop the motion: at once (0), or by slowing down (1 and 2); 0 and 1 brake."""
        with self._lock:
            now_s = self._advance()
            self._note('stop', category=category)
            if self._motion is None:
                return
            if category == 0 or now_s < self._motion.began_s:
                self._halt()
            else:
                self._slow_down(now_s)

    def recover(self) -> tuple[Refusal, str]:
        """Leave a violation or a collision; return why not."""
        with self._lock:
            now_s = self._advance()
            if self._state == OpState.STOP_AND_OFF:
                self._note('refused', text='emergency stop is pressed')
                return Refusal.NOT_READY, 'emergency stop is pressed'
            if self._state in (OpState.VIOLATE, OpState.COLLISION):
                self._state = OpState.RECOVER_SOFT
                self._recovered_s = now_s + RECOVERY_S / self._speed
                self._note('recover')
            return Refusal.NONE, ''

    def set_output(self, name: str, states: Sequence[int]) -> tuple[Refusal, str]:
        """Switch an output; return why not."""
        with self._lock:
            self._advance()
            if self._state not in (OpState.IDLE, OpState.MOVING):
                return self._refused(Refusal.NOT_READY, self._not_ready())
            self._note('output', name=name, states=list(states))
            return Refusal.NONE, ''

    def status(self) -> dict[str, Any]:
        """Return its state as plain values, in the SDK's names."""
        with self._lock:
            now_s = self._advance()
            motion = self._motion
            begun = motion is not None and now_s >= motion.began_s
            return {
                'op_state': int(self._state),
                'q': list(self._joints),
                'p': list(self._pose),
                'is_in_motion': begun,
                'is_target_reached': self._reached and not begun,
                'violation': self._violation,
            }

    def advance(self) -> None:
        """Let time pass; called often, so that the record is told when motions end."""
        with self._lock:
            self._advance()

    def refuse_next(self, text: str) -> None:
        """Refuse the next motion with this text."""
        with self._lock:
            self._refuse_next = text or 'told to refuse'

    def violate(self, text: str) -> None:
        """Break a limit: the arm brakes, and says why until it is recovered."""
        self._fall(OpState.VIOLATE, text or 'joint 2: torque limit exceeded')

    def collide(self, text: str = '') -> None:
        """Hit something; like a violation."""
        self._fall(OpState.COLLISION, text or 'collision detected at joint 3')

    def press_emergency_stop(self) -> None:
        """Cut the power of the motors: the arm brakes until released and recovered."""
        with self._lock:
            self._pressed = True
            self._fall(OpState.STOP_AND_OFF, 'emergency stop')

    def release_emergency_stop(self) -> None:
        """Pull the button out again; the arm then waits for a recovery."""
        with self._lock:
            if self._pressed:
                self._pressed = False
                self._state = OpState.VIOLATE
                self._note('released')

    def reset(self) -> None:
        """Stand at the home position, unharmed."""
        with self._lock:
            self._motion, self._state, self._reached = None, OpState.IDLE, True
            self._joints, self._pose = self.home, arm_motion.forward(self.home)
            self._violation = self._refuse_next = ''
            self._pressed = False
            self._note('still')

    # Inside, with the lock held

    def _begin(
        self, end: Numbers, joints_deg: Numbers | None, profile: Profile, *, joints: bool
    ) -> tuple[Refusal, str]:
        now_s = self._advance()
        if self._refuse_next:
            text, self._refuse_next = self._refuse_next, ''
            return self._refused(Refusal.TOLD_TO, text)
        if self._state != OpState.IDLE or self._motion is not None:
            return self._refused(Refusal.NOT_READY, self._not_ready())
        if joints_deg is None:
            text = f'no inverse kinematics for {[round(value, 1) for value in end]}'
            return self._refused(Refusal.OUT_OF_REACH, text)
        for index, angle_deg in enumerate(joints_deg):
            if abs(angle_deg) > JOINT_LIMIT_DEG:
                text = f'joint {index} at {angle_deg:.1f} deg: limit {JOINT_LIMIT_DEG:g} deg'
                return self._refused(Refusal.JOINT_LIMIT, text)
        deviation = max(-2.0, min(2.0, self._random.gauss(0.0, 1.0)))
        pace = self._speed / (1.0 + self._jitter * deviation)
        self._motion = _Motion(
            start=self._joints if joints else self._pose,
            end=end,
            joints=joints,
            profile=profile,
            began_s=now_s + START_S / self._speed,
            pace=pace,
            length=profile.length,
        )
        took_s = (START_S + profile.duration_s) / self._speed
        self._note('move', end=list(end), joints=joints, expected_s=took_s)
        return Refusal.NONE, ''

    def _advance(self) -> float:
        now_s = self._clock()
        if self._state == OpState.RECOVER_SOFT and now_s >= self._recovered_s:
            self._state, self._violation = OpState.IDLE, ''
            self._note('recovered')
        motion = self._motion
        if motion is None or now_s < motion.began_s:
            return now_s
        if self._state == OpState.IDLE:
            self._state, self._reached = OpState.MOVING, False
        self._place(motion, motion.share(now_s))
        if motion.is_over(now_s):
            self._reached = not motion.stopping
            self._halt()
        return now_s

    def _place(self, motion: _Motion, share: float) -> None:
        if motion.joints:
            self._joints = arm_motion.between(motion.start, motion.end, share)
            self._pose = arm_motion.forward(self._joints)
            return
        self._pose = arm_motion.pose_between(motion.start, motion.end, share)
        # Between two points in reach there may be one that is not: the arm then stays folded.
        self._joints = arm_motion.inverse(self._pose) or self._joints

    def _slow_down(self, now_s: float) -> None:
        motion = self._motion
        if motion is None or motion.stopping:
            return
        profile, local_s = motion.profile, motion.local_s(now_s)
        speed = profile.speed_at(local_s)
        # What is left is the second half of a path that would have begun at this speed.
        way = speed**2 / (2 * profile.acceleration)
        whole = Profile(2 * way, max(speed, 1e-9), profile.acceleration)
        self._motion = replace(
            motion,
            profile=whole,
            began_s=now_s - whole.duration_s / 2 / motion.pace,
            offset=profile.travelled(local_s) - way,
            stopping=True,
        )

    def _halt(self) -> None:
        if self._motion is not None and self._clock() < self._motion.began_s:
            self._reached = False
        self._motion = None
        if self._state == OpState.MOVING:
            self._state = OpState.IDLE
        self._note('still')

    def _fall(self, state: OpState, text: str) -> None:
        with self._lock:
            self._advance()
            self._state, self._violation = state, text
            self._note(state.name.lower(), text=text)
            self._reached = self._reached and self._motion is None
            self._halt()

    def _not_ready(self) -> str:
        if self._violation:
            return f'op state {self._state.name}: {self._violation}'
        return 'a motion is under way'

    def _refused(self, code: Refusal, text: str) -> tuple[Refusal, str]:
        self._note('refused', text=text)
        return code, text

    def _note(self, event: str, **more: object) -> None:
        self._record(
            {
                't': self._clock(),
                'event': event,
                'op_state': self._state.name,
                'p': [round(value, 3) for value in self._pose],
                'q': [round(value, 3) for value in self._joints],
                **more,
            }
        )
