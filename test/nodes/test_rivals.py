"""Two programs of one name: which of them leaves it to the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from timely_llm_ros.ros import sole_publisher
from timely_llm_ros.ros.sole_publisher import ALIKE, EPOCH, LEAVE_S, NEW_S, SolePublisher, SoleTopic

if TYPE_CHECKING:
    from collections.abc import Callable

LOW, HIGH = b'\x01' * 12, b'\x02' * 12
LONG = 10 * ALIKE


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(sole_publisher, 'time', SimpleNamespace(monotonic=lambda: now.s))
    return now


@pytest.fixture
def program(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bytes, int], tuple[SolePublisher, Callable[[bytes, int], str]]]:
    monkeypatch.setattr(sole_publisher, 'IdentifiedSubscription', MagicMock())
    node: Any = MagicMock()
    node.count_services.return_value = 2

    def make(gid: bytes, published: int) -> tuple[SolePublisher, Callable[[bytes, int], str]]:
        """Return a program that has just claimed its name, and what it says to another."""
        made = SolePublisher(node, SoleTopic(MagicMock(), 'heartbeat', MagicMock(), 'plan_task'))
        made._new_until_s = clock.s + NEW_S

        def hears(other: bytes, number: int) -> str:
            mine = SimpleNamespace(frame_id=EPOCH), gid, published
            theirs = SimpleNamespace(frame_id='theirs'), other, number
            made._listener.heard.take_numbered.return_value = [mine, theirs]  # type: ignore[attr-defined]
            return made.rival()

        for _ in range(published):
            made.publish(MagicMock(), MagicMock())
        return made, hears

    return make


@pytest.mark.parametrize(('older', 'newer'), [(LOW, HIGH), (HIGH, LOW)], ids=['low', 'high'])
def test_the_newer_one_leaves_whatever_its_identity_is(
    program: Any, older: bytes, newer: bytes
) -> None:
    _, old_hears = program(older, LONG)
    _, new_hears = program(newer, ALIKE)
    assert not old_hears(newer, ALIKE)
    assert 'another program has it' in new_hears(older, LONG)


@pytest.mark.parametrize('number', [LONG - ALIKE, LONG, LONG + ALIKE, 0])
def test_of_two_that_are_equally_old_one_leaves(program: Any, number: int) -> None:
    """Nothing is known of the other's age where its number is 0."""
    _, low_hears = program(LOW, LONG)
    _, high_hears = program(HIGH, LONG)
    assert not low_hears(HIGH, number)
    assert high_hears(LOW, number)


def test_who_should_have_left_and_still_speaks_gets_the_name_of_one_that_is_new(
    program: Any, clock: SimpleNamespace
) -> None:
    _, hears = program(LOW, LONG)
    assert not hears(HIGH, ALIKE)
    clock.s += LEAVE_S + 0.1
    assert hears(HIGH, ALIKE)


def test_one_that_is_not_new_leaves_its_name_to_nobody(
    program: Any, clock: SimpleNamespace
) -> None:
    _, hears = program(HIGH, ALIKE)
    clock.s += NEW_S + 0.1
    assert not hears(LOW, LONG)
    clock.s += LEAVE_S + 0.1
    assert not hears(LOW, LONG)


def test_it_knows_itself_as_soon_as_others_may_address_it(program: Any) -> None:
    made, _ = program(LOW, 1)
    made._listener.heard.take_numbered.return_value = []
    assert made.gid == b''
    made._listener.heard.take_numbered.return_value = [(SimpleNamespace(frame_id=EPOCH), LOW, 1)]
    assert made.gid == LOW
