"""200,000 generated and mutated plan texts: what is not valid never reaches a driver.

What is valid is decided here a second time, by rewriting with regular expressions, from the raw
YAML file and without the parser, the segmenter or the skill-set reader.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.skills.plan_texts import ARM, SCENE, TELLO, PlanWriter

from timely_llm_ros.errors import PlanError
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter
from timely_llm_ros.skills.statements import Call, If, Repeat, Statement, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from timely_llm_ros.skills import SkillSet

ROOT = Path(__file__).resolve().parents[2]
TEXTS = 200_000
OBJECTS = frozenset({'cat_3', 'cup_1', 'cup_10', 'bottle_2', 'box_4'})
LONGEST = 16_384

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


class Oracle:
    """Says whether a text is a valid plan, from the raw skill-set file."""

    _TOKEN = re.compile(
        r'(?P<repeat>repeat\((?P<count>[^()]*)\)(?=\{))|(?P<if>if\(!?)|(?P<else>else(?=\{))'
        r'|(?P<call>[a-z][a-z0-9_]*)(?:\((?P<arguments>[^(){};]*)\))?|(?P<mark>[{};)@])'
    )
    _BLOCK = re.compile(r'\{(?:[csb];)+\}')
    _REPEAT = re.compile(r'Rk')
    _IF = re.compile(r'Ib\)k(?:Ek|(?!E))')
    _PLAN = re.compile(r'(?:[cs];|b;@?)*')
    _STRING = re.compile(r'"[A-Za-z0-9 ,.!?_-]*"')
    _INT = re.compile(r'-?[1-9][0-9]{0,8}|0')

    def __init__(self, name: str) -> None:
        raw = yaml.safe_load((ROOT / 'skills' / f'{name}.yaml').read_text())
        self.skills = raw['skills']
        self._max_repeat = raw['max_repeat']

    def is_plan(self, text: str) -> bool:
        if len(text) > LONGEST or '@' in text:
            return False
        text = re.sub(r';#(?:true|false) ', ';@', text)
        # Strings become words without spaces, so that white space can go from everywhere else.
        strings: list[str] = []

        def keep(match: re.Match[str]) -> str:
            strings.append(match[0])
            return f'"{len(strings) - 1}"'

        text = self._STRING.sub(keep, text)
        if re.search(r'[\w".-][ \t\r\n]+[\w".-]', text):
            return False
        return self._is_tight_plan(re.sub(r'[ \t\r\n]+', '', text), strings)

    def _is_tight_plan(self, text: str, strings: list[str]) -> bool:
        """Translate to one letter per part, then rewrite blocks from the inside, three times."""
        letters: list[str] = []
        place = 0
        while place < len(text):
            match = self._TOKEN.match(text, place)
            if match is None:
                return False
            place = match.end()
            if match['repeat']:
                count = match['count']
                if not self._INT.fullmatch(count) or not 1 <= int(count) <= self._max_repeat:
                    return False
                letters.append('R')
            elif match['if']:
                letters.append('I')
            elif match['else']:
                letters.append('E')
            elif match['call']:
                letter = self._call(match['call'], match['arguments'], strings)
                if not letter:
                    return False
                letters.append(letter)
            else:
                letters.append(match['mark'])
        code = ''.join(letters)
        for _ in range(3):
            code = self._BLOCK.sub('k', code)
            code = self._IF.sub('s', self._REPEAT.sub('s', code))
        return self._PLAN.fullmatch(code) is not None

    def _call(self, name: str, arguments: str | None, strings: list[str]) -> str:
        """Return 'b' for a call that returns bool, 'c' for another, nothing for a wrong one."""
        skill = self.skills.get(name)
        if skill is None:
            return ''
        wanted = list(skill.get('arguments', {}).values())
        given = [] if arguments is None else arguments.split(',')
        if (not wanted and arguments is not None) or len(wanted) != len(given):
            return ''
        for spec, text in zip(wanted, given, strict=True):
            if spec['kind'] == 'object':
                fits = text in OBJECTS
            elif spec['kind'] == 'int':
                fits = bool(self._INT.fullmatch(text)) and (
                    spec['minimum'] <= int(text) <= spec['maximum']
                )
            else:
                fits = re.fullmatch('"[0-9]+"', text) is not None and (
                    1 <= len(strings[int(text[1:-1])]) - 2 <= spec['max_length']
                )
            if not fits:
                return ''
        return 'b' if skill.get('returns') == 'bool' else 'c'


class RecordingDriver:
    """Keeps every call that it is told, both branches of a conditional included."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def run(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            match statement:
                case Call():
                    self.calls.append(statement)
                case Repeat():
                    self.run(statement.body)
                case If():
                    self.run((statement.condition, *statement.then, *statement.otherwise))
                case _:
                    raise AssertionError(statement)


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


