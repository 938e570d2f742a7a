"""A segment with a skill of too high a risk waits for somebody's word, and holds up nobody else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.errors import InvalidTaskError, NotApprovedError
from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.planner import (
    ApprovalAsked,
    ApprovalEnded,
    PlannerConfig,
    SegmentEnded,
    TaskPhase,
)
from timely_llm_ros.testing import EXACT_SKILLS, Fleet, Script, ScriptedEngine, in_fleet

if TYPE_CHECKING:
    from timely_llm_ros.engines import GenerationRequest

LOOK = replace(EXACT_SKILLS.skills['look'], risk='medium')
ACT = replace(EXACT_SKILLS.skills['act'], risk='high')
RISKY = replace(EXACT_SKILLS, skills={**EXACT_SKILLS.skills, 'look': LOOK})
CONFIG = PlannerConfig(approval_above='low', approval_limit_s=20.0)


def plan(request: GenerationRequest) -> Script:
    """``r1`` looks, which takes approval, and ``r2`` only acts."""
    risky = 'look' in request.prompt.body.split('task:')[1]
    return Script('act(1000);look(cup_1);act(2000);' if risky else 'act(1000);act(2000);')


async def ask(fleet: Fleet) -> ApprovalAsked:
    fleet.submit(fleet.task('risky', 'r1', instruction='look'))
    await asyncio.sleep(0.5)
    (asked,) = fleet.planner.approvals.pending
    return asked


def idle_at_s(fleet: Fleet) -> float:
    """Return when the engine was last told that the robot of the risky task will be idle (s)."""
    assert isinstance(fleet.engine, ScriptedEngine)
    return fleet.engine.idle_at_s['risky'][-1]


def test_what_is_approved_goes_on_and_others_never_waited() -> None:
    async def body(fleet: Fleet) -> None:
        asked = await ask(fleet)
        assert (asked.segment, asked.skills, asked.risk) == (1, ('look',), 'medium')
        other = fleet.submit(fleet.task('other', 'r2', instruction='go'))
        result = await other.result()
        assert result.ending.succeeded
        assert result.waits_s[0] == pytest.approx(0.1)
        (risky,) = fleet.planner.tasks
        assert risky.phase is TaskPhase.UNAPPROVED
        # A generation is not hurried on for a robot that may not act.
        assert idle_at_s(fleet) == pytest.approx(asked.until_s + 0.5)
        fleet.planner.approvals.decide('risky', 1, approves=True, who='kim')
        await asyncio.sleep(0.01)
        assert idle_at_s(fleet) < asked.until_s
        assert (await risky.result()).ending.succeeded
        assert fleet.planner.approvals.pending == ()

    fleet = in_fleet(body, plan, skill_set=RISKY, config=CONFIG)
    assert [call for event, call in fleet.notes('r1') if event == 'start'] == [
        'act(1000)', 'look(cup_1)', 'act(2000)',
    ]  # fmt: skip
    (ended,) = fleet.events_of('risky', ApprovalEnded)
    assert isinstance(ended, ApprovalEnded)
    assert (ended.ending, ended.who) == ('approved', 'kim')


def test_a_refusal_ends_the_task_with_its_robot_safe() -> None:
    async def body(fleet: Fleet) -> None:
        await ask(fleet)
        decide = fleet.planner.approvals.decide
        with pytest.raises(InvalidTaskError, match='name of whoever decides'):
            decide('risky', 1, approves=True, who=' ')
        with pytest.raises(InvalidTaskError, match=r'segment 2 .*expected one that waits'):
            decide('risky', 2, approves=True, who='kim')
        (risky,) = fleet.planner.tasks
        decide('risky', 1, approves=False, who='kim', reason='people below')
        ending = (await risky.result()).ending
        assert ending.code == NotApprovedError.code
        assert "of medium risk: refused by 'kim': people below" in ending.message
        with pytest.raises(InvalidTaskError):
            decide('risky', 1, approves=True, who='lee')

    fleet = in_fleet(body, plan, skill_set=RISKY, config=CONFIG)
    assert fleet.notes('r1')[:2] == [('start', 'act(1000)'), ('safe', 'halt')]
    assert ('start', 'look(cup_1)') not in fleet.notes('r1')
    refused = [
        event.outcome.ending.code
        for event in fleet.events_of('risky', SegmentEnded)
        if isinstance(event, SegmentEnded)
    ]
    assert SegmentCode.NOT_APPROVED in refused


def test_what_nobody_decides_counts_as_refused() -> None:
    async def body(fleet: Fleet) -> None:
        asked = await ask(fleet)
        (risky,) = fleet.planner.tasks
        ending = (await risky.result()).ending
        assert ending.code == NotApprovedError.code
        assert 'nobody decided within 20 s' in ending.message
        assert asyncio.get_running_loop().time() >= asked.until_s

    in_fleet(body, plan, skill_set=RISKY, config=CONFIG)


def test_what_nobody_wants_any_more_is_asked_no_more() -> None:
    async def body(fleet: Fleet) -> None:
        await ask(fleet)
        (risky,) = fleet.planner.tasks
        risky.cancel()
        await risky.result()
        assert fleet.planner.approvals.pending == ()

    fleet = in_fleet(body, plan, skill_set=RISKY, config=CONFIG)
    (ended,) = fleet.events_of('risky', ApprovalEnded)
    assert isinstance(ended, ApprovalEnded)
    assert ended.ending == 'withdrawn'


def test_nothing_overtakes_what_waits() -> None:
    """Every segment is there long before the first one is approved."""
    skills = replace(EXACT_SKILLS, skills={**EXACT_SKILLS.skills, 'act': ACT})

    async def body(fleet: Fleet) -> None:
        task = fleet.submit(fleet.task('a', instruction='1 2 3'))
        await asyncio.sleep(2.0)
        approvals = fleet.planner.approvals
        assert [asked.segment for asked in approvals.pending] == [0, 1, 2]
        for segment in (2, 1, 0):
            assert not fleet.notes()
            approvals.decide('a', segment, approves=True, who='kim')
            await asyncio.sleep(0.5)
        assert (await task.result()).ending.succeeded

    fleet = in_fleet(body, skill_set=skills, config=replace(CONFIG, approval_above='medium'))
    assert [call for event, call in fleet.notes() if event == 'start'] == [
        'act(1000)', 'act(2000)', 'act(3000)',
    ]  # fmt: skip


def test_by_default_nothing_waits() -> None:
    async def body(fleet: Fleet) -> None:
        result = await fleet.submit(fleet.task('risky', 'r1', instruction='look')).result()
        assert result.ending.succeeded

    fleet = in_fleet(body, plan, skill_set=RISKY)
    assert not fleet.events_of('risky', ApprovalAsked)
