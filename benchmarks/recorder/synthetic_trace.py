"""Plausible traces of a fleet, made without a planner: one engine, tasks in bursts."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from builtin_interfaces.msg import Duration, Time
from rclpy.serialization import serialize_message
from timely_llm_ros.msg import SchedulerState, SkillCall, SkillSegment, TaskEvent
from unique_identifier_msgs.msg import UUID

from lrtrace.storage import TraceWriter

if TYPE_CHECKING:
    from pathlib import Path

T0_NS = 1_760_000_000_000_000_000
STEP_S = 0.0217
KINDS = ('look_for', 'check_on', 'find_tool', 'avoid_injury', 'evade_animal', 'stack', 'sort')
CALLS = {
    'drone': ['takeoff', 'goto(cat_3)', 'scan', 'take_picture', 'land'],
    'arm': [
        'pick(cup_2)',
        'place(tray_1)',
        'pick(fork_1)',
        'place(box_4)',
        'wipe(table_1)',
        'home',
    ],
}
ROBOTS = tuple([f'drone_{n}' for n in range(1, 7)] + ['arm_1', 'arm_2'])


@dataclass
class Plan:
    robot: str
    kind: str
    instruction: str
    received_s: float
    urgent: bool
    calls: list[str]
    lengths_s: list[float]
    tokens: list[int]
    plan_id: UUID = field(default_factory=UUID)
    free_s: float = 0.0
    done: int = 0


def duration(seconds: float) -> Duration:
    ns = round(seconds * 1e9)
    return Duration(sec=ns // 10**9, nanosec=ns % 10**9)


def stamp(seconds: float) -> Time:
    ns = T0_NS + round(seconds * 1e9)
    return Time(sec=ns // 10**9, nanosec=ns % 10**9)


def workload(seed: int, bursts: int) -> list[Plan]:
    rng = random.Random(seed)
    plans = []
    for burst in range(bursts):
        for robot in rng.sample(ROBOTS, rng.randint(4, 8)):
            arm = robot.startswith('arm')
            kind = rng.choice(KINDS[5:] if arm else KINDS[:5])
            urgent = kind in ('avoid_injury', 'evade_animal')
            calls = CALLS['arm'] * 2 if arm else CALLS['drone']
            if urgent:
                calls = ['move_up(100)', 'hover']
            plans.append(
                Plan(
                    robot=robot,
                    kind=kind,
                    instruction=f'{kind} for {robot}, burst {burst}',
                    received_s=14.0 * burst + rng.random() * 0.5,
                    urgent=urgent,
                    calls=list(calls),
                    lengths_s=[rng.uniform(0.6, 2.0) for _ in calls],
                    tokens=[rng.randint(3, 7) for _ in calls],
                    plan_id=UUID(uuid=list(uuid.UUID(int=rng.getrandbits(128)).bytes)),
                )
            )
    return sorted(plans, key=lambda plan: plan.received_s)


def messages(plans: list[Plan], *, whole: bool) -> list[tuple[float, str, Any]]:
    """Return (when, topic, message) of the whole run: one engine, one generation at a time."""
    found: list[tuple[float, str, Any]] = []
    now = 0.0
    for plan in plans:
        plan.free_s, plan.done = plan.received_s, 0
        found.append((plan.received_s, '/task_events', event(plan, TaskEvent.ACCEPTED, 0.0)))
    waiting: dict[int, list[float]] = {id(plan): [] for plan in plans}
    executed: dict[int, float] = {id(plan): 0.0 for plan in plans}
    while open_plans := [plan for plan in plans if plan.done < len(plan.calls)]:
        ready = [plan for plan in open_plans if plan.received_s <= now]
        if not ready:
            now = min(plan.received_s for plan in open_plans)
            continue
        if whole:
            plan = ready[0]
            count = len(plan.calls)
        else:
            plan = min(ready, key=lambda p: (p.done > 0, not p.urgent, p.free_s))
            count = 1
        part = slice(plan.done, plan.done + count)
        generation_s = STEP_S * sum(plan.tokens[part])
        now += generation_s
        index = 0 if whole else plan.done
        text = ''.join(f'{call};' for call in plan.calls[part])
        found.append(
            (now, f'/{plan.robot}/skill_segments', segment(plan, index, part, generation_s, now))
        )
        started = max(now + 0.004, plan.free_s)
        waiting[id(plan)].append(started - plan.free_s)
        ended = started + sum(plan.lengths_s[part])
        executed[id(plan)] += ended - started
        for what, at in ((TaskEvent.SEGMENT_STARTED, started), (TaskEvent.SEGMENT_ENDED, ended)):
            message = event(plan, what, at - plan.received_s)
            message.segment, message.text = index, text
            found.append((at, '/task_events', message))
        plan.free_s = ended
        plan.done += count
        if plan.done == len(plan.calls):
            message = event(plan, TaskEvent.ENDED, ended - plan.received_s)
            waits = waiting[id(plan)]
            message.status, message.segments = 4, len(waits)
            message.response_time = duration(waits[0])
            message.waiting_time = duration(sum(waits))
            message.execution_time = duration(executed[id(plan)])
            message.completion_time = duration(sum(waits) + executed[id(plan)])
            peak, ert, slope = (2.0, 0.2, -6.67) if plan.urgent else (1.0, 1.0, -2.0)
            message.achieved_utility = min(peak, slope * (waits[0] - ert) + peak)
            message.tokens = sum(plan.tokens)
            found.append((ended, '/task_events', message))
        found.append((now, '/scheduler_state', state(whole, len(ready), now)))
    return sorted(found, key=lambda item: item[0])


def event(plan: Plan, what: int, at_s: float) -> TaskEvent:
    message = TaskEvent(event=what, robot=plan.robot, task_kind=plan.kind)
    message.header.stamp = stamp(plan.received_s + at_s)
    message.plan_id, message.at = plan.plan_id, duration(at_s)
    message.instruction = plan.instruction
    message.skill_set = 'arm' if plan.robot.startswith('arm') else 'tello'
    message.utility.expected_response = duration(0.2 if plan.urgent else 1.0)
    message.utility.slope_per_s = -6.67 if plan.urgent else -2.0
    message.utility.peak = 2.0 if plan.urgent else 1.0
    return message


def segment(plan: Plan, index: int, part: slice, generation_s: float, now_s: float) -> SkillSegment:
    message = SkillSegment(robot=plan.robot, index=index, tokens=sum(plan.tokens[part]))
    message.header.stamp = stamp(now_s)
    message.plan_id = plan.plan_id
    message.text = ''.join(f'{call};' for call in plan.calls[part])
    for call in plan.calls[part]:
        name, _, rest = call.partition('(')
        texts = rest.rstrip(')').split(',') if rest else []
        message.calls.append(SkillCall(skill=name, argument_texts=texts))
    message.generation_time = duration(generation_s)
    message.expected_execution = duration(sum(plan.lengths_s[part]))
    return message


def state(whole: bool, ready: int, now_s: float) -> SchedulerState:
    message = SchedulerState(engine='torch', model='timely-planner')
    message.header.stamp = stamp(now_s)
    message.mode = 'whole_plan' if whole else 'segmented'
    message.policy = 'fcfs' if whole else 'utility'
    message.running, message.queued = 1, max(0, ready - 1)
    message.suspended = 0 if whole else max(0, ready - 2)
    message.kv_tokens, message.kv_capacity_tokens = 300 * ready, 16384
    message.step_time = duration(STEP_S)
    return message


def write_trace(
    folder: Path, *, whole: bool = False, seed: int = 1, bursts: int = 4, close: bool = True
) -> TraceWriter:
    """Write a trace of eight robots; leave it open like a killed recorder if not ``close``."""
    writer = TraceWriter(folder, custom_data={'seed': str(seed), 'time_scale': '1.0'})
    for at_s, topic, message in messages(workload(seed, bursts), whole=whole):
        name = f'timely_llm_ros/msg/{type(message).__name__}'
        writer.add_topic(topic, name)
        writer.write(topic, serialize_message(message), log_ns=T0_NS + round(at_s * 1e9))
    if close:
        writer.close()
    return writer
