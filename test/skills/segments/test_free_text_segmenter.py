from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.skills.least_time import least_s

from timely_llm_ros.errors import ArgumentError, ConfigurationError, PlanError, PlanSyntaxError
from timely_llm_ros.skills import expected_execution_s, read_statements, segmenter_for
from timely_llm_ros.skills.durations import ReadingDuration
from timely_llm_ros.skills.limits import MAX_PLAN_LENGTH
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.skills.segments.free_text_segmenter import FreeTextSegmenter
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter
from timely_llm_ros.skills.skill_types import FreeText, SkillSet
from timely_llm_ros.skills.statements import Call

if TYPE_CHECKING:
    from timely_llm_ros.skills.segments.segment import Segment

CHATBOT = find_skill_set('chatbot')
PARAGRAPHS = replace(CHATBOT, free_text=FreeText('say', 'paragraph'))
BOTH = pytest.mark.parametrize('skill_set', [CHATBOT, PARAGRAPHS], ids=['sentence', 'paragraph'])
SHORT = parse_skill_set(
    """
name: short
description: a reader of few words
safe_action: end
free_text: {skill: say, segments: sentence}
skills:
  say:
    description: show a text
    arguments: {text: {kind: string, max_length: 20}}
    duration: {model: reading, words_per_minute: 60}
  end: {description: say no more, duration: {model: constant, seconds: 0}}
"""
)

PIECES = [
    'Once', ' there', ' was', ' a', ' king', '.', ' He', ' said', ' "', 'Go', '!', '"', ' and',
    ' left', '?', '\n', '\n\n', ' ', '3.5', ' Mr. Fox', ' e.g. this', '...', '…', ' J. Low', ')',
    '\u3002', '\uff01\u300d', ' end', '\t', '*Bold*', '- item', '; {', '#', 'é', '\U0001f600',
]  # fmt: skip
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=60).map(''.join),
    st.text(
        st.sampled_from('ab C.!?\n "\')\u3002\u300d\u2026'),
        max_size=80,
    ),
)


def cut(skill_set: SkillSet, pieces: list[str], *, whole_plan: bool = False) -> list[Segment]:
    segmenter = FreeTextSegmenter(skill_set, whole_plan=whole_plan)
    return [
        *(segment for piece in pieces for segment in segmenter.push(piece)),
        *segmenter.finish(),
    ]


def split(text: str, seed: int) -> list[str]:
    rng = random.Random(seed)
    places = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 20)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def shown(segments: list[Segment]) -> list[tuple[object, ...]]:
    return [(item.index, item.text, item.statements, item.is_last) for item in segments]


@BOTH
@given(text=texts)
def test_no_text_is_lost(skill_set: SkillSet, text: str) -> None:
    segments = cut(skill_set, [text])
    together = ''.join(segment.text for segment in segments)
    assert text.startswith(together)
    assert not text[len(together) :].strip()
    assert [segment.index for segment in segments] == list(range(len(segments)))
    for segment in segments:
        assert segment.text.strip()
        (call,) = segment.statements
        assert isinstance(call, Call)
        assert (call.skill, call.arguments[0].value) == ('say', segment.text)


@given(text=texts)
def test_every_segment_but_the_last_ends_at_a_sentence_or_line_end(text: str) -> None:
    place = 0
    for segment in cut(CHATBOT, [text])[:-1]:
        place += len(segment.text)
        sentence = re.search(r'[.!?…\u3002\uff01]["\')*\u300d]*\Z', segment.text)
        paragraph = re.match(r'[^\S\n]*\n[^\S\n]*\n', text[place:])
        item = re.match(r'[^\S\n]*\n[^\S\n]*[-*]\s', text[place:])
        line = re.match(r'\s*[-*]\s', segment.text) and text[place:].lstrip(' \t')[:1] == '\n'
        assert sentence or paragraph or item or line
    place = 0
    for segment in cut(PARAGRAPHS, [text])[:-1]:
        place += len(segment.text)
        assert re.match(r'[^\S\n]*\n[^\S\n]*\n', text[place:])
        assert not re.search(r'\S[^\S\n]*\n[^\S\n]*\n\s*\S', segment.text)


@BOTH
@given(text=texts, seed=st.integers(0, 2**32), whole_plan=st.booleans())
def test_segments_are_the_same_however_the_text_is_cut(
    skill_set: SkillSet, text: str, seed: int, whole_plan: bool
) -> None:
    at_once = cut(skill_set, [text], whole_plan=whole_plan)
    in_pieces = cut(skill_set, split(text, seed), whole_plan=whole_plan)
    one_by_one = cut(skill_set, list(text), whole_plan=whole_plan)
    assert shown(in_pieces) == shown(one_by_one) == shown(at_once)


@given(
    text=texts, seed=st.integers(0, 2**32), place=st.integers(0, 80), bad=st.sampled_from('\x1b\0')
)
def test_what_goes_wrong_is_the_same_however_the_text_is_cut(
    text: str, seed: int, place: int, bad: str
) -> None:
    text = text[:place] + bad + text[place:]
    outcomes = []
    for pieces in ([text], split(text, seed), list(text)):
        segmenter = FreeTextSegmenter(SHORT)
        segments: list[Segment] = []
        with pytest.raises(PlanError) as caught:  # noqa: PT012
            for piece in pieces:
                segments += segmenter.push(piece)
            segmenter.finish()
        assert segmenter.error is caught.value
        outcomes.append((shown(segments), type(caught.value)))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@BOTH
