"""What every segmenter does, whatever kind of text it cuts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from timely_llm_ros.errors import PlanError
from timely_llm_ros.skills.segments.segment import Segment

if TYPE_CHECKING:
    from timely_llm_ros.skills.statements import Statement


class TextSegmenter(ABC):
    """Cuts one generation's text into segments, the same ones whatever pieces it comes in.

    After a ``PlanError`` it stays failed: every later call raises the same error.

    Args:
        whole_plan: Whether everything is one single segment, which ``finish`` returns.
    """

    marks: str | None = None
    """Characters without which text completes no segment, where no value is awaited.

    None where any character may do that.
    """

    stops: ClassVar[bool] = True
    """Whether a model's stop strings end the text."""

    def __init__(self, *, whole_plan: bool = False) -> None:
        self.error: PlanError | None = None
        """What made it fail, known as soon as the text was pushed."""
        self._whole_plan = whole_plan
        self._length = 0
        self._tokens = 0
        self._segments = 0

    def may_await(self, _text: str, /) -> bool:
        """Whether a segment that ends in this further text may await a value.

        Cheap, and takes nothing: False only where it is certain.
        """
        return False

    def push(self, text: str, tokens: int = 1) -> list[Segment]:
        """Take newly generated text of so many tokens; return the segments that it completes.

        Where the text completes segments and then goes wrong, they are returned and the next call
        raises the error; ``error`` has it at once.

        Raises:
            PlanError: The text must not reach a robot.
        """
        self._raise_error()
        self._tokens += tokens
        segments: list[Segment] = []
        if not text:
            return segments
        try:
            self._scan(text, segments)
        except PlanError as err:
            self.error = err
            if not segments:
                raise
        return segments

    def observe(self, value: str) -> str:
        """Take the value of the blocking call that the last segment ends with.

        Returns:
            The text to append to the generation's context.

        Raises:
            TimelyError: The value is not what the skill returns, or text went wrong before.
            RuntimeError: No value is awaited.
        """
        raise RuntimeError(f'value {value!r}: no call awaits one')

    def foresee(self) -> dict[str, TextSegmenter]:
        """Return a segmenter that goes on from each value that may come, by :meth:`observe`'s text.

        It returns none where no value is awaited, or one of too many.
        """
        return {}

    @abstractmethod
    def finish(self) -> list[Segment]:
        """Take the end of the generation and return what is left.

        Raises:
            PlanError: The text must not end here, or went wrong before.
        """

    @abstractmethod
    def _scan(self, text: str, segments: list[Segment]) -> None:
        """Read ``text`` once and add the segments that it completes, up to the first error."""

    def _segment(
        self,
        text: str,
        statements: tuple[Statement, ...],
        *,
        is_last: bool = False,
        awaits_value: bool = False,
    ) -> Segment:
        tokens, self._tokens = self._tokens, 0
        index = self._segments
        self._segments += 1
        return Segment(index, text, statements, tokens, is_last, awaits_value)

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error
