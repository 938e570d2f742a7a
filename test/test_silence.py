"""Silence is counted only while whoever counts it runs."""

from __future__ import annotations

import math

import pytest

from timely_llm_ros.silence import Silence


class Watch:
    """A machine's clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr('timely_llm_ros.silence.time', watch)
    return watch


def test_nobody_heard_is_silent_for_ever(watch: Watch) -> None:
    silence = Silence(most_s=0.1)
    watch.now_s += 0.05
    assert silence.look() == math.inf


def test_looks_add_up_however_many_they_are(watch: Watch) -> None:
    silence = Silence(most_s=0.1)
    silence.heard()
    for _ in range(30):
        watch.now_s += 0.01
        silence.look()
    assert silence.look() == pytest.approx(0.3)
    silence.heard()
    assert silence.look() == 0.0


def test_a_pause_of_its_own_is_not_the_others_silence(watch: Watch) -> None:
    silence = Silence(most_s=0.1)
    silence.heard()
    watch.now_s += 0.05
    silence.look()
    watch.now_s += 3.0
    assert silence.look() == pytest.approx(0.15)
