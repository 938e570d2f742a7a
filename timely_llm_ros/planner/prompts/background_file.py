"""Has the prompts of a file answered in the background and appends the answers to another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, ShutdownError
from timely_llm_ros.planner.background_tasks import BackgroundTask
from timely_llm_ros.planner.prompts.prompt_file import Answer, AnswerFile, read_prompts

if TYPE_CHECKING:
    from pathlib import Path

    from timely_llm_ros.planner.background_tasks import BackgroundHandle
    from timely_llm_ros.planner.planner import Planner

AT_ONCE = 64
"""Tasks that the planner is given at a time."""


class BackgroundFile:
    """The prompts of a file that have no answer yet; ``prompt_file.py`` says how they are written.

    Raises:
        ConfigurationError: A file cannot be used.
    """

    def __init__(self, prompts: Path, answers: Path) -> None:
        try:
            lines = prompts.read_text(encoding='utf-8').splitlines()
        except (OSError, UnicodeDecodeError) as err:
            raise ConfigurationError(f'prompts {str(prompts)!r}: {err}') from err
        every = list(read_prompts(lines, str(prompts)))
        self._answers = AnswerFile(answers)
        self._left = [one for one in every if one.prompt_id not in self._answers.done]
        self.total = len(every)
        """How many prompts there are."""

    @property
    def done(self) -> int:
        """How many have an answer."""
        return len(self._answers.done)

    async def run(self, planner: Planner) -> None:
        """Have every answer written; cancel this to stop.

        Raises:
            TimelyError: A prompt names an unknown skill set, or has a bad text.
            ShutdownError: The planner went down; what is left is done next time.
        """
        waiting = iter(self._left)
        running: dict[asyncio.Task[Answer | None], BackgroundHandle] = {}
        try:
            while True:
                while len(running) < AT_ONCE and (prompt := next(waiting, None)) is not None:
                    handle = planner.generate(
                        BackgroundTask(
                            prompt.prompt_id,
                            prompt.skill_set,
                            prompt.instruction,
                            prompt.scene,
                            prompt.max_tokens,
                            prompt.history,
                        )
                    )
                    running[asyncio.create_task(_answer(handle))] = handle
                if not running:
                    return
                ended, _ = await asyncio.wait(running, return_when='FIRST_COMPLETED')
                for task in ended:
                    del running[task]
                answers = [task.result() for task in ended]
                self._answers.write(answer for answer in answers if answer is not None)
                if None in answers:
                    raise ShutdownError('the planner is going down')
        finally:
            for task, handle in running.items():
                handle.cancel()
                task.cancel()
            self._answers.close()


async def _answer(handle: BackgroundHandle) -> Answer | None:
    """Return a task's answer; None where the planner went down before."""
    result = await handle.result()
    if result.ending.code == ShutdownError.code:
        return None
    return Answer(result.task_id, result.text, result.tokens, result.ending.message)
