from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from support.skills.byte_tokenizer import END, TOKENS, ByteTokenizer, allowed_tokens
from support.skills.plan_texts import LAB, SCENE, SKILL_SETS, TELLO, PlanWriter

from timely_llm_ros.errors import PlanError
from timely_llm_ros.skills.grammar.grammar import decoding_grammar
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.skills.segments.plan_segmenter import PlanSegmenter
from timely_llm_ros.skills.statements import render

if TYPE_CHECKING:
    from timely_llm_ros.skills.skill_types import SkillSet

llguidance = pytest.importorskip('llguidance')


@pytest.fixture(scope='module')
def tokenizer() -> Any:
    wrapper = llguidance.TokenizerWrapper(ByteTokenizer())
    return llguidance.LLTokenizer(wrapper, n_vocab=len(TOKENS))


def matcher_of(tokenizer: Any, skill_set: SkillSet, scene: Scene, *, observations: bool) -> Any:
    grammar = decoding_grammar(skill_set, scene, observations=observations)
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar))
    assert not matcher.is_error(), matcher.get_error()
    assert not matcher.get_grammar_warnings()
    return matcher


def accepts(matcher: Any, text: str) -> bool:
    matcher = matcher.deep_copy()
    tokens = list(text.encode())
    return bool(
        matcher.validate_tokens(tokens) == len(tokens)
        and (not tokens or matcher.consume_tokens(tokens))
        and matcher.is_accepting()
    )


def observed(text: str, skill_set: SkillSet, rng: random.Random) -> str:
    """Insert the observations that the runtime would write."""
    segmenter = PlanSegmenter(skill_set, SCENE)
    out = ''
    for statement in parse(text, skill_set, SCENE):
        piece = render((statement,))
        out += piece
        segmenter.push(piece)
        if segmenter.awaits_value:
            out += segmenter.observe(rng.choice(['true', 'false']))
    return out


def in_language(text: str, skill_set: SkillSet) -> bool:
    """Whether it is the shortest form of a plan of at least one statement, without observations."""
    try:
        return bool(text) and render(parse(text, skill_set, SCENE)) == text
    except PlanError:
        return False


@pytest.mark.parametrize('skill_set', SKILL_SETS, ids=lambda s: s.name)
def test_every_valid_plan_is_accepted(tokenizer: Any, skill_set: SkillSet) -> None:
    rng = random.Random(5)
    free = matcher_of(tokenizer, skill_set, SCENE, observations=False)
    strict = matcher_of(tokenizer, skill_set, SCENE, observations=True)
    for _ in range(150):
        text = PlanWriter(skill_set, rng).plan(rng.randint(1, 6)).text
        with_values = observed(text, skill_set, rng)
        assert accepts(free, text), text
        assert accepts(strict, with_values), with_values
        assert accepts(strict, text) == (with_values == text)


@pytest.mark.parametrize('skill_set', SKILL_SETS, ids=lambda s: s.name)
def test_the_masks_accept_exactly_what_the_parser_accepts(
    tokenizer: Any, skill_set: SkillSet
) -> None:
    rng = random.Random(6)
    matcher = matcher_of(tokenizer, skill_set, SCENE, observations=False)
    alphabet = 'abct_013459(){};,!."# -'
    wrong = 0
    for _ in range(1500):
        text = PlanWriter(skill_set, rng).plan(rng.randint(1, 3)).text
        place = rng.randrange(len(text))
        other = rng.choice(alphabet)
        text = rng.choice([
            text[:place] + text[place + 1 :],
            text[:place] + other + text[place:],
            text[:place] + other + text[place + 1 :],
            text[:place],
            text[: place + 1] + text[place:],
        ])  # fmt: skip
        valid = in_language(text, skill_set)
        wrong += not valid
        assert accepts(matcher, text) == valid, text
    assert 500 < wrong < 1490


@pytest.mark.parametrize('skill_set', SKILL_SETS, ids=lambda s: s.name)
@pytest.mark.parametrize('observations', [False, True])
def test_a_random_walk_through_the_masks_writes_valid_plans(
    tokenizer: Any, skill_set: SkillSet, observations: bool
) -> None:
    rng = random.Random(7)
    matcher = matcher_of(tokenizer, skill_set, SCENE, observations=observations)
    for _ in range(25):
        walk = matcher.deep_copy()
        text = b''
        while len(text) < 3000:
            tokens = allowed_tokens(walk)
            assert tokens, text
            if END in tokens and rng.random() < 0.2:
                break
            # Blocks would seldom close by chance.
            closing = [token for token in tokens if TOKENS[token] in (b'}', b';', b')')]
            token = rng.choice(closing if closing and rng.random() < 0.5 else tokens)
            if token == END:
                break
            text += TOKENS[token]
            assert walk.consume_token(token)
        else:
            continue
        plan = text.decode()
        parsed = parse(plan, skill_set, SCENE)
        unseen = re.sub(r'#[^ ]+ ', '', plan)
        assert render(parsed) == unseen
        if observations:
            awaited = [
                s
                for s in parsed
                if getattr(s, 'skill', '')
                in {k.name for k in skill_set.skills.values() if k.blocking}
            ]
            assert plan.count('#') == len(awaited)


