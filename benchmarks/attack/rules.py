"""The rules that hold whatever happens to a fleet, and what breaks them.

Every function takes records of what happened, with times on the machine's monotonic clock (s), and
returns breaches. None of them talks to a running program.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from timely_llm_ros.audit import verify_log
from timely_llm_ros.errors import PlanError
from timely_llm_ros.skills import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.attack.fleet import Run, Task
    from timely_llm_ros.skills import SkillSet

STILL_PHASES = ('ground', 'hover', 'landing', 'wreck')
HALTS = ('rc 0 0 0 0', 'stop', 'land', 'emergency')
TELLO_COMMANDS = {
    'forward': (20, 500), 'back': (20, 500), 'left': (20, 500), 'right': (20, 500),
    'up': (20, 500), 'down': (20, 500), 'cw': (1, 360), 'ccw': (1, 360), 'speed': (10, 100),
}  # fmt: skip
"""Commands of the Tello SDK with a number, and its range (cm, degrees, cm/s)."""
TELLO_WORDS = ('command', 'takeoff', 'land', 'streamon', 'streamoff', 'battery?', 'speed?', *HALTS)

END_LIMIT_S = 60.0
"""A task that is this old has ended (s)."""

SEEN_OBJECT = re.compile(r'thing_\d+')
NUMBERED = re.compile(r'delay\([1-9]\d{3}\)|\w+\(thing_\d+\)')
"""Calls that are in one task of one robot alone."""


@dataclass(frozen=True, slots=True)
class Breach:
    """What broke a rule, and when."""

    at_s: float
    rule: str
    what: str


@dataclass(frozen=True, slots=True)
class Motion:
    """A time in which a body moves, or does a call."""

    began_s: float
    ended_s: float
    what: str


@dataclass(frozen=True, slots=True)
class Loss:
    """A time in which nobody is there to tell a robot what to do.

    It has to be still ``limit_s`` after ``began_s``, and stay so until ``until_s``.
    """

    robot: str
    began_s: float
    until_s: float
    limit_s: float
    what: str


@dataclass(frozen=True, slots=True)
class Harm:
    """A time in which tasks of these robots may fail, and what explains that."""

    robots: Sequence[str]
    began_s: float
    until_s: float
    what: str


def motions(lines: Sequence[Mapping[str, Any]]) -> list[Motion]:
    """Return when a body moved, by its journal."""
    mock = any('host' in line for line in lines)
    return _flights(lines) if mock else _calls(lines)


def _calls(lines: Sequence[Mapping[str, Any]]) -> list[Motion]:
    ends = [line['t'] for line in lines[1:]] + [inf]
    return [
        Motion(line['t'], end_s, line['call'])
        for line, end_s in zip(lines, ends, strict=False)
        if line['event'] == 'start'
    ]


def _flights(lines: Sequence[Mapping[str, Any]]) -> list[Motion]:
    """A Tello that is told to halt counts as safe from then on, until it is told to move."""
    found, began_s, what = [], inf, ''
    for line in sorted(lines, key=lambda line: float(line['t'])):
        halts = line['event'] == 'command' and line['what'] in HALTS
        still = line['event'] == 'phase' and line['what'] in STILL_PHASES
        if (halts or still) and began_s < inf:
            found.append(Motion(began_s, line['t'], what))
            began_s = inf
        elif line['event'] == 'phase' and not still and began_s == inf:
            began_s, what = line['t'], line['what']
    return [*found, Motion(began_s, inf, what)] if began_s < inf else found


def unsafe(
    loss: Loss, journals: Mapping[str, Sequence[Motion]], unguarded: Iterable[Harm] = ()
) -> list[Breach]:
    """A robot that nobody plans for, or nobody drives, is safe within the limit and stays so.

    Where its worker and its guard are dead, it is from when its executor is back.
    """
    due_s = loss.began_s + loss.limit_s
    for harm in unguarded:
        meets = harm.began_s < loss.until_s and loss.began_s < harm.until_s
        if meets and loss.robot in harm.robots:
            due_s = max(due_s, harm.until_s)
    for motion in journals[loss.robot]:
        at_s, ended_s = max(motion.began_s, due_s), min(motion.ended_s, loss.until_s)
        if at_s < ended_s:
            late_s = ended_s - loss.began_s
            what = f'{loss.robot}: {motion.what} until {late_s:.2f} s after: {loss.what}'
            return [Breach(at_s, 'safe in time', what)]
    return []


def first_actions(robot: str, lines: Iterable[Mapping[str, Any]]) -> list[Breach]:
    """Each process that drives a simulated body begins with the safe action."""
    known: set[int] = set()
    breaches = []
    for line in lines:
        if line['pid'] not in known and line['event'] != 'safe':
            what = f'{robot}: began with {line["event"]} {line["call"]}'
            breaches.append(Breach(line['t'], 'begins safely', what))
        known.add(line['pid'])
    return breaches


def invalid_calls(
    robot: str, lines: Iterable[Mapping[str, Any]], skill_set: SkillSet
) -> list[Breach]:
    """Nothing invalid reaches a driver."""
    breaches = []
    for line in lines:
        wrong = ''
        if line['event'] == 'start':
            objects = SEEN_OBJECT.findall(line['call'])
            try:
                parse(f'{line["call"]};', skill_set, frozenset(objects))
            except PlanError as err:
                wrong = str(err)
        elif line['event'] == 'command' and not _is_of_the_sdk(line['what']):
            wrong = line['what']
        if wrong:
            breaches.append(Breach(line['t'], 'only valid calls', f'{robot}: {wrong}'))
    return breaches


def _is_of_the_sdk(command: str) -> bool:
    word, _, number = command.partition(' ')
    if command in TELLO_WORDS:
        return True
    if word not in TELLO_COMMANDS or not number.isdigit():
        return False
    least, greatest = TELLO_COMMANDS[word]
    return least <= int(number) <= greatest


def repeated_calls(robot: str, lines: Iterable[Mapping[str, Any]]) -> list[Breach]:
    """No call is made twice: each task's calls are unlike all others."""
    seen: Counter[str] = Counter()
    breaches = []
    for line in lines:
        if line['event'] == 'start' and NUMBERED.fullmatch(line['call']):
            seen[line['call']] += 1
            if seen[line['call']] > 1:
                breaches.append(
                    Breach(line['t'], 'no segment twice', f'{robot}: {line["call"]} again')
                )
    return breaches


