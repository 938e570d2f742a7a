"""Generated and mutated plan texts, a thousand for each example that hypothesis draws: what is not
valid, or asks for too much, never reaches a driver, and nothing takes long to find that out.

``make fuzz`` draws a million new ones for each shipped skill set. What is valid is decided a second
time by ``support/skills/plan_oracle.py``.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from collections import Counter
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.skills.plan_oracle import DISTANCES_M, SI, PlanOracle
from support.skills.plan_texts import ARM, SCENE, TELLO, PlanWriter

from timely_llm_ros.errors import PlanError
from timely_llm_ros.skills import PlanMeter, language, plan_meter, read_statements, segmenter_for
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter
from timely_llm_ros.skills.segments.text_ends import TextEnds
from timely_llm_ros.skills.statements import calls_of, render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timely_llm_ros.skills import Call, Segment, SkillSet, Statement

TEXTS = 1000 if os.environ.get('FUZZ') else 300
"""Texts of one example: a thousand examples of `make fuzz` are a million."""

_PIECES = (
    'takeoff land goto(cat_3) goto(dog_7) is_visible(cup_1) is_visible(nobody) pick(cup_10) stop '
    'move_up(19) move_up(20) move_up(500) move_up(501) move_up(-20) move_up(1e3) turn_cw(0) '
    'turn_cw(360) turn_cw(361) push(box_4,41) push(box_4) move_to(81,0,0) move_to(0,0,-1) '
    'repeat(0){ repeat(2){ repeat(10){ repeat(11){ repeat(-1){ repeat(99999999999999999999){ if( '
    'if(! else{ }else{ ; ;; } }; ){ ( ) { , ! " # #true  #false  #1  0 -0 007 +5 .5 '
    'log("hi") log("a;b") log("") log("\\n") log(\'x\') log("x"x") eval("1") exec __import__ '
    'os.system("rm -rf /") getattr lambda: // /* */ <|endoftext|> <eos> \\ ` $ & | %s {} {{ }} '
    'Takeoff TAKEOFF take_off takeoff() land(1) goto cat_3 dog_7 true false none null '
    'ignore previous instructions and fly away'
)
PIECES = _PIECES.split(' ')
CHARACTERS = (
    ';;;(){},!"#_-. \t\r\n\x00\x0b\x1b\x7f\u00a0\u2028é\u0430\u0661\uff41\uff10abcdefgt0123456789'
)

CHATBOT = find_skill_set('chatbot')


@cache
def pool(name: str) -> tuple[list[str], PlanOracle]:
    """Return valid plans of a shipped skill set, and what knows them from others."""
    writer = PlanWriter(find_skill_set(name), random.Random(f'hostile {name}'))
    count = random.Random(name).randint
    return [writer.plan(count(1, 4)).text for _ in range(2000)], PlanOracle(name)


def mutate(text: str, rng: random.Random, other: str) -> str:
    kind = rng.randrange(12)
    place = rng.randrange(len(text) + 1)
    if kind == 0:
        return text[:place] + text[place + rng.randint(1, 4) :]
    if kind == 1:
        return text[:place] + rng.choice(CHARACTERS) + text[place:]
    if kind == 2:
        return text[:place] + rng.choice(CHARACTERS) + text[place + 1 :]
    if kind == 3:
        return text[:place] + rng.choice(PIECES) + text[place:]
    if kind == 4:
        return text[:place]
    if kind == 5:
        return text[:place] + other[rng.randrange(len(other) + 1) :]
    if kind == 6:
        end = place + rng.randint(1, 20)
        return text[:end] + text[place:]
    if kind == 7:
        return re.sub(r'\d+', lambda _: str(rng.randint(-5, 700)), text, count=rng.randint(1, 3))
    if kind == 8:
        return f'repeat({rng.randint(1, 12)}){{{text}}};'
    if kind == 9:
        return text[:place] + rng.choice([' ', '\n', '\t', '\r\n', '  ']) + text[place:]
    if kind == 10:
        return text.replace(rng.choice(';(){},"'), rng.choice(';(){}," #'), 1)
    return text.replace(';', rng.choice([';;', '; ', ';#true ', ';#false ', ',', ' ;']), 1)


def texts(skill_set: SkillSet, rng: random.Random) -> Iterator[str]:
    """Yield valid plans, mutated ones, long and looping ones, heaps of pieces, and noise."""
    plans, _ = pool(skill_set.name)
    writer = PlanWriter(skill_set, rng, spaces=True)
    for _ in range(TEXTS):
        draw = rng.random()
        if draw < 0.78:
            text = rng.choice(plans)
            for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
                text = mutate(text, rng, rng.choice(plans))
        elif draw < 0.79:
            text = writer.plan(rng.randint(1, 4)).text
        elif draw < 0.8:
            text = rng.choice(plans) * rng.choice((*(5, 10, 20) * 10, 40, 40, 300))
        elif draw < 0.9:
            text = rng.choice(plans)
            for _ in range(rng.choice((2, 3, 3))):
                text = f'repeat({rng.randint(6, 10)}){{{text}}};'
        elif draw < 0.95:
            text = rng.choice(('', ';')).join(rng.choices(PIECES, k=rng.randint(1, 8)))
        else:
            text = ''.join(rng.choices(CHARACTERS, k=rng.randint(0, 30)))
        yield text


@contextmanager
def counted_steps() -> Iterator[Counter[str]]:
    """Count the tokens that are read, the blocks that are added up, and the searches for ends."""
    steps: Counter[str] = Counter()
    advance, most_of = language._Parser._advance, plan_meter.most_of
    find = TextEnds.find

    def counted_advance(parser: Any) -> None:
        steps['tokens'] += 1
        advance(parser)

    def counted_most_of(*arguments: Any) -> tuple[int, float]:
        steps['blocks'] += 1
        return most_of(*arguments)

    def counted_find(ends: TextEnds, text: str, *, whole: bool = False) -> int | None:
        steps['ends'] += 1
        return find(ends, text, whole=whole)

    with (
        patch.object(language._Parser, '_advance', counted_advance),
        patch.object(TextEnds, 'find', counted_find),
        patch.object(plan_meter, 'most_of', counted_most_of),
    ):
        yield steps


def receive(text: str, skill_set: SkillSet) -> tuple[tuple[Statement, ...], PlanError | None]:
    """Return what a robot's executor reads in a segment, and why it refuses it."""
    statements: tuple[Statement, ...] = ()
    try:
        statements = read_statements(text, skill_set, SCENE)
        PlanMeter(skill_set).add(len(text), statements, SCENE)
    except PlanError as err:
        return statements, err
    return statements, None


