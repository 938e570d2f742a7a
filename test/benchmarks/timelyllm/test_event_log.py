"""Event logs: complete, exact, and the same for the same seed."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest

from benchmarks.timelyllm.comparison import lookahead, stream
from benchmarks.timelyllm.event_log import EventLog, event_line
from benchmarks.workloads import compose, fleet_spec
from benchmarks.workloads.experiment import System, run_workload
from timely_llm_ros.planner.events import SegmentStarted

if TYPE_CHECKING:
    from timely_llm_ros.planner.events import PlannerEvent

SYSTEMS = (System('utility', max_running=16), lookahead(), stream(16))


def log_of(seed: int, system: System) -> bytes:
    """Return the event log of a small fleet."""
    file = io.BytesIO()
    log = EventLog(file)
    run_workload(
        compose(fleet_spec(60, 5.0), seed), system, hardware='h200_llama3_8b', on_event=log.add
    )
    text = file.getvalue()
    assert (log.lines, log.bytes) == (text.count(b'\n'), len(text))
    return text


@pytest.mark.parametrize('system', SYSTEMS, ids=lambda system: system.name)
def test_one_seed_gives_one_log_and_another_seed_another(system: System) -> None:
    log = log_of(1, system)
    assert log == log_of(1, system)
    assert log != log_of(2, system)
    kinds = [line.split(b' ', 1)[0] for line in log.splitlines()]
    assert kinds.count(b'TaskAccepted') == kinds.count(b'TaskEnded') > 0
    assert kinds.count(b'SegmentReady') == kinds.count(b'SegmentEnded') > 0
    assert re.search(rb'0x[0-9a-f]{6}', log) is None, 'an address of memory is no fact'


def test_a_line_has_every_number_exactly() -> None:
    event = SegmentStarted('t', 'r', 0.1 + 0.2, 3, 1e-9)
    assert event_line(event) == "SegmentStarted (0.30000000000000004, 'r', 't', 3, 1e-09)\n"


def test_every_kind_of_event_has_a_line() -> None:
    seen: dict[type, str] = {}

    def see(event: PlannerEvent) -> None:
        seen.setdefault(type(event), event_line(event))

    run_workload(
        compose(fleet_spec(60, 5.0), 1),
        SYSTEMS[0],
        on_event=see,
    )
    assert len(seen) == 7
    assert all(line.startswith(f'{kind.__name__} (') for kind, line in seen.items())
