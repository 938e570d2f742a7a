"""Says what a valid plan is a second time, by rewriting with regular expressions.

It reads the raw YAML file and shares nothing with the parser, the segmenters, the limits or the
skill-set reader.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
DISTANCES_M = {'cat_3': 1.0, 'cup_1': 2.0, 'cup_10': 5.0, 'bottle_2': 0.5, 'box_4': 0.0}
"""The objects of the scene, with their distance from the robot's start."""
LONGEST = 16_384
DEFAULT_LIMITS = {
    'segment_calls': 256, 'segment_s': 1800.0, 'segment_length': 4096,
    'plan_calls': 1024, 'plan_s': 7200.0,
}  # fmt: skip
SI = {'cm': 0.01, 'deg': 0.017453292519943295, 'ms': 0.001}
_SPACE = re.compile(r'[ \t\r\n]+')


class PlanOracle:
    """Knows the plans of one shipped skill set."""

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

    # What a plan asks for: each call becomes <calls,seconds>, and so does what holds only those.
    _CALL = re.compile(r'(?<![a-z0-9_])(?!(?:repeat|if|else)\b)[a-z][a-z0-9_]*(?:\([^(){};]*\))?')
    _SUM = re.compile(r'\{((?:<[^<>]*>;)+)\}')
    _TIMES = re.compile(r'repeat\(([0-9]+)\)\[([^\]]*)\]')
    _EITHER = re.compile(r'if\(!?<([^<>]*)>\)\[([^\]]*)\](?:else\[([^\]]*)\]|(?!else))')
    _STATEMENT = re.compile(r'<([^<>]*)>;')

    def __init__(self, name: str) -> None:
        raw = yaml.safe_load((ROOT / 'skills' / f'{name}.yaml').read_text())
        self.skills = raw['skills']
        self.limits = DEFAULT_LIMITS | raw.get('limits', {})
        self._max_repeat = raw.get('max_repeat', 10)
        self._letter, self._cost = cache(self._letter_of), cache(self._cost_of)

    def is_plan(self, text: str) -> bool:
        """Whether it is in the language, with every value in bounds."""
        if len(text) > LONGEST or '@' in text:
            return False
        tight = self._tight(re.sub(r';#(?:true|false) ', ';@', text))
        return tight is not None and self._is_tight_plan(tight)

    def is_allowed(self, plan: str) -> bool:
        """Whether a plan without observations asks for no more than the limits allow."""
        limits = self.limits
        # White space before a statement is the statement's.
        parts = self._split(plan)
        lengths = [len(part) for part in parts]
        asked = self.asked(plan)
        assert len(asked) == len(lengths), plan
        return (
            self._fits_with_values(plan, parts)
            and all(length <= limits['segment_length'] for length in lengths)
            and all(calls <= limits['segment_calls'] for calls, _ in asked)
            and all(seconds <= limits['segment_s'] for _, seconds in asked)
            and sum(calls for calls, _ in asked) <= limits['plan_calls']
            and sum(seconds for _, seconds in asked) <= limits['plan_s']
        )

    def _fits_with_values(self, plan: str, parts: list[str]) -> bool:
        """Whether it is short enough with '#true ' behind each statement that awaits a value."""
        length = 0
        for part in [*parts, plan[sum(map(len, parts)) :]]:
            if length + len(part) > LONGEST and part:
                return False
            name = re.split(r'[({;]', part)[0].strip()
            awaits = self.skills.get(name, {}).get('blocking', False)
            length += len(part) + (len('#true ') if awaits else 0)
        return True

    def asked(self, plan: str) -> list[tuple[int, float]]:
        """Return the most calls and seconds of each statement of a plan without observations."""
        text = self._tight(plan)
        assert text is not None
        text = self._CALL.sub(lambda match: '<{},{!r}>'.format(*self._cost(match[0])), text)
        for _ in range(3):
            text = self._SUM.sub(lambda match: f'[{_total(match[1])}]', text)
            text = self._TIMES.sub(lambda match: f'<{_times(match[1], match[2])}>', text)
            text = self._EITHER.sub(lambda match: f'<{_either(*match.groups())}>', text)
        assert self._STATEMENT.sub('', text) == '', text
        return [_pair(value) for value in self._STATEMENT.findall(text)]

    def _tight(self, text: str) -> str | None:
        """Leave out white space; None if some of it parts what cannot be parted."""
        if '"' not in text and _SPACE.search(text) is None:
            return text
        # Strings become words without spaces, so that white space can go from everywhere else.
        strings: list[str] = []

        def keep(match: re.Match[str]) -> str:
            strings.append(match[0])
            # A string of as many characters, of which none means anything.
            return f'"{"s" * (len(match[0]) - 2)}"'

        text = self._STRING.sub(keep, text)
        if re.search(r'[\w".-][ \t\r\n]+[\w".-]', text):
            return None
        return _SPACE.sub('', text)

    def _split(self, plan: str) -> list[str]:
        """Return the top-level statements of a plan, each with the white space before it."""
        parts: list[str] = []
        depth = start = 0
        for match in re.finditer(r'[{};]', plan):
            depth += {'{': 1, '}': -1, ';': 0}[match[0]]
            if match[0] == ';' and depth == 0:
                parts.append(plan[start : match.end()])
                start = match.end()
        return parts

    def _is_tight_plan(self, text: str) -> bool:
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
                letter = self._letter(match['call'], match['arguments'])
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

    def _letter_of(self, name: str, arguments: str | None) -> str:
        """Return 'b' for a call that returns bool, 'c' for another, nothing for a wrong one."""
        skill = self.skills.get(name)
        if skill is None:
            return ''
        wanted = list(skill.get('arguments', {}).values())
        given = [] if arguments is None else arguments.split(',')
        if (not wanted and arguments is not None) or len(wanted) != len(given):
            return ''
        if not all(self._fits(*pair) for pair in zip(wanted, given, strict=True)):
            return ''
        return 'b' if skill.get('returns') == 'bool' else 'c'

    def _fits(self, spec: dict[str, Any], text: str) -> bool:
        if spec['kind'] == 'object':
            return text in DISTANCES_M
        if spec['kind'] == 'int':
            fits = self._INT.fullmatch(text) and spec['minimum'] <= int(text) <= spec['maximum']
            return bool(fits)
        return re.fullmatch('"s+"', text) is not None and len(text) - 2 <= spec['max_length']

    def _cost_of(self, call: str) -> tuple[int, float]:
        """Return 1 and the seconds that a valid call should take."""
        name, _, arguments = call.rstrip(')').partition('(')
        skill = self.skills[name]
        duration = skill['duration']
        if duration['model'] == 'constant':
            return 1, duration['seconds']
        seconds = duration['base_s']
        for text, (argument, spec) in zip(
            arguments.split(','), skill['arguments'].items(), strict=True
        ):
            amount = DISTANCES_M[text] if spec['kind'] == 'object' else abs(int(text))
            seconds += duration['per'].get(argument, 0.0) * amount * SI.get(spec.get('unit'), 1.0)
        return 1, seconds


def _pair(text: str) -> tuple[int, float]:
    calls, seconds = text.split(',')
    return int(calls), float(seconds)


def _total(parts: str) -> str:
    pairs = [_pair(part) for part in parts[1:-2].split('>;<')]
    return f'{sum(calls for calls, _ in pairs)},{sum(seconds for _, seconds in pairs)!r}'


def _times(count: str, body: str) -> str:
    calls, seconds = _pair(body)
    return f'{int(count) * calls},{int(count) * seconds!r}'


def _either(condition: str, then: str, otherwise: str | None) -> str:
    (asked, asked_s), (calls, seconds) = _pair(condition), _pair(then)
    other, other_s = _pair(otherwise or '0,0.0')
    return f'{asked + max(calls, other)},{asked_s + max(seconds, other_s)!r}'