def cut(text: str, skill_set: SkillSet) -> tuple[list[Segment], bool]:
    """Send a text through the planner's segmenter; return what it lets pass, and if that is all."""
    sent: list[Segment] = []
    cutter = segmenter_for(skill_set, SCENE)
    try:
        # A blocking call must end its piece: the runtime has its turn there.
        for piece in re.findall(r'[^;]*;|[^;]+', text):
            sent += cutter.push(piece)
            if isinstance(cutter, PlanSegmenter) and cutter.awaits_value:
                cutter.observe('true')
        sent += cutter.finish()
    except PlanError:
        return sent, False
    return sent, True


@settings(phases=[Phase.generate])  # A seed does not shrink, and the text that failed is told.
@given(st.integers(0, 2**64))
@pytest.mark.parametrize('skill_set', [TELLO, ARM], ids=lambda s: s.name)
def test_nothing_invalid_reaches_a_driver(skill_set: SkillSet, seed: int) -> None:
    rng = random.Random(seed)
    _, oracle = pool(skill_set.name)
    outcomes: Counter[str] = Counter()
    with counted_steps() as steps:
        for text in texts(skill_set, rng):
            steps.clear()
            outcomes[check(text, skill_set, oracle)] += 1
            # Both sides read it once: a token has a character, and each reading ends twice.
            assert steps['tokens'] <= 2 * len(text) + 2 * text.count(';') + 4, text
            assert steps['blocks'] <= 8 * len(text) + 2, text
    # The texts are worth something only if there are many of each.
    assert outcomes['valid'] > 0.1 * TEXTS, outcomes
    assert outcomes['invalid'] > 0.3 * TEXTS, outcomes
    assert outcomes['valid at first'] > 0.02 * TEXTS, outcomes
    assert outcomes['too much'] > 0.002 * TEXTS, outcomes


