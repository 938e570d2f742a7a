from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.attack import rules
from benchmarks.attack.fleet import Task
from benchmarks.attack.rules import Harm, Loss, Motion
from timely_llm_ros.audit import AuditLog, Verdict
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from pathlib import Path

TELLO = find_skill_set('tello')


def line(t: float, event: str, call: str = 'hover', pid: int = 1) -> dict[str, Any]:
    return {'t': t, 'pid': pid, 'event': event, 'call': call}


def command(t: float, what: str, event: str = 'command') -> dict[str, Any]:
    return {'t': t, 'host': 'h', 'event': event, 'what': what}


def task(key: str, *ends: tuple[float, str, str], sent_s: float = 0.0, plan: str = 'p') -> Task:
    made = Task(key, 'client_1', 'drone_1', 'land;', sent_s, plan=plan)
    made.ends.extend(ends)
    return made


def test_a_call_lasts_until_the_body_is_told_something_else() -> None:
    lines = [line(1.0, 'start', 'land'), line(2.0, 'safe'), line(3.0, 'start', 'scan')]
    assert rules.motions(lines) == [Motion(1.0, 2.0, 'land'), Motion(3.0, inf, 'scan')]


def test_an_aircraft_moves_until_it_is_told_to_halt_or_is_still() -> None:
    lines = [
        command(1.0, 'move', 'phase'),
        command(1.5, 'battery?'),
        command(2.0, 'stop'),
        command(3.0, 'takeoff', 'phase'),
        command(6.0, 'hover', 'phase'),
    ]
    assert rules.motions(lines) == [Motion(1.0, 2.0, 'move'), Motion(3.0, 6.0, 'takeoff')]


@pytest.mark.parametrize(
    ('motion', 'broken_at_s'),
    [
        (Motion(9.0, 10.4, 'stopped in time'), None),
        (Motion(9.0, 10.6, 'stopped late'), 10.5),
        (Motion(11.0, 11.1, 'begun later'), 11.0),
        (Motion(12.5, 13.0, 'begun when somebody was there again'), None),
        (Motion(9.0, inf, 'never stopped'), 10.5),
    ],
)
def test_nobody_moves_on_alone(motion: Motion, broken_at_s: float | None) -> None:
    loss = Loss('drone_1', 10.0, 12.0, 0.5, 'planner killed')
    found = rules.unsafe(loss, {'drone_1': [motion]})
    assert [breach.at_s for breach in found] == ([] if broken_at_s is None else [broken_at_s])


@pytest.mark.parametrize(('back_s', 'broken'), [(9.9, True), (11.0, True), (12.5, False)])
def test_nobody_stops_a_robot_whose_worker_and_guard_are_dead(back_s: float, broken: bool) -> None:
    loss = Loss('drone_1', 10.0, 12.0, 0.5, 'link cut')
    dead = [Harm(('drone_1',), 5.0, back_s, 'worker and guard killed')]
    found = rules.unsafe(loss, {'drone_1': [Motion(4.0, 12.4, 'goes on')]}, dead)
    assert bool(found) == broken


def test_each_process_begins_with_the_safe_action() -> None:
    good = [line(0.0, 'safe'), line(1.0, 'start'), line(2.0, 'safe', pid=2)]
    assert rules.first_actions('drone_1', good) == []
    bad = [*good, line(3.0, 'start', 'land', pid=3), line(4.0, 'start', pid=3)]
    assert [breach.at_s for breach in rules.first_actions('drone_1', bad)] == [3.0]


@pytest.mark.parametrize(
    ('call', 'valid'),
    [
        ('delay(100)', True),
        ('delay(99)', False),
        ('goto(thing_7)', True),
        ('goto(nowhere)', False),
        ('fly', False),
    ],
)
def test_calls_are_checked(call: str, valid: bool) -> None:
    found = rules.invalid_calls('drone_1', [line(1.0, 'start', call)], TELLO)
    assert (not found) == valid


@pytest.mark.parametrize(
    ('text', 'valid'),
    [
        ('forward 20', True),
        ('forward 19', False),
        ('cw 360', True),
        ('flip l', False),
        ('up x', False),
        ('emergency', True),
    ],
)
def test_commands_are_checked(text: str, valid: bool) -> None:
    assert (not rules.invalid_calls('tello_1', [command(1.0, text)], TELLO)) == valid


def test_a_call_that_is_made_again_is_found() -> None:
    lines = [line(1.0, 'start', 'delay(4711)'), line(2.0, 'start', 'delay(500)')] * 2
    found = rules.repeated_calls('drone_1', lines)
    assert [breach.what for breach in found] == ['drone_1: delay(4711) again']


def test_events_that_are_told_again_are_found() -> None:
    end = {'client': 'c', 'plan': 'p', 'what': 'ended', 'segment': 0}
    begin = {'client': 'c', 'plan': 'p', 'what': 'segment_started', 'segment': 0}
    other = begin | {'segment': 1}
    assert rules.repeated_events([(1.0, begin), (2.0, other), (3.0, end)]) == []
    found = rules.repeated_events([(1.0, begin), (2.0, begin), (3.0, end), (4.0, end)])
    assert [breach.at_s for breach in found] == [2.0, 4.0]


