"""Questions to a chat, drawn from a seed: from those that a word answers to those for a page.

A form says how long an answer is to be, or leaves it open as people mostly do. Forms come evenly
often, and no question comes twice.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORDS: Mapping[str, Sequence[str]] = {
    'animal': (
        'cat', 'horse', 'whale', 'bee', 'penguin', 'wolf', 'elephant', 'owl', 'snake', 'dolphin',
        'ant', 'bear',
    ),
    'country': (
        'France', 'Japan', 'Brazil', 'Egypt', 'Canada', 'India', 'Spain', 'Kenya', 'Norway', 'Peru',
        'Australia', 'Greece',
    ),
    'thing': (
        'bicycle', 'battery', 'microscope', 'telescope', 'refrigerator', 'printer', 'compass',
        'camera', 'piano', 'sewing machine', 'wind turbine', 'submarine',
    ),
    'matter': (
        'photosynthesis', 'gravity', 'inflation', 'democracy', 'evolution', 'the water cycle',
        'vaccination', 'machine learning', 'recycling', 'electricity', 'the internet', 'friendship',
        'climate change', 'sleep', 'music', 'the French Revolution', 'volcanoes', 'poetry',
    ),
    'dish': (
        'pancakes', 'tomato soup', 'an omelette', 'rice', 'a fruit salad', 'bread', 'lasagna',
        'pizza', 'tea', 'a sandwich', 'mashed potatoes', 'scrambled eggs',
    ),
    'place': (
        'a library', 'a small island', 'an old castle', 'a space station', 'a market', 'a forest',
        'a lighthouse', 'a train', 'a school', 'a farm', 'a hospital', 'a desert town',
    ),
    'person': (
        'a shy robot', 'a brave girl', 'an old sailor', 'a young doctor', 'a lost dog', 'a painter',
        'a clever thief', 'a tired king', 'a curious child', 'a lonely teacher',
    ),
    'reader': ('my teacher', 'a friend', 'my boss', 'my neighbour', 'a customer', 'my grandmother'),
    'subject': (
        'a broken window', 'a birthday party', 'a late delivery', 'a day off', 'a lost key',
        'a new job', 'the noise at night', 'a shared garden',
    ),
    'goal': (
        'learn a language', 'save money', 'sleep better', 'stay healthy', 'plan a trip',
        'find a job', 'read more books', 'grow vegetables', 'prepare for an exam', 'make friends',
        'start running', 'write a diary',
    ),
    'sentence': (
        'The cat sleeps on the sofa', 'We will meet at the station', 'It rains a lot in autumn',
        'My brother sells old cars', 'She has never seen the sea', 'The shop closes at six',
        'They built a house by the river', 'I forgot my umbrella at work',
    ),
    'tongue': ('French', 'Spanish', 'German', 'Italian'),
    'few': ('two', 'three', 'four', 'five'),
    'many': ('eight', 'ten', 'twelve'),
    'number': tuple(str(number) for number in range(3, 60, 4)),
}  # fmt: skip
"""What stands for a name in braces."""

FORMS: Mapping[str, Sequence[str]] = {
    'word': (
        'What is the capital of {country}? Answer with one word.',
        'Is {animal} a mammal? Answer only yes or no.',
        'What is {number} plus {number}? Give only the number.',
        'Which continent is {country} in? One word only.',
        'Say one word that comes to your mind with {matter}.',
    ),
    'sentence': (
        'Explain {matter} in one sentence.',
        'In one short sentence, what is a {thing} for?',
        'Describe a {animal} in one sentence.',
        'Give me one tip to {goal}, in a single sentence.',
        'Translate to {tongue}: {sentence}.',
    ),
    'lines': (
        'Name {few} facts about the {animal}, one short line each.',
        'List {few} things that I need for {dish}.',
        'Give me {few} short tips to {goal}.',
        'Write a haiku about {matter}.',
        'Rewrite this politely: {sentence}.',
    ),
    'question': (
        'How does a {thing} work?',
        'What is {matter}?',
        'Why is {matter} important?',
        'What do I have to know about {country}?',
        'How can I {goal}?',
        'Who invented the {thing}?',
        'How long does a {animal} live?',
        'How do I make {dish}?',
    ),
    'paragraph': (
        'Write a paragraph about {matter}.',
        'Describe {place} in {few} sentences.',
        'Write a short message to {reader} about {subject}.',
        'Explain to a child how a {thing} works, in {few} sentences.',
        'Tell me briefly about the history of {country}.',
    ),
    'page': (
        'Write a story about {person} in {place}, in {few} paragraphs.',
        'Explain in {few} steps how to {goal}, with two sentences on each step.',
        'List {many} ideas to {goal}.',
        'Write a letter to {reader} about {subject}.',
        'Compare a {thing} and a {thing} in {few} points.',
        'Write a poem of {few} verses about {person} and {matter}.',
    ),
}
"""Questions by how long an answer they ask for."""

MOST_TRIES = 20
"""Draws for each question that is wanted, before a form counts as having no more."""

_NAME = re.compile(r'\{(\w+)\}')


def draw_questions(count: int, seed: int) -> list[tuple[str, str]]:
    """Return so many forms and questions, each question once.

    Any first part of them is what fewer of the same seed are.

    Raises:
        ValueError: A form has not so many.
    """
    rng = random.Random(f'questions {seed}')
    forms, drawn, tries = list(FORMS), dict[str, str](), 0
    while len(drawn) < count:
        form, tries = forms[len(drawn) % len(forms)], tries + 1
        if tries > MOST_TRIES * count:
            raise ValueError(f'{count} questions: expected at most about {len(drawn)}')
        text = _NAME.sub(lambda name: rng.choice(WORDS[name[1]]), rng.choice(FORMS[form]))
        drawn.setdefault(text, form)
    return [(form, text) for text, form in drawn.items()]
