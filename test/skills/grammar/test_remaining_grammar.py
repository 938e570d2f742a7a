"""A plan that is continued elsewhere has the choices there that it would have had here."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.skills.byte_tokenizer import END, TOKENS, ByteTokenizer, allowed_tokens
from support.skills.plan_texts import LAB, SCENE, SKILL_SETS, PlanWriter

from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills.grammar.grammar import decoding_grammar
from timely_llm_ros.skills.grammar.remaining_grammar import RemainingGrammar
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import Scene

if TYPE_CHECKING:
    from timely_llm_ros.skills import SkillSet

llguidance = pytest.importorskip('llguidance')

HEADER = '%llguidance {"no_forcing": true}\n'


TOKENIZER = llguidance.LLTokenizer(
    llguidance.TokenizerWrapper(ByteTokenizer()), n_vocab=len(TOKENS), eos_token=END
)


def matcher_of(grammar: str) -> Any:
    matcher = llguidance.LLMatcher(
        TOKENIZER, llguidance.LLMatcher.grammar_from_lark(HEADER + grammar)
    )
    assert not matcher.is_error(), matcher.get_error()
    assert not matcher.get_grammar_warnings(), matcher.get_grammar_warnings()
    return matcher


@given(skill_set=st.sampled_from(SKILL_SETS), seed=st.integers(0, 2**32), data=st.data())
@examples(60)
def test_the_rest_allows_exactly_what_the_whole_allows(
    skill_set: SkillSet, seed: int, data: st.DataObject
) -> None:
    rng = random.Random(seed)
    text = PlanWriter(skill_set, rng).plan(3).text
    grammar = decoding_grammar(skill_set, SCENE, observations=False)
    cut = data.draw(st.integers(0, len(text)))
    further = data.draw(st.integers(cut, min(len(text), cut + 12)))
    rest = RemainingGrammar(grammar)
    for piece in (text[: cut // 2], text[cut // 2 : cut]):
        rest.take(piece)
    whole, continued = matcher_of(grammar), matcher_of(rest.text())
    assert whole.consume_tokens(list(text[:cut].encode()))
    assert whole.is_accepting() == rest.complete
    for place in range(cut, further + 1):
        assert continued.compute_bitmask() == whole.compute_bitmask(), text[:place]
        if place < further:
            token = [ord(text[place])]
            assert whole.consume_tokens(token)
            assert continued.consume_tokens(token)


def test_text_that_the_grammar_does_not_allow_is_refused() -> None:
    rest = RemainingGrammar(decoding_grammar(find_skill_set('tello'), Scene(), observations=False))
    rest.take('takeoff;')
    with pytest.raises(EngineError, match="'l4'"):
        rest.take('l4nd;')


def test_a_plan_stops_at_a_blocking_call() -> None:
    grammar = decoding_grammar(LAB, SCENE, stops_at_blocking=True)
    rest = RemainingGrammar(grammar)
    rest.take('freeze;read_label(cup_1);')
    assert rest.complete
    matcher = matcher_of(grammar)
    assert matcher.consume_tokens(list(b'freeze;read_label(cup_1)'))
    assert allowed_tokens(matcher) == [ord(';')]
    assert matcher.consume_tokens([ord(';')])
    assert allowed_tokens(matcher) == [END]
    with pytest.raises(EngineError, match='f'):
        rest.take('f')


def test_free_text_may_go_on_and_may_end() -> None:
    rest = RemainingGrammar(decoding_grammar(find_skill_set('chatbot'), Scene()))
    ends_here = rest.complete
    assert not ends_here
    rest.take('ä "word"/\n')
    assert rest.complete
    assert matcher_of(rest.text()).consume_tokens(list('Ω'.encode()))
    with pytest.raises(EngineError, match=r'\\x00'):
        rest.take('\x00')


@pytest.mark.parametrize(
    'grammar', ['start', 'start: %', 'start: ("a"', 'start: "a")', 'start: /(/', 'start: /[/']
)
def test_another_dialect_is_refused(grammar: str) -> None:
    with pytest.raises(EngineError):
        RemainingGrammar(grammar).take('a')
