"""Reports of a warehouse's day and questions on them, from a seed: prompts that are long to read.

What is asked stands in the report, word for word. Answers are one word to a few sentences, so that
their lengths differ as much as plans' do.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass

WHO = ('drone 1', 'drone 2', 'drone 3', 'cart 4', 'cart 5', 'arm 6', 'Maria', 'Tom', 'Aisha')
WHAT = (
    'a blue crate', 'a box of screws', 'the green toolbox', 'two batteries', 'a roll of cable',
    'the small ladder', 'a bag of gloves', 'a wooden pallet', 'the red bucket', 'a spare wheel',
    'three helmets', 'a can of paint', 'the long hose', 'a sack of sand',
)  # fmt: skip
WHERE = ('hall A', 'hall B', 'the north gate', 'the dock', 'the office', 'shelf 12', 'the yard')
DID = ('brought', 'carried', 'moved', 'took')
ENTRIES = (55, 105)
"""Fewest and most entries: some 1,000 to 2,000 tokens."""

FORMS = ('where', 'what', 'retell')
_WORD = re.compile(r'[a-z0-9]+')


@dataclass(frozen=True, slots=True)
class Question:
    """A report with a question on it.

    Attributes:
        form: One of :data:`FORMS`.
        text: The report, then the question.
        answer: What would be right.
    """

    form: str
    text: str
    answer: str


def draw_questions(count: int, seed: int) -> list[Question]:
    """Return so many questions, each on a report of its own; forms come evenly often."""
    rng = random.Random(f'reports {seed}')
    return [_draw(rng, FORMS[number % len(FORMS)]) for number in range(count)]


def _draw(rng: random.Random, form: str) -> Question:
    count = rng.randint(*ENTRIES)
    minutes = sorted(rng.sample(range(6 * 60, 20 * 60), count))
    entries = [
        (f'{at // 60:02}:{at % 60:02}', *map(rng.choice, (WHO, DID, WHAT, WHERE))) for at in minutes
    ]
    lines = [f'At {at} {who} {did} {what} to {where}.' for at, who, did, what, where in entries]
    place = rng.randrange(count - 3)
    at, who, did, what, where = entries[place]
    match form:
        case 'where':
            question = f'Where was it that {who} {did} {what} at {at}?'
            answer = f'{who} {did} {what} to {where}.'
        case 'what':
            last = entries[place + 1][0]
            question = f'What was done at {at} and at {last}?'
            answer = ' '.join(lines[place : place + 2])
        case _:
            last = entries[place + 3][0]
            question = f'Write down all that happened from {at} to {last}, as the report has it.'
            answer = ' '.join(lines[place : place + 4])
    return Question(form, '\n'.join(['The report of the day:', *lines, '', question]), answer)


def word_f1(answer: str, right: str) -> float:
    """Return the F1 of an answer's words against those of the right one."""
    got, wanted = (Counter(_WORD.findall(text.lower())) for text in (answer, right))
    common = (got & wanted).total()
    return 2 * common / (got.total() + wanted.total()) if common else 0.0
