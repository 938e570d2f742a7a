"""Segments whose risk takes somebody's word wait here until they are approved or refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import InvalidTaskError, NotApprovedError
from timely_llm_ros.planner.events import ApprovalAsked, ApprovalEnded, ApprovalEnding
from timely_llm_ros.skills import RISKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.clock import Clock
    from timely_llm_ros.planner.events import PlannerEvent
    from timely_llm_ros.planner.task import Task
    from timely_llm_ros.skills import Segment, SkillSet


@dataclass(slots=True, eq=False)
class Approval:
    """One segment's, from when it was generated. ``until_s`` is its deadline."""

    asked: ApprovalAsked
    until_s: float
    decision: asyncio.Future[ApprovalEnded]


class Approvals:
    """What waits for approval. Used on the loop's thread.

    Args:
        clock: The planner's.
        above: The highest risk that needs none.
        limit_s: How long somebody has to decide (s).
        emit: Called with what is asked, and with what came of it.
    """

    def __init__(
        self, clock: Clock, above: str, limit_s: float, emit: Callable[[PlannerEvent], None]
    ) -> None:
        self._clock, self._emit = clock, emit
        self._above, self._limit_s = RISKS.index(above), limit_s
        self._open: dict[tuple[str, int], Approval] = {}

    @property
    def pending(self) -> tuple[ApprovalAsked, ...]:
        """What nobody has decided yet, in the order in which it was asked."""
        return tuple(approval.asked for approval in self._open.values())

    def ask(self, task: Task, skill_set: SkillSet, segment: Segment) -> Approval | None:
        """Ask for a segment's approval; None where it needs none."""
        skills = {call.skill: skill_set.skills[call.skill].risk for call in segment.calls}
        risky = {name: risk for name, risk in skills.items() if RISKS.index(risk) > self._above}
        if not risky:
            return None
        now_s = self._clock.now()
        until_s = now_s + self._limit_s
        asked = ApprovalAsked(
            task.task_id,
            task.robot,
            now_s,
            task,
            segment.index,
            segment.text,
            tuple(risky),
            max(risky.values(), key=RISKS.index),
            until_s,
        )
        decision = asyncio.get_running_loop().create_future()
        approval = Approval(asked, until_s, decision)
        self._open[task.task_id, segment.index] = approval
        self._emit(asked)
        return approval

    async def wait(self, approval: Approval) -> None:
        """Return once a segment is approved.

        Raises:
            NotApprovedError: It was refused, or nobody decided in time.
        """
        wait_s = max(0.0, approval.until_s - self._clock.now())
        await asyncio.wait([approval.decision], timeout=wait_s)
        if not approval.decision.done():
            self._end(approval, 'timed out')
        decided, asked = approval.decision.result(), approval.asked
        if decided.ending == 'approved':
            return
        what = f'segment {asked.segment}, {asked.text!r}, of {asked.risk} risk'
        if decided.ending == 'refused':
            reason = f': {decided.reason}' if decided.reason else ''
            raise NotApprovedError(f'{what}: refused by {decided.who!r}{reason}')
        raise NotApprovedError(
            f'{what}: nobody decided within {self._limit_s:g} s, expected an approval'
        )

    def withdraw(self, approval: Approval) -> None:
        """Stop asking, because the task has ended; no-op for what was decided."""
        if not approval.decision.done():
            self._end(approval, 'withdrawn')

    def decide(
        self, task_id: str, segment: int, *, approves: bool, who: str, reason: str = ''
    ) -> None:
        """Approve or refuse a segment.

        Raises:
            InvalidTaskError: It does not wait for approval, or nobody says who decides.
        """
        approval = self._open.get((task_id, segment))
        if approval is None:
            raise InvalidTaskError(
                f'segment {segment} of task {task_id}: expected one that waits for approval'
            )
        if not who.strip():
            raise InvalidTaskError(f'who {who!r}: expected the name of whoever decides')
        self._end(approval, 'approved' if approves else 'refused', who, reason)

    def _end(
        self, approval: Approval, ending: ApprovalEnding, who: str = '', reason: str = ''
    ) -> None:
        asked = approval.asked
        del self._open[asked.task_id, asked.segment]
        ended = ApprovalEnded(
            asked.task_id, asked.robot, self._clock.now(), asked.segment, ending, who, reason
        )
        approval.decision.set_result(ended)
        self._emit(ended)