def test_the_model_cannot_go_on_before_the_value_is_there(tokenizer: Any) -> None:
    matcher = matcher_of(tokenizer, TELLO, SCENE, observations=True)
    matcher.consume_tokens(list(b'is_visible(cat_3);'))
    assert [TOKENS[token] for token in allowed_tokens(matcher)] == [b'#', b'#true ']
    matcher.consume_tokens(list(b'#false '))
    assert END in allowed_tokens(matcher)


def test_only_objects_of_the_scene_and_of_the_right_kind_can_be_named(tokenizer: Any) -> None:
    matcher = matcher_of(tokenizer, LAB, SCENE, observations=False)
    assert accepts(matcher, 'pour(bottle_2,1,slow);')
    assert not accepts(matcher, 'pour(cat_3,1,slow);')
    assert accepts(matcher, 'if(is_open(box_4)){freeze;};')
    assert not accepts(matcher, 'if(is_open(cat_3)){freeze;};')
    assert not accepts(matcher, 'if(read_label(box_4)){freeze;};')


def test_skills_without_an_object_for_them_are_left_out(tokenizer: Any) -> None:
    matcher = matcher_of(tokenizer, TELLO, Scene(), observations=True)
    assert accepts(matcher, 'takeoff;repeat(2){scan;};land;')
    assert not accepts(matcher, 'goto(cat_3);')
    assert not accepts(matcher, 'if(is_visible(cat_3)){scan;};')
    assert ord('i') not in allowed_tokens(matcher)


@pytest.mark.parametrize('only', ['bool', 'text'])
def test_a_set_whose_only_free_skill_is_the_safe_action(tokenizer: Any, only: str) -> None:
    skill_set = parse_skill_set(
        'name: watcher\ndescription: watches\nsafe_action: hold\nskills:\n'
        '  hold: {description: hold still, duration: {model: constant, seconds: 1}}\n'
        f'  look: {{description: look, blocking: true, returns: {only},'
        ' duration: {model: constant, seconds: 1}}\n'
    )
    matcher = matcher_of(tokenizer, skill_set, Scene(), observations=True)
    assert accepts(matcher, 'hold;look;#true hold;repeat(10){look;};')
    assert accepts(matcher, 'if(look){hold;};') == (only == 'bool')
    assert accepts(matcher, 'look;#a.b ') == (only == 'text')


def test_the_grammar_grows_by_no_more_than_the_names_of_the_objects() -> None:
    def size(count: int) -> int:
        names = [f'cup_{index:03}' for index in range(count)]
        scene = Scene(tuple(SceneObject(name, 'cup') for name in names))
        return len(decoding_grammar(TELLO, scene))

    assert size(200) - size(100) == 100 * len('cup_000|')


@pytest.mark.parametrize('skill_set', SKILL_SETS, ids=lambda s: s.name)
def test_words_of_the_scene_that_look_like_skills_and_keywords(
    tokenizer: Any, skill_set: SkillSet
) -> None:
    names = ('iffy', 'else_1', 'repeat_2', 'land', 'pick', 'true', 'freeze', 'a', 'a_1', 'a_10')
    scene = Scene(tuple(SceneObject(name, 'bottle') for name in names))
    matcher = matcher_of(tokenizer, skill_set, scene, observations=False)
    (call,) = [
        skill.name for skill in skill_set.skills.values()
        if [spec.kind for spec in skill.arguments] == ['object'] and skill.returns == 'bool'
    ]  # fmt: skip
    for name in names:
        text = f'if({call}({name})){{{skill_set.safe_action};}};{call}({name});'
        assert accepts(matcher, text)
        assert render(parse(text, skill_set, scene)) == text


def test_free_text_allows_any_text_without_control_characters(tokenizer: Any) -> None:
    chatbot = find_skill_set('chatbot')
    matcher = matcher_of(tokenizer, chatbot, SCENE, observations=True)
    for text in ('Once upon a time.\n\n"Go!" he said; {x} # 3.5', 'caf\u00e9 \u732b\u3002'):
        assert accepts(matcher, text)
    for text in ('', 'a\x1b[2J', 'a\x00'):
        assert not accepts(matcher, text)