def test_a_task_ends_once_and_in_time() -> None:
    good, early = task('1', (5.0, 'succeeded', '')), task('2', sent_s=99.0)
    assert rules.ends([good, early], now_s=100.0) == []
    twice = task('3', (5.0, 'succeeded', ''), (6.0, 'aborted', 'x'))
    assert [breach.at_s for breach in rules.ends([twice, task('4')], now_s=100.0)] == [6.0, 0.0]
    gone = task('5')
    gone.gone_s = 3.0
    assert rules.ends([gone], now_s=100.0) == []


@pytest.mark.parametrize(
    ('harm', 'explained'),
    [
        (Harm(['drone_1'], 4.0, 20.0, 'x'), True),
        (Harm(['drone_2'], 4.0, 20.0, 'x'), False),
        (Harm(['drone_1'], 6.0, 20.0, 'x'), False),
        (Harm(['drone_1'], 0.0, 1.0, 'x'), False),
    ],
)
def test_failures_are_explained_by_a_fault_that_hits_the_robot(harm: Harm, explained: bool) -> None:
    failed = task('1', (5.0, 'aborted', 'lost'), sent_s=2.0)
    assert (not rules.unexplained([failed], [harm])) == explained


def test_a_robot_that_is_idle_for_long_is_found() -> None:
    done = [task('1', (10.0, 'succeeded', '')), task('2', (80.0, 'succeeded', ''))]
    limits_s = {'drone_1': 60.0}
    found = rules.idle(done, {'drone_1': [line(15.0, 'start')]}, limits_s, 0.0, 100.0)
    assert [breach.at_s for breach in found] == [10.0]
    assert rules.idle(done, {'drone_1': [line(30.0, 'end')]}, limits_s, 0.0, 100.0) == []


def test_a_trace_that_disagrees_is_found() -> None:
    tasks = [
        task('1', (5.0, 'succeeded', ''), sent_s=4.0, plan='a'),
        task('2', (6.0, 'aborted', ''), sent_s=4.0, plan='b'),
        task('3', (7.0, 'succeeded', ''), sent_s=4.0, plan='c'),
        task('4', (99.0, 'succeeded', ''), sent_s=4.0, plan='too late'),
        task('5', (5.0, 'succeeded', ''), sent_s=1.0, plan='too early'),
    ]
    told = {'a': 'succeeded', 'b': 'succeeded'}
    found = rules.lost_from_trace(told, tasks, 3.0, 50.0)
    assert [breach.at_s for breach in found] == [6.0, 7.0]
    found = rules.lost_from_trace(told, tasks, 3.0, 50.0, [(6.5, 11.5)])
    assert [breach.at_s for breach in found] == [6.0]


def test_tracebacks_in_logs_are_found(tmp_path: Any) -> None:
    log = tmp_path / 'planner.log'
    log.write_text('fine\n')
    run = SimpleNamespace(name='planner', child=SimpleNamespace(log=log), ended_s=None, began_s=1.0)
    runs: list[Any] = [run]
    assert rules.logs(runs) == []
    log.write_text('Traceback (most recent call last):\n  ...\nValueError: x\n')
    assert [breach.what for breach in rules.logs(runs)] == [
        'planner: Traceback (most recent call last): ... ValueError: x'
    ]


def audit_log(path: Path, status: str = 'succeeded') -> Path:
    log = AuditLog(path)
    log.note('asked', task='a-b')
    log.note('ended', task='a-b', status=status)
    log.close()
    return path


def test_an_audit_log_verifies_and_knows_every_end_that_a_client_saw(tmp_path: Path) -> None:
    seen = [task('1', (2.0, 'succeeded', ''), plan='ab')]
    log = audit_log(tmp_path / 'planner.audit.jsonl')
    assert rules.audit_logs([log], seen) == []
    (breach,) = rules.audit_logs([log], [*seen, task('2', (3.0, 'aborted', 'x'), plan='cd')])
    assert breach.rule == 'the audit log agrees'
    assert 'task 2 aborted, as written None' in breach.what
    content = log.read_bytes()
    log.write_bytes(content[:100] + b'!' + content[101:])
    assert 'the audit log verifies' in {one.rule for one in rules.audit_logs([log], seen)}
    log.write_bytes(content + b'{"line": 2, "prev')
    assert 'the audit log verifies' in {one.rule for one in rules.audit_logs([log], seen)}


def test_a_verifier_that_misses_a_changed_byte_is_a_breach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = audit_log(tmp_path / 'planner.audit.jsonl')
    monkeypatch.setattr(rules, 'verify_log', lambda path: Verdict(2, 'any'))
    assert [one.rule for one in rules.audit_logs([log], [])] == ['a changed byte is found']


def test_a_robot_hears_one_planner_and_after_it_the_next() -> None:
    first, second = b'1', b'2'
    fine = [(1.0, 'r', 'a', first), (2.0, 'r', 'a', first), (3.0, 'r', 'b', second)]
    assert rules.two_planners([*fine, (3.5, 'other', 'c', first)]) == []
    (breach,) = rules.two_planners([*fine, (4.0, 'r', 'a', second)])
    assert (breach.at_s, breach.rule) == (4.0, 'one planner')
    assert 'plan a of 31 and of 32' in breach.what
    (breach,) = rules.two_planners([*fine, (4.0, 'r', 'c', first)])
    assert '31 again, after 32' in breach.what
