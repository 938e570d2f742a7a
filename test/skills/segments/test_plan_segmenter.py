from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.skills.plan_texts import LAB, SCENE, SKILL_SETS, TELLO, PlanWriter, Written

from timely_llm_ros.errors import (
    ArgumentError,
    ExecutionError,
    IncompletePlanError,
    PlanError,
    PlanSyntaxError,
    UnknownSkillError,
)
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.limits import MAX_PLAN_LENGTH
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter
from timely_llm_ros.skills.statements import If, Repeat, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.skills.segments.segment import Segment
    from timely_llm_ros.skills.skill_types import SkillSet

plans = st.builds(
    lambda skill_set, seed, statements, spaces: (
        skill_set,
        PlanWriter(skill_set, random.Random(seed), spaces=spaces).plan(statements),
    ),
    st.sampled_from(SKILL_SETS),
    st.integers(0, 2**32),
    st.integers(1, 8),
    st.booleans(),
)


def value_for(segment: Segment, skill_set: SkillSet) -> str:
    return 'true' if skill_set.skills[segment.calls[0].skill].returns == 'bool' else 'some text'


def feed(skill_set: SkillSet, plan: Written, cuts: list[int]) -> tuple[list[Segment], list[int]]:
    """Push the text cut at the given places; return the segments and where each was emitted.

    A cut is added after every blocking statement: the runtime must get its turn there.
    """
    segmenter = PlanSegmenter(skill_set, SCENE)
    places = sorted({
        *(cut for cut in cuts if 0 < cut < len(plan.text)),
        *(end for end, awaits in zip(plan.ends, plan.awaits, strict=True) if awaits),
        len(plan.text),
    })  # fmt: skip
    segments: list[Segment] = []
    emitted: list[int] = []
    start = 0
    for place in places:
        new = segmenter.push(plan.text[start:place], tokens=1)
        segments += new
        emitted += [place] * len(new)
        if segmenter.awaits_value:
            segmenter.observe(value_for(new[-1], skill_set))
        start = place
    assert segmenter.finish() == []
    assert sum(segment.tokens for segment in segments) + segmenter._tokens == len(places)
    return segments, emitted


@given(plans)
def test_a_segment_is_emitted_at_exactly_the_character_that_completes_it(
    plan: tuple[SkillSet, Written],
) -> None:
    skill_set, written = plan
    segments, emitted = feed(skill_set, written, list(range(len(written.text))))
    assert tuple(emitted) == written.ends
    assert [segment.index for segment in segments] == list(range(len(written.ends)))
    assert tuple(segment.awaits_value for segment in segments) == written.awaits
    assert not any(segment.is_last for segment in segments)
    whole = parse(written.text, skill_set, SCENE)
    assert tuple(s for segment in segments for s in segment.statements) == whole
    assert ''.join(segment.text for segment in segments) == render(whole)


@given(plans, st.data())
def test_segments_are_the_same_however_the_text_is_cut(
    plan: tuple[SkillSet, Written], data: st.DataObject
) -> None:
    skill_set, written = plan
    cuts = data.draw(st.lists(st.integers(1, len(written.text)), max_size=12))
    one_by_one, _ = feed(skill_set, written, list(range(len(written.text))))
    in_pieces, emitted = feed(skill_set, written, cuts)
    assert [(s.index, s.text, s.statements, s.awaits_value) for s in in_pieces] == [
        (s.index, s.text, s.statements, s.awaits_value) for s in one_by_one
    ]
    assert all(place >= end for place, end in zip(emitted, written.ends, strict=True))


@given(plans, st.data())
def test_without_its_last_character_a_statement_is_not_emitted(
    plan: tuple[SkillSet, Written], data: st.DataObject
) -> None:
    skill_set, written = plan
    which = data.draw(st.integers(0, len(written.ends) - 1))
    end = written.ends[which]
    cut = Written(written.text[:end], written.ends[: which + 1], written.awaits[: which + 1])
    complete, _ = feed(skill_set, cut, [])
    segmenter = PlanSegmenter(skill_set, SCENE)
    count, start = 0, 0
    for place in [*written.ends[:which], end - 1]:
        count += len(new := segmenter.push(written.text[start:place]))
        if segmenter.awaits_value:
            segmenter.observe(value_for(new[-1], skill_set))
        start = place
    assert count == which == len(complete) - 1
    with pytest.raises(IncompletePlanError):
        segmenter.finish()


