"""Writes down who asked what of the fleet, and what came of it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from timely_llm_ros.audit import AuditLog
from timely_llm_ros.errors import TaskRefusedError
from timely_llm_ros.planner import (
    ApprovalAsked,
    ApprovalEnded,
    SegmentEnded,
    SegmentReady,
    TaskAccepted,
    TaskEnded,
)

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineInfo
    from timely_llm_ros.errors import Ending, TimelyError
    from timely_llm_ros.planner import PlannerEvent, Task

_logger = logging.getLogger(__name__)

SYNC_PERIOD_S = 1.0
"""How often the disk is waited for (s), on a thread of its own."""

MOST_CHARACTERS = 4000
"""A longer text is cut there; ``characters`` says how long it was."""


class PlannerAudit:
    """The planner's audit log; without a path it writes nothing. Used on the loop's thread.

    Raises:
        ConfigurationError: The file cannot be gone on with.
    """

    def __init__(self, path: str) -> None:
        self._log = AuditLog(path) if path else None
        self._closing = asyncio.Event()
        self._syncing: asyncio.Task[None] | None = None

    def begin(self, robots: dict[str, str]) -> None:
        """Note that a planner serves these robots, with their skill sets."""
        if self._log is not None:
            self._log.note('planner started', robots=robots)
            self._syncing = asyncio.create_task(self._sync(self._log), name='audit')

    async def close(self) -> None:
        """Note that the planner ends, and close the file; idempotent."""
        if self._log is None or self._syncing is None:
            return
        self._log.note('planner ended')
        self._closing.set()
        await self._syncing
        self._log.close()

    def require(self) -> None:
        """Make sure that what comes can be written down.

        Raises:
            TaskRefusedError: The last line could not be.
        """
        if self._log is not None and self._log.trouble:
            # It may be possible again.
            self._log.note('writable again')
            if self._log.trouble:
                raise TaskRefusedError(f'{self._log.trouble}: nothing is begun that it lacks')

    def engine_loaded(self, info: EngineInfo) -> None:
        """Note which model plans from now on."""
        self._note('engine loaded', engine=info.engine, model=info.model)

    def asked(self, task: Task) -> None:
        """Note a goal that is a task, or is planned again."""
        self._note(
            'asked',
            task=task.task_id,
            client=task.client,
            robot=task.robot,
            skill_set=task.skill_set,
            kind=task.task_kind,
            objects=len(task.scene.objects),
            **({'again': task.goal_id} if task.goal_id else {}),
            **_clipped('instruction', task.instruction),
        )

    def refused(
        self, error: TimelyError, robot: str, instruction: str, task_id: str = '', client: str = ''
    ) -> None:
        """Note a goal that was not taken."""
        self._note(
            'refused',
            task=task_id,
            client=client,
            robot=robot,
            **_clipped('instruction', instruction),
            code=error.code,
            **_clipped('message', str(error)),
        )

    def cancel_asked(self, task_id: str) -> None:
        """Note that a client wants a task to end."""
        self._note('cancel asked', task=task_id)

    def on_planner_event(self, event: PlannerEvent) -> None:
        """Note what became of a task."""
        match event:
            case TaskAccepted():
                self._note('accepted', task=event.task_id, robot=event.robot)
            case SegmentReady():
                self._note(
                    'generated',
                    task=event.task_id,
                    robot=event.robot,
                    segment=event.segment.index,
                    **_clipped('text', event.segment.text),
                    **({'fallback': event.fallback} if event.fallback else {}),
                )
            case ApprovalAsked():
                self._note(
                    'approval asked',
                    task=event.task_id,
                    robot=event.robot,
                    segment=event.segment,
                    risk=event.risk,
                    skills=list(event.skills),
                    seconds=round(event.until_s - event.at_s, 3),
                )
            case ApprovalEnded():
                self._note(
                    event.ending,
                    task=event.task_id,
                    robot=event.robot,
                    segment=event.segment,
                    who=event.who,
                    **_clipped('reason', event.reason),
                )
            case SegmentEnded(outcome=outcome):
                self._note(
                    'executed',
                    task=event.task_id,
                    robot=event.robot,
                    segment=outcome.index,
                    made=len(outcome.calls),
                    **_clipped('calls', ';'.join(outcome.calls)),
                    seconds=round(outcome.execution_s, 3),
                    **_ending(outcome.ending),
                )
            case TaskEnded(result=result):
                self._note(
                    'ended',
                    task=event.task_id,
                    robot=event.robot,
                    status=result.status.value,
                    **_ending(result.ending),
                )
            case _:
                return

    def _note(self, what: str, **values: Any) -> None:
        if self._log is not None:
            self._log.note(what, **values)

    async def _sync(self, log: AuditLog) -> None:
        while not self._closing.is_set():
            try:
                await asyncio.to_thread(log.sync)
            except OSError:
                _logger.exception('audit log %s', log.path)
            try:
                async with asyncio.timeout(SYNC_PERIOD_S):
                    await self._closing.wait()
            except TimeoutError:
                continue


def _clipped(name: str, text: str) -> dict[str, Any]:
    if len(text) <= MOST_CHARACTERS:
        return {name: text}
    return {name: text[:MOST_CHARACTERS], 'characters': len(text)}


def _ending(ending: Ending) -> dict[str, Any]:
    return {'code': int(ending.code), **_clipped('message', ending.message)}
