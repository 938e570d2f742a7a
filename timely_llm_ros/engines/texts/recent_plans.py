"""What plans of late went on with, behind a text like the one that is being written.

Robots of one fleet write plans alike. What differs most from plan to plan are the arguments of
calls, so those of complete calls are left out: behind ``pick(cup_2);place(tray_1);`` plans are
looked up that had written ``pick();place();``. The nearest likeness counts: of the latest few
statements if there is one, else of fewer.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    Key = tuple[str, ...]

STATEMENTS = (4, 2, 1, 0)
"""How many complete statements a likeness may be of, the nearest first."""

MOST_PLANS = 128
"""Latest plans that are remembered, of all skill sets together."""

MOST_RUNS = 128
"""Beginning of a plan that is remembered, in choices of the model."""

_STATEMENT = re.compile('(?<=[;{}])')
_ARGUMENTS = re.compile(r'\([^()]*\)')


class Run(NamedTuple):
    """A token that a model chose, and those that the grammar left no choice about behind it."""

    keys: list[Key]
    """What the text before it is looked up by, the nearest likeness first."""
    tokens: list[int]


class WrittenPlan:
    """A plan as far as it is written; only plans of one ``skill_set`` are alike."""

    def __init__(self, skill_set: str) -> None:
        self._skill_set = skill_set
        self.runs: list[Run] = []
        """Its beginning."""
        # The beginning of a text is like no other place in it.
        self._statements = deque(['^'], maxlen=STATEMENTS[0])
        self._open = ''
        self._blocks = 0
        self._keys: list[Key] | None = None

    @property
    def keys(self) -> list[Key]:
        """What the text is looked up by, the nearest likeness first."""
        if self._keys is None:
            done, rest = list(self._statements), _ARGUMENTS.sub('()', self._open)
            self._keys = [
                (self._skill_set, *done[len(done) - size :], rest)
                for size in STATEMENTS
                if size <= len(done)
            ]
        return self._keys

    def choose(self, token: int, text: str) -> None:
        """Go on by a token that the model chose, which completes ``text``."""
        if len(self.runs) < MOST_RUNS:
            self.runs.append(Run(self.keys, [token]))
        self.go_on(text)

    def follow(self, token: int, text: str) -> None:
        """Go on by a token that must follow."""
        if self.runs and len(self.runs) < MOST_RUNS:
            self.runs[-1].tokens.append(token)
        self.go_on(text)

    def go_on(self, text: str) -> None:
        """Go on by text, such as a robot's value."""
        self._keys = None
        self._blocks += text.count('{') - text.count('}')
        *done, self._open = _STATEMENT.split(self._open + text)
        self._statements.extend(_ARGUMENTS.sub('()', statement) for statement in done)

    def ends_statement(self, text: str) -> bool:
        """Whether a statement of the plan would be complete with ``text``."""
        return text.endswith(';') and self._blocks + text.count('{') == text.count('}')


class RecentPlans:
    """Remembers the latest plans."""

    def __init__(self) -> None:
        self._plans: deque[list[Run]] = deque()
        self._seen: dict[Key, dict[tuple[int, ...], int]] = {}

    def learn(self, plan: WrittenPlan) -> None:
        """Remember a plan that has ended; the oldest is forgotten for it."""
        self._count(plan.runs, 1)
        self._plans.append(plan.runs)
        if len(self._plans) > MOST_PLANS:
            self._count(self._plans.popleft(), -1)

    def next(
        self, plan: WrittenPlan, allows: Callable[[int], bool]
    ) -> tuple[tuple[int, ...], float] | None:
        """Return the run that most plans went on with, and its share of them; None for none.

        Only those count whose first token is allowed. One plan more counts among those that went
        on otherwise, so that few of them say little.
        """
        for key in plan.keys:
            seen = self._seen.get(key, {})
            found = [(times, run) for run, times in seen.items() if allows(run[0])]
            if found:
                times, run = max(found)
                return run, times / (1 + sum(times for times, _ in found))
        return None

    def _count(self, runs: list[Run], times: int) -> None:
        for keys, tokens in runs:
            run = tuple(tokens)
            for key in keys:
                seen = self._seen.setdefault(key, {})
                seen[run] = seen.get(run, 0) + times
                if not seen[run]:
                    del seen[run]
                if not seen:
                    del self._seen[key]