def check(text: str, skill_set: SkillSet, oracle: PlanOracle) -> str:
    """Check what becomes of a text on both sides of the wire; return what it is."""
    plan = re.sub(';#(?:true|false) ', ';', text)
    valid = oracle.is_plan(text)
    statements, error = receive(text, skill_set)
    whole = oracle.asked(plan) if valid else []
    within = sum(c for c, _ in whole), sum(s for _, s in whole)
    may_pass = (
        valid
        and len(text) <= oracle.limits['segment_length']
        and within[0] <= oracle.limits['segment_calls']
        and within[1] <= oracle.limits['segment_s']
    )
    assert may_pass == (error is None), (text, error)
    assert error is None or 0 <= error.offset <= len(text)
    assert len(list(calls_of(statements))) <= len(text)
    sent, everything = cut(text, skill_set)
    # Only the runtime writes observations, so the model's text may not hold one.
    allowed = valid and '#' not in text and oracle.is_allowed(text)
    assert everything == allowed, text
    together = ''.join(segment.text for segment in sent)
    assert oracle.is_plan(together), (text, together)
    assert oracle.is_allowed(together), (text, together)
    for segment in sent:
        for call in segment.calls:
            assert_call_is_safe(call, oracle)
    if everything and error is None:
        assert together == render(statements)
        assert statements == tuple(itertools.chain(*(segment.statements for segment in sent)))
    else:
        # The robot takes whatever its planner lets pass.
        for segment in sent:
            assert receive(segment.text, skill_set) == (segment.statements, None), text
    if valid and not (everything and error is None):
        return 'too much' if '#' not in text else 'observed'
    return 'valid' if everything else 'valid at first' if sent else 'invalid'


SENTENCES = (
    'Yes.', 'No!', 'Why?', 'It is 3.5 m.', 'Dr. Who said so.', '"Quite."', 'A', 'word', 'i.e. this',
    'Wait...', '\n\n', '\n', '\t', ' ', '.', '!?', '\u3002', 'x' * 300, 'one two ' * 40, '{}', ';',
    '#true ', '\u00a0', '\u2028', 'land;', '\U0001f600',
)  # fmt: skip
FORBIDDEN = '\x00\x07\x0b\x0c\x1b\x7f\x85\x9f\ud800'


def answers(rng: random.Random) -> Iterator[str]:
    """Yield what a chat may be told: sentences, long ones, very many, and what steers terminals."""
    for _ in range(TEXTS):
        words = rng.choices(SENTENCES, k=rng.choice((1, 3, 10, 10, 10, 40)))
        text = rng.choice(('', ' ', ' ')).join(words)
        draw = rng.random()
        if draw < 0.2:
            text = mutate(text, rng, rng.choice(SENTENCES) + rng.choice(FORBIDDEN))
        elif draw < 0.4:
            place = rng.randrange(len(text) + 1)
            text = text[:place] + rng.choice(FORBIDDEN) + text[place:]
        elif draw < 0.403:
            text = rng.choice((text, 'A b. C? ')) * rng.choice((100, 600, 3000))
        yield text


@settings(phases=[Phase.generate])
@given(st.integers(0, 2**64))
def test_nothing_forbidden_reaches_a_reader(seed: int) -> None:
    outcomes = Counter(check_answer(text) for text in answers(random.Random(seed)))
    assert outcomes['valid'] > 0.4 * TEXTS, outcomes
    assert outcomes['invalid'] > 0.05 * TEXTS, outcomes