@given(plans)
def test_the_whole_plan_is_one_segment_at_the_end(plan: tuple[SkillSet, Written]) -> None:
    skill_set, written = plan
    segmenter = PlanSegmenter(skill_set, SCENE, whole_plan=True)
    for index, character in enumerate(written.text):
        assert segmenter.push(character, tokens=index % 3) == []
    (segment,) = segmenter.finish()
    assert segment.statements == parse(written.text, skill_set, SCENE)
    assert (segment.index, segment.is_last, segment.awaits_value) == (0, True, False)
    assert segment.tokens == sum(index % 3 for index in range(len(written.text)))
    assert segmenter.finish() == []


def test_a_token_may_end_several_segments_and_counts_for_the_first() -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    assert segmenter.push('take', 1) == []
    assert segmenter.push('off', 1) == []
    segments = segmenter.push(';scan;land;ta', 1)
    assert [(s.text, s.tokens) for s in segments] == [('takeoff;', 3), ('scan;', 0), ('land;', 0)]
    (photo,) = segmenter.push('ke_picture;', 1)
    assert (photo.text, photo.tokens, photo.index) == ('take_picture;', 1, 3)


def test_loops_and_conditionals_come_only_whole() -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    text = 'repeat(3){if(!is_visible(cat_3)){turn_cw(30);scan;}else{take_picture;};hover;};'
    for character in text[:-1]:
        assert segmenter.push(character) == []
    (segment,) = segmenter.push(';')
    (loop,) = segment.statements
    assert isinstance(loop, Repeat)
    assert isinstance(loop.body[0], If)
    assert segment.tokens == len(text)
    assert [call.skill for call in segment.calls] == [
        'is_visible', 'turn_cw', 'scan', 'take_picture', 'hover',
    ]  # fmt: skip


def test_a_blocking_call_holds_the_generation_until_its_value_is_there() -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    (segment,) = segmenter.push('is_visible(cat_3);\n')
    assert segment.awaits_value
    awaits = segmenter.awaits_value
    assert awaits
    assert segmenter.push(' ') == []
    with pytest.raises(ExecutionError, match="'perhaps': expected true or false"):
        segmenter.observe('perhaps')
    assert segmenter.observe('True') == '#true '
    assert not segmenter.awaits_value
    assert [s.text for s in segmenter.push('take_picture;')] == ['take_picture;']
    with pytest.raises(RuntimeError, match='no call awaits'):
        segmenter.observe('true')


@pytest.mark.parametrize('value', ['salt', '', 'a b;#"{}', 'é' * 200, 'x' * 64, '\n'])
def test_an_observed_text_cannot_break_out_of_its_place(value: str) -> None:
    segmenter = PlanSegmenter(LAB, SCENE)
    segmenter.push('read_label(box_4);')
    observation = segmenter.observe(value)
    assert observation.count('#') == observation.count(' ') == 1
    assert len(observation) <= 66
    plan = f'read_label(box_4);{observation}freeze;'
    assert render(parse(plan, LAB, SCENE)) == 'read_label(box_4);freeze;'


def test_either_value_is_foreseen_and_neither_is_taken() -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    assert not segmenter.foresee()
    segmenter.push('is_visible(cat_3);')
    foreseen = segmenter.foresee()
    assert list(foreseen) == ['#true ', '#false ']
    for other in foreseen.values():
        (segment,) = other.push('land;')
        assert (segment.index, segment.tokens) == (1, 1)
    assert segmenter.awaits_value
    assert segmenter.observe('false') == '#false '
    with pytest.raises(UnknownSkillError, match='take_off'):
        segmenter.push('take_off(')


def test_a_blocking_call_in_a_block_is_not_awaited() -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    (segment,) = segmenter.push('repeat(2){is_visible(cat_3);};')
    assert not segment.awaits_value


@pytest.mark.parametrize('early', ['la', 'land;', 'land;scan;', '#true ', '}', ';'])
def test_text_before_the_value_is_refused(early: str) -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    (segment,) = segmenter.push(f'is_visible(cat_3);{early}')
    assert segment.text == 'is_visible(cat_3);'
    assert segment.awaits_value
    assert isinstance(segmenter.error, PlanSyntaxError)
    assert segmenter.error.offset == 18
    with pytest.raises(PlanSyntaxError, match='no text before the value of is_visible'):
        segmenter.observe('true')