def repeated_events(
    events: Iterable[tuple[float, Mapping[str, Any]]],
) -> list[Breach]:
    """The planner tells each end of a task and each start of a segment once."""
    seen: set[tuple[Any, ...]] = set()
    breaches = []
    for at_s, event in events:
        if event['what'] == 'ended':
            told: tuple[Any, ...] = (event['client'], event['plan'], 'ended')
        elif event['what'] == 'segment_started':
            told = (event['client'], event['plan'], 'started', event['segment'])
        else:
            continue
        if told in seen:
            breaches.append(Breach(at_s, 'ends once', f'task {event["plan"]}: {told[2:]} again'))
        seen.add(told)
    return breaches


def ends(tasks: Iterable[Task], now_s: float) -> list[Breach]:
    """Each task ends once, in time."""
    breaches = []
    for task in tasks:
        name = f'task {task.key} of {task.client} for {task.robot} ({task.instruction[:40]!r})'
        if len(task.ends) > 1:
            breaches.append(Breach(task.ends[1][0], 'ends once', f'{name}: {task.ends}'))
        if not task.over and now_s - task.sent_s > END_LIMIT_S:
            breaches.append(Breach(task.sent_s, 'ends once', f'{name}: never'))
    return breaches


def unexplained(tasks: Iterable[Task], harms: Sequence[Harm]) -> list[Breach]:
    """A task that no fault could touch succeeds."""
    breaches = []
    for task in tasks:
        if task.hostile or not task.ends or task.ends[0][1] == 'succeeded':
            continue
        at_s, how, error = task.ends[0]
        if not any(
            task.robot in harm.robots and harm.began_s < at_s and task.sent_s < harm.until_s
            for harm in harms
        ):
            what = f'task {task.key} for {task.robot}: {how}: {error[:200]}'
            breaches.append(Breach(at_s, 'no failure without a fault', what))
    return breaches


def idle(
    tasks: Iterable[Task],
    journals: Mapping[str, Iterable[Mapping[str, Any]]],
    limits_s: Mapping[str, float],
    began_s: float,
    ended_s: float,
) -> list[Breach]:
    """Every robot is back at work soon after every fault.

    Faults may follow one another so fast that no task succeeds: calls that end are work too.
    """
    done = {
        robot: [line['t'] for line in lines if line['event'] == 'end']
        for robot, lines in journals.items()
    }
    for task in tasks:
        if task.ends and task.ends[0][1] == 'succeeded' and not task.hostile:
            done[task.robot].append(task.ends[0][0])
    breaches = []
    for robot, limit_s in limits_s.items():
        for last_s, next_s in pairwise([began_s, *sorted(done[robot]), ended_s]):
            if next_s - last_s > limit_s:
                what = f'{robot}: nothing done for {next_s - last_s:.0f} s'
                breaches.append(Breach(last_s, 'back at work', what))
    return breaches