@given(text=texts)
def test_a_segment_received_is_read_as_it_was_cut(skill_set: SkillSet, text: str) -> None:
    for whole_plan in (False, True):
        for segment in cut(skill_set, [text], whole_plan=whole_plan):
            assert read_statements(segment.text, skill_set, ()) == segment.statements


@BOTH
@given(text=texts)
def test_the_whole_text_is_one_segment_with_a_call_for_each_part(
    skill_set: SkillSet, text: str
) -> None:
    parts = cut(skill_set, [text])
    whole = cut(skill_set, list(text), whole_plan=True)
    assert len(whole) == bool(parts)
    for segment in whole:
        assert segment.is_last
        assert segment.tokens == len(text)
        assert segment.statements == tuple(s for part in parts for s in part.statements)
        assert segment.text == ''.join(part.text for part in parts)


@pytest.mark.parametrize(
    ('text', 'sentences'),
    [
        ('A cat. A dog.', ['A cat.', ' A dog.']),
        ('"Stop!" he said. "Why?" She left.', ['"Stop!" he said.', ' "Why?"', ' She left.']),
        ('It cost 3.5 coins, e.g. two. Mr. Fox paid.', [
            'It cost 3.5 coins, e.g. two.', ' Mr. Fox paid.'
        ]),
        ('Well... yes. So did I. J. Low did.', ['Well... yes.', ' So did I.', ' J. Low did.']),
        ('A heading\n\nText. More', ['A heading', '\n\nText.', ' More']),
        ('One line\nanother line', ['One line\nanother line']),
        ('\n\n  Late start.\n', ['\n\n  Late start.']),
        ('\u732b\u3002\u72ac\u3002', ['\u732b\u3002', '\u72ac\u3002']),
        (' \n\n', []),
        ('', []),
    ],
)  # fmt: skip
def test_where_sentences_end(text: str, sentences: list[str]) -> None:
    assert [segment.text for segment in cut(CHATBOT, [text])] == sentences


def test_a_sentence_leaves_with_the_token_that_begins_the_next_one() -> None:
    segmenter = FreeTextSegmenter(CHATBOT)
    assert segmenter.push('A cat') == []
    assert segmenter.push('.') == []
    (first,) = segmenter.push(' A')
    assert (first.text, first.tokens, first.is_last) == ('A cat.', 3, False)
    segmenter.push(' dog.\n')
    (blank,) = segmenter.push('\n')
    assert blank.text == ' A dog.'
    (last,) = [*segmenter.push('Bye'), *segmenter.finish()]
    assert (last.text, last.tokens, last.is_last) == ('\n\nBye', 1, True)
    assert segmenter.finish() == []


def test_a_sentence_that_is_too_long_is_refused_and_what_came_before_is_not() -> None:
    segmenter = FreeTextSegmenter(SHORT)
    (first,) = segmenter.push('Short. ' + 'X' * 21)
    assert first.text == 'Short.'
    assert isinstance(segmenter.error, ArgumentError)
    with pytest.raises(ArgumentError, match='at most 20 characters'):
        segmenter.finish()
    assert len(cut(SHORT, ['Short.' + ' ' * 30])) == 1


def test_more_text_than_a_plan_may_have_is_refused() -> None:
    segmenter = FreeTextSegmenter(CHATBOT)
    sentence = 'word ' * 100 + 'end. X'
    with pytest.raises(PlanSyntaxError, match=str(MAX_PLAN_LENGTH)):  # noqa: PT012
        for _ in range(MAX_PLAN_LENGTH // len(sentence) + 2):
            segmenter.push(sentence)


def test_what_steers_a_terminal_is_refused() -> None:
    for bad in ('\x1b', '\x00', '\x9b', '\x7f', '\ud800'):
        with pytest.raises(PlanSyntaxError, match='control'):
            FreeTextSegmenter(CHATBOT).push(f'Text{bad}')


def test_the_skill_set_says_which_segmenter() -> None:
    assert isinstance(segmenter_for(CHATBOT, ()), FreeTextSegmenter)
    tello = find_skill_set('tello')
    assert isinstance(segmenter_for(tello, ()), PlanSegmenter)
    assert read_statements('takeoff;', tello, ()) == (Call('takeoff'),)
    with pytest.raises(ConfigurationError, match="'tello'"):
        FreeTextSegmenter(tello)
    with pytest.raises(RuntimeError, match='no call'):
        segmenter_for(CHATBOT, ()).observe('true')


def test_reading_takes_as_long_as_its_words() -> None:
    (segment,) = cut(CHATBOT, ['Ten words are read in exactly two seconds by anyone'])
    assert expected_execution_s(segment.statements, CHATBOT, Scene()) == pytest.approx(2.0)
    (call,) = segment.calls
    model = ReadingDuration(300.0, 0.1)
    assert model.expected_s(call, Scene()) == pytest.approx(2.0)
    assert least_s(model, call, Scene()) == pytest.approx(1.6)
    drawn = [model.sample_s(call, Scene(), random.Random(seed)) for seed in range(50)]
    assert 1.6 <= min(drawn) < 2.0 < max(drawn) <= 2.4
