"""What becomes of text: stop strings, answers that are cut off, text that is no plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.core_bench import Bench, request

from timely_llm_ros.engines import Submit
from timely_llm_ros.engines.core import EngineCore, LanedCore
from timely_llm_ros.engines.tokens import StopText
from timely_llm_ros.engines.torch.config import TorchConfig
from timely_llm_ros.errors import ConfigurationError, ModelLoadError
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from pathlib import Path

CHATBOT = find_skill_set('chatbot')
LETTERS = st.text(st.sampled_from('ab#'), min_size=1, max_size=4)


def shown(text: str, stops: list[str], cuts: list[int]) -> tuple[str, bool]:
    stop = StopText(stops)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    found = ''
    for first, last in pairwise(places):
        found += stop.push(text[first:last])
        if stop.found:
            return found, True
    return found + stop.rest(), False


@given(
    text=st.text(st.sampled_from('ab#'), max_size=30),
    stops=st.lists(LETTERS, max_size=3),
    cuts=st.lists(st.integers(0, 30), max_size=30),
)
def test_a_text_ends_before_the_first_stop_string_however_it_comes(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    # The first to be complete counts, so that what comes later changes nothing.
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    whole = text[: min(ends)] if ends else text
    expected = min((whole.find(stop) for stop in stops if stop in whole), default=len(text))
    assert shown(text, stops, cuts) == (text[:expected], bool(ends))


def run(
    plan: str, *, chat: bool = False, max_tokens: int = 512, **options: object
) -> Bench[EngineCore]:
    bench = Bench(EngineCore, plan, **options)
    task = request(max_tokens=max_tokens)
    bench.core.apply(Submit(replace(task, skill_set=CHATBOT) if chat else task))
    bench.run()
    return bench


@pytest.mark.parametrize('stop', ['User', 'User:', '\nUser: '])
def test_a_stop_string_ends_a_plan(stop: str) -> None:
    bench = run('takeoff;land;\nUser: once more;', stop_strings=(stop,))
    assert bench.segments() == ['takeoff;', 'land;']
    assert (bench.ended().reason, bench.ended().error) == ('stop', '')
    assert bench.ended().tokens == len(bench.ended().token_ids)


def test_what_only_might_have_become_a_stop_string_is_part_of_the_text() -> None:
    bench = run('One. Two #', chat=True, stop_strings=('##',))
    assert ''.join(bench.segments()) == 'One. Two #'
    bench = run('One. Two # three', chat=True, stop_strings=('##',), max_tokens=6)
    assert bench.ended().reason == 'length'
    assert ''.join(bench.segments()).endswith('#')


def test_a_stop_string_in_the_middle_of_a_statement_leaves_it_incomplete() -> None:
    bench = run('takeoff;goto(cat_3', stop_strings=('cat',))
    assert bench.segments() == ['takeoff;']
    assert bench.ended().reason == 'invalid_plan'


def test_stop_strings_hold_for_the_background_too() -> None:
    bench = Bench(LanedCore, 'takeoff;land;STOP it', stop_strings=('STOP',))
    bench.core.apply(Submit(request(background=True)))
    bench.run()
    assert (bench.segments(), bench.ended().reason) == (['takeoff;land;'], 'stop')


def test_an_answer_that_reaches_its_most_tokens_is_told_as_far_as_it_goes() -> None:
    bench = run('One sentence. And another one that goes on.', chat=True, max_tokens=6)
    assert (bench.ended().reason, bench.ended().error) == ('length', '')
    first, rest = bench.segments()
    assert first == 'One sentence.'
    assert ' And another one that goes on.'.startswith(rest)
    assert bench.ended().tokens == 6


def test_a_plan_that_reaches_its_most_tokens_loses_what_is_not_complete() -> None:
    bench = run('takeoff;move_up(50);land;', max_tokens=4)
    assert (bench.segments(), bench.ended().reason) == (['takeoff;'], 'length')


@pytest.mark.parametrize(
    ('junk', 'error'),
    [
        ('Sure! Here is a plan for you', "'S': expected a statement"),
        ('here is a plan for you', "'here': expected a skill"),
        ('land and then take off', "'a' after land"),
        ('takeoff;```', "'`': expected a statement"),
        ('takeoff; then land', "'then': expected a skill"),
    ],
)
def test_what_is_no_plan_is_noticed_at_its_first_word(junk: str, error: str) -> None:
    bench = run(junk + ' without an end' * 100)
    assert bench.ended().reason == 'invalid_plan'
    assert error in bench.ended().error
    assert bench.ended().tokens <= 8
    assert bench.segments() == (['takeoff;'] if junk.startswith('takeoff') else [])


def test_stop_strings_are_checked_and_the_models_own_count(tmp_path: Path) -> None:
    for bad in ('', ';', 'x' * 257):
        with pytest.raises(ConfigurationError, match='stop string'):
            TorchConfig(stop_strings=(bad,))
    (tmp_path / 'generation_config.json').write_text('{"stop_strings": ["###", "User:"]}')
    config = TorchConfig(model_path=str(tmp_path), stop_strings=('User:', 'Q:'))
    assert config.core_options().stop_strings == ('User:', 'Q:', '###')
    assert TorchConfig.from_json(config.to_json()) == config
    (tmp_path / 'generation_config.json').write_text('{"stop_strings": [7]}')
    with pytest.raises(ModelLoadError, match=r'generation_config\.json.*stop string'):
        config.core_options()