@pytest.mark.parametrize('text', ['#true ', 'is_visible(cat_3);#true ', 'land;#false '])
@pytest.mark.parametrize('whole_plan', [False, True])
def test_the_model_may_not_write_observations(text: str, whole_plan: bool) -> None:
    segmenter = PlanSegmenter(TELLO, SCENE, whole_plan=whole_plan)
    for character in text.partition('#')[0]:
        segmenter.push(character)
    with pytest.raises(PlanSyntaxError, match='#'):
        segmenter.push('#')


@pytest.mark.parametrize(
    ('good', 'bad', 'error', 'offset'),
    [
        ('land;', 'goto(dog_1);', ArgumentError, 10),
        ('land;', 'fly_away;', UnknownSkillError, 5),
        ('scan;land;', '}', PlanSyntaxError, 10),
        ('', 'repeat(2){repeat(2){repeat(2){repeat(2){', PlanSyntaxError, 39),
        ('land;', ';', PlanSyntaxError, 5),
        ('land;', 'move_up(;', ArgumentError, 13),
        ('land;', 'log("a;', PlanSyntaxError, 9),
    ],
)
@pytest.mark.parametrize('whole_plan', [False, True])
def test_once_failed_it_stays_failed(
    good: str, bad: str, error: type[PlanError], offset: int, whole_plan: bool
) -> None:
    segmenter = PlanSegmenter(TELLO, SCENE, whole_plan=whole_plan)
    segmenter.push(good)
    with pytest.raises(PlanError) as caught:
        segmenter.push(bad)
    assert type(caught.value) is error
    assert caught.value.offset == offset
    assert segmenter.error is caught.value
    again: Callable[[], object]
    for again in (lambda: segmenter.push('land;'), segmenter.finish):
        with pytest.raises(PlanError) as later:
            again()
        assert later.value is caught.value


def test_what_was_complete_before_an_error_in_the_same_text_is_returned() -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    assert [s.text for s in segmenter.push('scan;land;goto(dog_1);')] == ['scan;', 'land;']
    assert isinstance(segmenter.error, ArgumentError)
    assert segmenter.error.offset == 15
    with pytest.raises(ArgumentError):
        segmenter.push('')


def test_offsets_count_observations() -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    segmenter.push('is_visible(cat_3);')
    segmenter.observe('false')
    with pytest.raises(ArgumentError) as caught:
        segmenter.push('land;goto(dog_1);'[5:])
    assert caught.value.offset == len('is_visible(cat_3);#false goto(')


@given(plans, st.data())
def test_an_object_that_the_scene_lacks_never_passes(
    plan: tuple[SkillSet, Written], data: st.DataObject
) -> None:
    skill_set, written = plan
    gone = data.draw(st.sampled_from(SCENE.names))
    left = set(SCENE.names) - {gone}
    segmenter = PlanSegmenter(skill_set, left)
    segments: list[Segment] = []
    start = 0
    for end in written.ends:
        try:
            segments += segmenter.push(written.text[start:end])
            if segmenter.awaits_value:
                segmenter.observe(value_for(segments[-1], skill_set))
        except PlanError:
            break
        start = end
    named = [a.value for s in segments for call in s.calls for a in call.arguments]
    assert gone not in named


@pytest.mark.parametrize('size', [1, 7, MAX_PLAN_LENGTH + 100])
def test_a_plan_has_a_greatest_length_in_any_pieces(size: int) -> None:
    segmenter = PlanSegmenter(SKILL_SETS[0], SCENE)
    text = ('land;' * MAX_PLAN_LENGTH)[: MAX_PLAN_LENGTH + 100]
    count = start = 0
    while start + size <= MAX_PLAN_LENGTH or size > MAX_PLAN_LENGTH > start:
        count += len(segmenter.push(text[start : start + size]))
        start += size
    with pytest.raises(PlanSyntaxError, match='at most 16384') as caught:
        segmenter.push(text[start : start + size])
    assert count == MAX_PLAN_LENGTH // 5
    assert caught.value.offset == MAX_PLAN_LENGTH


def test_white_space_at_the_end_is_not_an_unfinished_statement() -> None:
    segmenter = PlanSegmenter(TELLO, SCENE)
    segmenter.push('land;\n \t')
    assert segmenter.finish() == []
    assert PlanSegmenter(TELLO, SCENE).finish() == []
    assert PlanSegmenter(TELLO, SCENE, whole_plan=True).finish() == []
