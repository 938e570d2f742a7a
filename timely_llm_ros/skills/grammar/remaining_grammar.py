r"""What is left of a decoding grammar after some text: for a plan that is continued elsewhere.

A server that is asked to go on with a plan masks its choices with a grammar that begins where the
text so far ends. That grammar is the derivative of the first one by that text (Brzozowski, 1964)::

    rest = RemainingGrammar('start: "land;" | "turn(" T_N ");"\nT_N: /[1-9][0-9]?/\n')
    rest.take('turn(1')
    rest.text()  # 'start: (/[0-9]/)? ");"'

It reads what :mod:`timely_llm_ros.skills.grammar.grammar` writes: rules of strings, patterns,
references, groups and ``? * +``, none of them left-recursive.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills.grammar.items import (
    EMPTY,
    NOTHING,
    OneOf,
    Rule,
    Text,
    matches,
    may_be_empty,
    render,
    with_first,
)
from timely_llm_ros.skills.grammar.reader import read_grammar

if TYPE_CHECKING:
    from timely_llm_ros.skills.grammar.items import Item


class RemainingGrammar:
    """A grammar, and where in it a text has come.

    Raises:
        EngineError: The grammar is not in the dialect that is read here.
    """

    def __init__(self, grammar: str) -> None:
        self._rules, self._lines = read_grammar(grammar)
        self._whole = grammar
        self._rest: Item = Rule('start')

    def take(self, text: str) -> None:
        """Go on by ``text``.

        Raises:
            EngineError: The grammar does not allow it.
        """
        for place, character in enumerate(text):
            rest = with_first(self._rest, functools.partial(without, character), self._rules)
            if rest == NOTHING:
                raise EngineError(
                    f'{text[: place + 1][-60:]!r}: expected text that the grammar allows'
                )
            self._rest = rest

    @property
    def complete(self) -> bool:
        """Whether the text may end here."""
        return may_be_empty(self._rest, self._rules)

    def text(self) -> str:
        """Return the grammar of what may follow."""
        if self._rest == Rule('start'):
            return self._whole
        needed: dict[str, None] = {}
        body = render(self._rest, needed)
        names = list(needed)
        for name in names:  # grows meanwhile: rules refer to further rules
            names += [other for other in self._lines[name][1] if other not in names]
        lines = [f'{name}: {self._lines[name][0]}' for name in names]
        return '\n'.join([f'start: {body}', *lines]) + '\n'


def without(character: str, leaf: Text | OneOf) -> Item:
    """Return what must follow ``character`` where ``leaf`` is expected."""
    if isinstance(leaf, OneOf):
        return EMPTY if matches(leaf.source, character) else NOTHING
    return Text(leaf.text[1:]) if leaf.text[:1] == character else NOTHING
