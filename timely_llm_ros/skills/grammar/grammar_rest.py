r"""What is left of a decoding grammar after some text: for a plan that is continued elsewhere.

A server that is asked to go on with a plan masks its choices with a grammar that begins where the
text so far ends. That grammar is the derivative of the first one by that text (Brzozowski, 1964)::

    rest = GrammarRest('start: "land;" | "turn(" T_N ");"\nT_N: /[1-9][0-9]?/\n')
    rest.take('turn(1')
    rest.text()  # 'start: (/[0-9]/)? ");"'

It reads what :mod:`timely_llm_ros.skills.grammar.grammar` writes: rules of strings, patterns,
references, groups and ``? * +``, none of them left-recursive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills.grammar.grammar_items import (
    EMPTY,
    NOTHING,
    Choice,
    OneOf,
    Pattern,
    Repeat,
    Rule,
    Sequence,
    Text,
    choice,
    matches,
    render,
    sequence,
)
from timely_llm_ros.skills.grammar.grammar_reader import read_grammar

if TYPE_CHECKING:
    from timely_llm_ros.skills.grammar.grammar_items import Item


class GrammarRest:
    """A grammar, and where in it a text has come.

    Args:
        grammar: The grammar of the whole text.

    Raises:
        EngineError: It is not in the dialect that is read here.
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
            rest = self._derive(self._rest, character)
            if rest == NOTHING:
                raise EngineError(
                    f'{text[: place + 1][-60:]!r}: expected text that the grammar allows'
                )
            self._rest = rest

    @property
    def complete(self) -> bool:
        """Whether the text may end here."""
        return self._nullable(self._rest)

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

    def _nullable(self, item: Item) -> bool:
        match item:
            case Text(text):
                return not text
            case OneOf():
                return False
            case Sequence(items):
                return all(map(self._nullable, items))
            case Choice(items):
                return any(map(self._nullable, items))
            case Repeat(inner, least, _):
                return not least or self._nullable(inner)
            case Pattern(inner):
                return self._nullable(inner)
            case Rule(name):
                return self._nullable(self._rules[name])

    def _derive(self, item: Item, character: str) -> Item:
        """Return what must follow ``character`` where ``item`` is expected."""
        match item:
            case Text(text):
                return Text(text[1:]) if text[:1] == character else NOTHING
            case OneOf(source):
                return EMPTY if matches(source, character) else NOTHING
            case Sequence(items):
                choices: list[Item] = []
                for place, first in enumerate(items):
                    choices.append(sequence(self._derive(first, character), *items[place + 1 :]))
                    if not self._nullable(first):
                        break
                return choice(*choices)
            case Choice(items):
                return choice(*(self._derive(each, character) for each in items))
            case Repeat(inner, least, most):
                left = Repeat(inner, max(0, least - 1), None if most is None else most - 1)
                after = EMPTY if left.most == 0 else left
                return sequence(self._derive(inner, character), after)
            case Pattern(inner):
                rest = self._derive(inner, character)
                return rest if rest in (EMPTY, NOTHING) else Pattern(rest)
            case Rule(name):
                return self._derive(self._rules[name], character)
