"""Playback: whatever is done to it, every message comes once, in order and in its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.traces.strings import STRING, string_bytes

from lrtrace.playback.playback import Playback
from lrtrace.storage.reader import Trace
from lrtrace.storage.writer import TraceWriter
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 30


@pytest.fixture(scope='module')
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('playback') / 'run'
    writer = TraceWriter(folder)
    writer.add_topic('/words', STRING)
    writer.add_topic('/other', STRING)
    for number in range(COUNT):
        topic = '/other' if number % 5 == 4 else '/words'
        writer.write(topic, string_bytes(str(number)), log_ns=10**18 + number * 10**9)
    writer.close()
    return folder


def made(trace: Path, **options: Any) -> Playback:
    return Playback(Trace(trace), wanted=lambda topic: topic == '/words', **options)


def seconds_of(found: Any) -> int:
    return int(found[2].log_time - 10**18) // 10**9


@examples(60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(['wait', 'pause', 'resume', 'rate', 'step', 'seek']),
            st.floats(0.0, 10.0),
        ),
        max_size=25,
    )
)
def test_every_message_comes_once_in_its_time(trace: Path, steps: list[tuple[str, float]]) -> None:
    playback, now_s = made(trace), 0.0
    wanted = [number for number in range(COUNT) if number % 5 != 4]
    expected = 0
    for what, amount in steps:
        now_s += amount
        before_ns = playback.position_ns(now_s)
        match what:
            case 'pause':
                playback.pause(now_s)
            case 'resume':
                playback.resume(now_s)
            case 'rate':
                playback.set_rate(0.1 + amount, now_s)
            case 'seek':
                playback.seek(amount, now_s)
                assert playback.position_s(now_s) == pytest.approx(amount, abs=1e-9)
                # To the nanosecond, as messages are recorded.
                expected = sum(number * 10**9 < round(amount * 1e9) for number in wanted)
            case 'step' if playback.paused:
                found = playback.step(now_s)
                left = wanted[expected : expected + 1]
                assert ([seconds_of(found)] if found else []) == left
                expected += len(left)
        if what != 'seek':
            assert playback.position_ns(now_s) >= before_ns
        due = [seconds_of(found) for found in playback.due(now_s)]
        assert due == wanted[expected : expected + len(due)]
        assert all(number <= playback.position_s(now_s) + 1e-6 for number in due)
        expected += len(due)
        assert not (playback.paused and due)
        assert playback.ended == (expected == len(wanted))
        assert playback.position_s(now_s) <= playback.duration_s


def test_what_cannot_be_is_refused_and_changes_nothing(trace: Path) -> None:
    playback = made(trace)
    for position_s in (-0.1, 29.1, float('nan')):
        with pytest.raises(ConfigurationError, match=r'expected 0 to 29\.000 s'):
            playback.seek(position_s, 1.0)
    for rate in (0.0, 101.0, float('nan')):
        with pytest.raises(ConfigurationError, match=r'expected 0\.01 to 100'):
            playback.set_rate(rate, 1.0)
    assert playback.position_s(2.0) == 2.0
    assert [seconds_of(found) for found in playback.due(2.0)] == [0, 1, 2]
