"""Reports with questions: what is right stands in them, and an answer is worth what it shares."""

from __future__ import annotations

import pytest

from benchmarks.timebill.documents import FORMS, draw_questions, word_f1
from benchmarks.timebill.llm_budget import BUCKET, LengthsByForm


def test_an_answer_stands_in_its_report() -> None:
    questions = draw_questions(30, 1)
    assert [question.form for question in questions[:3]] == list(FORMS)
    assert len({question.text for question in questions}) == len(questions)
    for question in questions:
        report, _, asked = question.text.rpartition('\n\n')
        assert asked.endswith(('?', '.'))
        for sentence in question.answer.rstrip('.').split('. '):
            assert sentence in report
    assert draw_questions(3, 1) == questions[:3]


@pytest.mark.parametrize(
    ('answer', 'score'),
    [
        ('Aisha moved it to the dock.', 1.0),
        ('aisha MOVED it to the dock', 1.0),
        ('the dock', 0.5),
        ('', 0.0),
        ('hall B', 0.0),
        ('the the the the the the', 1 / 6),
    ],
)
def test_an_answer_is_worth_the_words_that_it_shares(answer: str, score: float) -> None:
    assert word_f1(answer, 'Aisha moved it to the dock.') == pytest.approx(score)


def test_lengths_are_those_of_answers_to_questions_of_that_form() -> None:
    lengths = LengthsByForm({'a': 'where', 'b': 'where', 'c': 'retell'})
    for _ in range(9):
        lengths.observe('a', 3 * BUCKET)
    lengths.observe('c', 10**6)
    assert lengths.predict('', 'b').bucket == 3
    assert lengths.predict('', 'c').bucket == len(lengths.predict('', 'c').probabilities)
