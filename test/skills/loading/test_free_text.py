from __future__ import annotations

import pytest
from support.skills.plan_texts import TELLO

from timely_llm_ros.errors import SkillSetError
from timely_llm_ros.skills.durations import ReadingDuration
from timely_llm_ros.skills.loading import find_skill_set, parse_skill_set
from timely_llm_ros.skills.skill_types import FreeText

CHAT = """
name: chat
description: a reader
safe_action: end
free_text: {skill: say, segments: paragraph}
skills:
  say:
    description: show a text
    arguments: {text: {kind: string, max_length: 4000}}
    duration: {model: reading, words_per_minute: 300, variation: 0.1}
  end: {description: say no more, duration: {model: constant, seconds: 0}}
"""


def test_free_text_goes_to_one_skill() -> None:
    chat = parse_skill_set(CHAT)
    assert chat.free_text == FreeText('say', 'paragraph')
    assert chat.skills['say'].duration == ReadingDuration(300.0, 0.1)
    assert TELLO.free_text is None
    shipped = find_skill_set('chatbot')
    assert shipped.free_text == FreeText('say', 'sentence')
    sentences = parse_skill_set(CHAT.replace('paragraph', 'sentence'))
    assert chat.fingerprint() != sentences.fingerprint()


@pytest.mark.parametrize(
    ('old', 'new', 'key'),
    [
        ('segments: paragraph', 'segments: word', 'free_text.segments'),
        ('skill: say', 'skill: sing', 'free_text'),
        (', segments: paragraph', '', 'free_text.segments'),
        ('kind: string, max_length: 4000', 'kind: int, minimum: 0, maximum: 9', 'skills.say'),
        # A segment is no longer than segment_length.
        ('max_length: 4000', 'max_length: 4097', 'skills.say.arguments.text.max_length'),
        ('free_text: {skill: say, segments: paragraph}', '', 'skills.say.arguments.text'),
        ('words_per_minute: 300', 'words_per_minute: 0', 'skills.say.duration.words_per_minute'),
        ('constant, seconds: 0', 'reading, words_per_minute: 9', 'skills.end.duration'),
    ],
)  # fmt: skip
def test_free_text_is_checked(old: str, new: str, key: str) -> None:
    with pytest.raises(SkillSetError) as caught:
        parse_skill_set(CHAT.replace(old, new))
    assert caught.value.key.startswith(key)
    assert 'expected' in caught.value.problem


def test_free_text_goes_only_to_a_skill_that_takes_nothing_else() -> None:
    short = CHAT.replace('4000', '200').replace('skill: say', 'skill: end')
    more = CHAT.replace('4000}', '9}, loud: {kind: choice, choices: [yes_sir]}')
    for text in (short, more):
        with pytest.raises(SkillSetError, match='only argument') as caught:
            parse_skill_set(text)
        assert caught.value.key == 'free_text'