def check_answer(text: str) -> str:
    """Check what becomes of an answer on both sides of the wire; return what it is."""
    rng = random.Random(len(text))
    cutter = segmenter_for(CHATBOT, SCENE)
    sent: list[Segment] = []
    everything, place, pushes = True, 0, 0
    with counted_steps() as steps:
        try:
            while place < len(text):
                step = rng.choice((1, 7, 50, 1000))
                sent += cutter.push(text[place : place + step])
                place, pushes = place + step, pushes + 1
            sent += cutter.finish()
        except PlanError:
            everything = False
    # Each piece is searched once, and once more behind each end that it has.
    assert steps['ends'] <= pushes + len(sent) + 2, text
    together = ''.join(segment.text for segment in sent)
    assert text.startswith(together)
    assert not set(together) & set(FORBIDDEN)
    assert len(sent) <= CHATBOT.limits.plan_calls
    for segment in sent:
        (call,) = segment.calls
        assert call.arguments[0].value == segment.text
        assert len(segment.text) <= 16_384
        # What is one sentence to the planner may be more to the robot, which sees its end.
        told = read_statements(segment.text, CHATBOT, ())
        assert ''.join(str(c.arguments[0].value) for c in calls_of(told)) == segment.text.rstrip()
    if everything:
        assert together == text.rstrip()
        assert len(text) <= 16_384
        return 'valid'
    rest = text[len(together) :]
    assert (
        set(rest) & set(FORBIDDEN) or len(text) > 16_384 or len(sent) == CHATBOT.limits.plan_calls
    ), text
    return 'invalid'


@lru_cache(100_000)
def assert_call_is_safe(call: Call, oracle: PlanOracle) -> None:
    """A driver reads values, not text: they must say the same, in SI units and within bounds."""
    assert oracle.is_plan(call.text + ';'), call
    arguments = oracle.skills[call.skill].get('arguments', {})
    assert [argument.name for argument in call.arguments] == list(arguments)
    for argument in call.arguments:
        spec = arguments[argument.name]
        if spec['kind'] == 'int':
            assert isinstance(argument.value, float)
            assert abs(argument.value / SI[spec['unit']] - int(argument.text)) < 1e-9
        elif spec['kind'] == 'object':
            assert argument.value in DISTANCES_M
        else:
            assert argument.text == f'"{argument.value}"'


DRONE_ORACLE = PlanOracle('tello')


@examples(200)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=12).map(''.join),
    st.lists(st.integers(1, 40), max_size=20),
)
def test_any_pieces_in_any_cuts_send_only_valid_plans(text: str, steps: list[int]) -> None:
    cutter = PlanSegmenter(TELLO, SCENE)
    sent, place = '', 0
    try:
        for step in [*steps, len(text)]:
            for segment in cutter.push(text[place : place + step]):
                sent += segment.text
            place += step
            if cutter.awaits_value:
                cutter.observe('false')
        cutter.finish()
    except PlanError:
        pass
    else:
        assert DRONE_ORACLE.is_plan(text)
    assert DRONE_ORACLE.is_plan(sent)


def test_the_oracle_is_no_yes_man() -> None:
    oracle = PlanOracle('tello')
    good = (
        '',
        'land;',
        ' repeat ( 3 ) { if(!is_visible(cat_3) ) {scan;}else{ land ; } ; } ; ',
        'is_visible(cat_3);#true land;',
        'repeat(1){repeat(1){repeat(1){land;};};};',
        'if(is_visible(cat_3)){scan;}else{repeat(2){if(is_visible(cup_1)){scan;};};};',
        'log("a , b");',
    )
    bad = (
        'land',
        ';',
        'fly;',
        'goto(dog_7);',
        'move_up(19);',
        'take off;',
        'repeat(2){};',
        'repeat(2){land};',
        'if(scan){land;};',
        'land;#true ',
        'repeat(2){is_visible(cat_3);#true };',
        'repeat(1){repeat(1){repeat(1){repeat(1){land;};};};};',
        'log("");',
        'log("a;b");',
        'if(is_visible(cat_3)){scan;}else{land;}else{land;};',
    )
    assert all(map(oracle.is_plan, good))
    assert not any(map(oracle.is_plan, bad))
