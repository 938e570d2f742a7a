"""One drone with an envelope is told plans, and everything that it does is judged."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.robots.drawn_body import Body, ChargedBody, LocatedBody, Told
from benchmarks.robots.drawn_plans import draw_plan, draw_rules, draw_scene
from benchmarks.robots.envelope_judge import broken_rules
from timely_llm_ros.clock import LoopClock
from timely_llm_ros.errors import PlanLimitError
from timely_llm_ros.execution import SegmentCode, SegmentExecutor, read_envelope
from timely_llm_ros.skills import Segment, parse
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from timely_llm_ros.skills import Scene

TELLO = find_skill_set('tello')

PLANS = 8
"""How many plans one drone is told, one after the other."""


@dataclass
class Trial:
    """What came of many plans.

    Attributes:
        plans: How many plans were told.
        calls: How many calls reached a body.
        refused: How often each rule refused a call.
        broken: What a call broke that reached a body: the rule, the call, the rules and the way.
    """

    plans: int = 0
    calls: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    broken: list[dict[str, Any]] = field(default_factory=list)


async def try_drone(seed: int, trial: Trial, plans: int = PLANS) -> None:
    """Tell one drone of that seed some plans, and note what came of them."""
    draw = random.Random(seed)
    kind = draw.choice((Body, ChargedBody, LocatedBody, LocatedBody))
    rules = draw_rules(draw, knows=kind is not Body)
    off = (0.0, 0.0, 0.0)
    if kind is LocatedBody and draw.random() < 0.5:
        rules['margin_m'] = 0.2
        off = (draw.uniform(-0.14, 0.14), draw.uniform(-0.14, 0.14), draw.uniform(-0.2, 0.2))

    def judge(told: Told) -> None:
        trial.calls += 1
        for rule in broken_rules(rules, told, body.speed):
            found = {'seed': seed, 'rule': rule, 'call': told.call.text, 'rules': rules}
            trial.broken.append({**found, 'way': told.places})

    body = kind(draw, draw.choice((0.0, 0.0, 0.2)), off, judge)
    if kind is not Body:
        body.speed = draw.choice((0.3, 0.5, 0.9))
    await tell(body, rules, draw, trial, plans)


async def tell(
    body: Body, rules: dict[str, Any], draw: random.Random, trial: Trial, plans: int
) -> None:
    """Have an executor with an envelope run drawn plans on a body."""
    executor = SegmentExecutor(body, TELLO, LoopClock(), envelope=read_envelope(rules))
    await executor.start()
    scene = draw_scene(draw)
    for number in range(plans):
        if draw.random() < 0.5:
            scene = draw_scene(draw)
        trial.plans += 1
        code, message = await run_plan(executor, f'plan {number}', draw_plan(draw, scene), scene)
        if code == SegmentCode.OUT_OF_ENVELOPE:
            trial.refused[message.split("rule '")[1].split("'")[0].split(' ')[0]] += 1
    await executor.close()


async def run_plan(
    executor: SegmentExecutor, plan_id: str, text: str, scene: Scene
) -> tuple[int, str]:
    """Run a plan, statement by statement where it is too long for one segment."""
    try:
        statements = parse(text, TELLO, scene)
    except PlanLimitError:
        return SegmentCode.INVALID_SEGMENT, ''
    ending = None
    for index, statement in zip(itertools.count(), statements, strict=False):
        segment = Segment(index, text, (statement,), 1)
        outcome = await executor.execute(plan_id, segment, scene, lambda _: None)
        ending = outcome.ending
        if not outcome.succeeded:
            break
    executor.end_plan(plan_id)
    return (SegmentCode(ending.code), ending.message) if ending else (SegmentCode.NONE, '')