def texts(writer: PlanWriter, rng: random.Random, count: int) -> Iterator[str]:
    """Yield valid plans, mutated ones, heaps of pieces, and noise."""
    pool = [writer.plan(rng.randint(1, 4)).text for _ in range(2000)]
    for index in range(count):
        draw = rng.random()
        if draw < 0.85:
            text = pool[rng.randrange(len(pool))]
            for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
                text = mutate(text, rng, pool[rng.randrange(len(pool))])
        elif draw < 0.95:
            text = rng.choice(('', ';')).join(rng.choices(PIECES, k=rng.randint(1, 8)))
        else:
            text = ''.join(rng.choices(CHARACTERS, k=rng.randint(0, 30)))
        yield text
        if index % 100 == 0:
            pool[rng.randrange(len(pool))] = writer.plan(rng.randint(1, 4)).text


def parse_or_error(
    text: str, skill_set: SkillSet
) -> tuple[tuple[Statement, ...], PlanError | None]:
    try:
        return parse(text, skill_set, SCENE), None
    except PlanError as err:
        return (), err


def drive(text: str, skill_set: SkillSet, driver: RecordingDriver) -> tuple[str, bool]:
    """Send a text through the segmenter to the driver; return what was sent, and if it all was."""
    sent: list[str] = []
    cutter = PlanSegmenter(skill_set, SCENE)
    try:
        # A blocking call must end its piece: the runtime has its turn there.
        for piece in re.findall(r'[^;]*;|[^;]+', text):
            for segment in cutter.push(piece):
                driver.run(segment.statements)
                sent.append(segment.text)
            if cutter.awaits_value:
                cutter.observe('true')
        cutter.finish()
    except PlanError:
        return ''.join(sent), False
    return ''.join(sent), True


@pytest.mark.parametrize('skill_set', [TELLO, ARM], ids=lambda s: s.name)
def test_nothing_invalid_reaches_a_driver(skill_set: SkillSet) -> None:
    rng = random.Random(f'hostile {skill_set.name}')
    oracle = Oracle(skill_set.name)
    outcomes: Counter[str] = Counter()
    known: set[tuple[str, tuple[object, ...]]] = set()
    for text in texts(PlanWriter(skill_set, rng), rng, TEXTS // 2):
        driver = RecordingDriver()
        valid = oracle.is_plan(text)
        parsed, error = parse_or_error(text, skill_set)
        assert valid == (error is None), (text, error)
        assert error is None or 0 <= error.offset <= len(text)
        sent, everything = drive(text, skill_set, driver)
        # Only the runtime writes observations, so the model's text may not hold one.
        assert everything == (valid and '#' not in text), text
        if everything:
            assert sent == render(parsed)
        elif sent:
            outcomes['a valid beginning'] += 1
            assert oracle.is_plan(sent), (text, sent)
        for call in driver.calls:
            told = (call.text, tuple(argument.value for argument in call.arguments))
            if told not in known:
                assert_call_is_safe(call, oracle)
                known.add(told)
        outcomes['valid' if valid else 'invalid'] += 1
    # The texts are worth something only if there are many of each.
    assert outcomes['valid'] > 0.15 * TEXTS / 2, outcomes
    assert outcomes['invalid'] > 0.4 * TEXTS / 2, outcomes
    assert outcomes['a valid beginning'] > 0.05 * TEXTS / 2, outcomes
    assert len(known) > 500


def assert_call_is_safe(call: Call, oracle: Oracle) -> None:
    """A driver reads values, not text: they must say the same, in SI units and within bounds."""
    assert oracle.is_plan(call.text + ';'), call
    arguments = oracle.skills[call.skill].get('arguments', {})
    assert [argument.name for argument in call.arguments] == list(arguments)
    for argument in call.arguments:
        spec = arguments[argument.name]
        if spec['kind'] == 'int':
            scale = {'cm': 100.0, 'deg': 57.29577951308232, 'ms': 1000.0}[spec['unit']]
            assert isinstance(argument.value, float)
            assert argument.value * scale == pytest.approx(int(argument.text), abs=1e-9)
        elif spec['kind'] == 'object':
            assert argument.value in OBJECTS
        else:
            assert argument.text == f'"{argument.value}"'


DRONE_ORACLE = Oracle('tello')


@settings(max_examples=500)
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
    oracle = Oracle('tello')
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