def logs(runs: Iterable[Run]) -> list[Breach]:
    """No program tells of a fault of its own."""
    breaches, read = [], set()
    for run in runs:
        if run.child.log in read:
            continue
        read.add(run.child.log)
        text = run.child.log.read_text(errors='replace')
        for match in re.finditer(r'Traceback \(most|Segmentation|Fatal Python|was never', text):
            tail = text[match.start() : match.start() + 1500].strip().splitlines()
            what = f'{run.name}: {tail[0]} ... {tail[-1][:160]}'
            breaches.append(Breach(run.ended_s or run.began_s, 'no traceback', what))
            break
    return breaches


def audit_logs(logs: Iterable[Path], tasks: Iterable[Task]) -> list[Breach]:
    """Every audit log verifies, one changed byte is found, and all ends that clients saw are there.

    No line is torn off: the machine does not lose its power, and the logs' disk is not full.
    """
    breaches, told = [], dict[str, str]()
    for log in logs:
        content, verdict, now_s = bytearray(log.read_bytes()), verify_log(log), time.monotonic()
        if verdict.tampered or verdict.torn_bytes or b'"what": "torn"' in content:
            breaches.append(Breach(now_s, 'the audit log verifies', f'{log.name}: {verdict}'))
            continue
        for line in map(json.loads, content.splitlines()):
            plan = line.get('task', '').replace('-', '')
            if line['what'] == 'ended':
                told[plan] = line['status']
            elif line['what'] == 'refused' and 'segment' not in line:
                told[plan] = 'aborted'
        if content:
            place = random.Random(log.name).randrange(len(content))
            content[place] ^= 1
            copy = log.with_suffix('.changed')
            copy.write_bytes(content)
            found = verify_log(copy)
            if not found.tampered and not found.torn_bytes:
                what = f'{log.name}: byte {place} of {len(content)} was changed: {found}'
                breaches.append(Breach(now_s, 'a changed byte is found', what))
    missing = lost_from_trace(told, tasks, -inf, inf)
    return breaches + [replace(breach, rule='the audit log agrees') for breach in missing]


def lost_from_trace(
    told: Mapping[str, str],
    tasks: Iterable[Task],
    began_s: float,
    ended_s: float,
    deaf: Sequence[tuple[float, float]] = (),
) -> list[Breach]:
    """A trace has each end that clients saw while it was recorded, and says the same of it.

    Args:
        told: How each plan ended by the trace, by the plan's id.
        tasks: All tasks.
        began_s: From then on everything was recorded.
        ended_s: What came later may be missing.
        deaf: Times in which recorder and planner may not have met: each is new to the other.
    """
    breaches = []
    for task in tasks:
        if not task.plan or not task.ends or not began_s < task.sent_s < task.ends[0][0] < ended_s:
            continue
        if any(since_s < task.ends[0][0] < until_s for since_s, until_s in deaf):
            continue
        if told.get(task.plan) != task.ends[0][1]:
            what = f'task {task.key} {task.ends[0][1]}, as written {told.get(task.plan)}'
            breaches.append(Breach(task.ends[0][0], 'trace agrees', what))
    return breaches


def two_planners(heard: Iterable[tuple[float, str, str, bytes]]) -> list[Breach]:
    """All segments of a plan are of one planner, and one whose place another took is not heard.

    Args:
        heard: When a segment was heard, its robot, its plan and who published it, oldest first.
    """
    authors: dict[str, bytes] = {}
    speakers: dict[str, list[bytes]] = {}
    breaches = []
    for at_s, robot, plan, publisher in heard:
        known = speakers.setdefault(robot, [])
        if authors.setdefault(plan, publisher) != publisher:
            what = f'{robot}: plan {plan} of {authors[plan].hex()} and of {publisher.hex()}'
            breaches.append(Breach(at_s, 'one planner', what))
        elif publisher in known[:-1]:
            what = f'{robot}: {publisher.hex()} again, after {known[-1].hex()}'
            breaches.append(Breach(at_s, 'one planner', what))
        if publisher not in known:
            known.append(publisher)
    return breaches
