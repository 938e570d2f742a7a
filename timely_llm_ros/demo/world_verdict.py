"""How the world of the demo's bodies judged its tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class WorldVerdict:
    """Whether a task succeeded by the state of the world.

    Attributes:
        key: The task's.
        succeeded: Whether its goal was reached.
        why: What decided, in words.
        kind: The task's kind.
    """

    key: str
    succeeded: bool
    why: str
    kind: str = ''

    @classmethod
    def of(cls, line: str) -> WorldVerdict | None:
        """Return the verdict that a line of the world's program tells; None for any other line."""
        try:
            event = json.loads(line)
        except ValueError:
            return None
        if not isinstance(event, dict) or event.get('event') != 'verdict':
            return None
        word, _, why = str(event['detail']).partition(': ')
        return cls(str(event['what']), word == 'succeeded', why)


def verdict_line(verdicts: Iterable[WorldVerdict]) -> str:
    """Return in one sentence how the world judged."""
    found = list(verdicts)
    failed = [f'{one.key} ({one.kind}: {one.why})' for one in found if not one.succeeded]
    text = f'By the world {len(found) - len(failed)} of {len(found)} tasks succeeded'
    return f'{text}; failed: {", ".join(failed)}' if failed else text
