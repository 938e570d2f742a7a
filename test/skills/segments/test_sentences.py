"""Where sentences of real text end: a corpus of texts with their ends marked."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.segments.free_text_segmenter import FreeTextSegmenter

CHATBOT = find_skill_set('chatbot')
END, LINE = '\u00a6', '\u21b5'
CORPUS = {
    name: text.strip().replace(LINE, '\n').split(END)
    for name, _, text in (
        line.partition(':')
        for line in (Path(__file__).parent / 'sentences.txt').read_text('utf-8').splitlines()
        if not line.startswith('#')
    )
}


def segments_of(pieces: list[str]) -> list[str]:
    segmenter = FreeTextSegmenter(CHATBOT)
    found = [segment for piece in pieces for segment in segmenter.push(piece)]
    return [segment.text for segment in (*found, *segmenter.finish())]


@pytest.mark.parametrize('name', CORPUS)
def test_where_segments_end(name: str) -> None:
    expected = CORPUS[name]
    text = ''.join(expected)
    assert segments_of([text]) == expected
    assert segments_of(list(text)) == expected
    rng = random.Random(name)
    for _ in range(10):
        places = sorted({0, len(text), *(rng.randrange(len(text) + 1) for _ in range(9))})
        assert segments_of([text[a:b] for a, b in pairwise(places)]) == expected


@pytest.mark.parametrize('name', CORPUS)
def test_an_end_is_told_with_the_beginning_of_the_next_word_or_line(name: str) -> None:
    """Nobody waits for the whole next sentence to read the one that is there."""
    expected = CORPUS[name]
    text = ''.join(expected)
    segmenter = FreeTextSegmenter(CHATBOT)
    place = 0
    told = 0
    for number, character in enumerate(text, 1):
        for segment in segmenter.push(character):
            told += 1
            place += len(segment.text)
            rest = text[place:number].lstrip()
            words = rest.split()
            assert len(words) <= 1 or rest[:3] in ('```', '~~~') or len(rest) <= 7, rest
    assert told in (len(expected) - 1, len(expected) - 2)


def test_the_corpus_is_one() -> None:
    assert len(CORPUS) >= 60
    assert sum(map(len, CORPUS.values())) >= 150
