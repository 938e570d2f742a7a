"""Questions to a general model, how their answers are split, and who is how wrong about lengths."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip('torch')

from benchmarks.llm import answer_lengths
from benchmarks.llm.answer_lengths import (
    REFINED,
    ROUND,
    Judged,
    judge,
    learn_probes,
    split,
)
from benchmarks.llm.answer_replay import FCFS, ORACLE, SYSTEMS, TAILS, TRAIL, replay
from benchmarks.llm.chat_prompts import FORMS, draw_questions
from benchmarks.llm.prompt_lengths import (
    left_errors,
    mean_error,
    state_regression,
    still_running,
)
from benchmarks.trail.replay import Replayed, Spoken
from timely_llm_ros.prediction.lengths import LengthBins, LengthDistribution, LengthFilter
from timely_llm_ros.skills import Prompt
from timely_llm_ros.training import LengthSample, ProbeTraining


def answer(length: int, kind: int = 0, *, cut: bool = False, seed: int = 0) -> LengthSample:
    """Return an answer whose states say how much is left, and whose first says the length."""
    rng = np.random.default_rng(seed)
    left = np.arange(length - 1, -1, -1)
    states = np.stack([np.sqrt(left), np.ones(length), left / 50, rng.normal(size=length)], axis=1)
    layers = np.stack([rng.normal(size=states.shape), states], axis=1)
    return LengthSample(
        Prompt('you answer', f'why {length}?'), kind, length, layers.astype('f2'), cut
    )


def test_questions_come_once_in_all_forms_and_fewer_are_the_first_of_more() -> None:
    drawn = draw_questions(480, 5)
    assert len({text for _, text in drawn}) == 480
    assert set(Counter(form for form, _ in drawn).values()) == {480 // len(FORMS)}
    assert draw_questions(100, 5) == drawn[:100]
    assert draw_questions(100, 6) != drawn[:100]
    assert not any(mark in text for _, text in drawn for mark in '{}')
    with pytest.raises(ValueError, match='2000 questions: expected at most about'):
        draw_questions(2000, 5)


def test_no_answer_that_judges_is_learned_from_or_chosen_by_and_forms_are_even() -> None:
    samples = [
        answer(2 + place, place % len(FORMS), cut=place % 11 == 0)
        for place in range(ROUND * len(FORMS) * 3)
    ]
    parts = split(samples)
    lengths = [{it.length for it in some} for some in (parts.learned, parts.chosen, parts.judged)]
    assert sum(map(len, lengths)) == len(set.union(*lengths))
    assert len(parts.judged) == 2 * len(FORMS) * 3
    assert not any(sample.censored for sample in parts.chosen)
    assert any(sample.censored for sample in parts.judged)
    assert set(Counter(sample.kind for sample in parts.judged).values()) == {6}


def test_an_error_counts_every_token_after_which_an_answer_runs() -> None:
    assert left_errors(4, 4.0).tolist() == [0, 0, 0]
    assert left_errors(4, 2.0).tolist() == [2, 2, 1], 'what is left is at least nothing'
    assert left_errors(4, np.array([5.0, 4.0, 4.5])).tolist() == [1, 0, 0.5]
    assert mean_error([4, 2], [2.0, 2.0]) == 5 / 4


@given(st.integers(2, 90), st.integers(2, 90))
def test_who_knows_that_an_answer_runs_never_says_less_than_a_token_more(
    length: int, usual: int
) -> None:
    said = LengthDistribution((1 / 8,) * 8, 5)
    lengths = LengthFilter(LengthBins(10, 50), np.full(10, 0.1), 0.0, divides=False)
    for whole in still_running(length, said, np.array([usual, 2.0 * usual]), lengths).values():
        assert len(whole) == length - 1
        assert (whole[: lengths.longest // 2] >= np.arange(2, length + 1) - 1e-9).all()


def test_a_regression_on_the_prompts_state_finds_what_is_in_it() -> None:
    learned = [answer(10 + 3 * place, seed=place) for place in range(40)]
    others = [answer(11 + 5 * place, seed=99 + place) for place in range(20)]
    found = state_regression(learned, others[::2], others[1::2])
    truths = [sample.length for sample in others[1::2]]
    assert mean_error(truths, found) < 0.5 * mean_error(truths, [float(np.mean(truths))] * 10)


def test_a_ratio_of_errors_weighs_all_tokens_alike_and_says_how_sure_it_is() -> None:
    judged = Judged(
        np.array([10.0, 30.0]),
        {'a: x': np.array([20.0, 60.0]), REFINED: np.array([10.0, 30.0])},
        [],
    )
    assert judged.means == {'a: x': 2.0, REFINED: 1.0}
    assert judged.best('a: ') == 'a: x'
    assert judged.ratio('a: x', REFINED) == (2.0, 0.0)


def test_the_least_wrong_layer_is_kept_and_beats_what_reads_prompts_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_lengths, 'LAYERS', (1, 2))
    monkeypatch.setattr(answer_lengths, 'TRAINING', ProbeTraining(LengthBins(10, 60), epochs=4))
    monkeypatch.setattr(
        answer_lengths,
        'forecasts_of',
        lambda _rlp, _folder, samples: [LengthDistribution((1 / 8,) * 8, 8) for _ in samples],
    )
    rng = np.random.default_rng(3)
    samples = [
        answer(int(length), place % 6, seed=place)
        for place, length in enumerate(rng.integers(1, 60, size=70))
    ]
    parts = split(samples)
    said = answer_lengths.forecasts_of(None, None, parts.chosen)  # type: ignore[arg-type]
    probes = learn_probes(parts, said)
    assert probes.place == 1
    judged = judge(parts, probes, None, None)  # type: ignore[arg-type]
    assert len(judged.spoken) == len(parts.judged)
    assert judged.means[REFINED] < 0.7 * judged.means['prompt only: the median of all']
    assert all(len(it.left) == it.length - 1 for it in judged.spoken)


def test_chats_are_served_by_every_system_and_the_oracle_is_not_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr('benchmarks.llm.answer_replay.LOADS', (0.9,))
    known = [
        Spoken(length, 20.0, tuple(np.arange(length - 1.0, 0, -1).tolist()))
        for length in (2, 3, 5, 40, 60)
    ]
    found = replay(known, 40, 1)
    assert [row['system'] for row in found.rows()] == [name for name, *_ in SYSTEMS]
    assert found.over(FCFS, ORACLE, 'mean_s') >= 1
    assert found.gains == [found.over(FCFS, TRAIL, 'mean_s')]
    assert found.runs[TAILS, 0.9] != found.runs[FCFS, 0.9]


def test_replayed_times_are_summed_up_by_mean_median_and_p99() -> None:
    one = Replayed.of([1.0, 2.0, 9.0], [0.0, 1.0, 2.0])
    assert (one.mean_s, one.median_s, one.first_mean_s) == (4.0, 2.0, 1.0)
    assert 8 < one.p99_s < 9
    assert Replayed.mean([one, one]) == one
