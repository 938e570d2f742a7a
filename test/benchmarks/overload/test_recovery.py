"""What is compared after an overload, on a small fleet."""

from __future__ import annotations

from collections import Counter

from benchmarks.overload.recovery import CROWD_S, recovery, with_crowds
from benchmarks.overload.serving import overload


def test_a_crowd_comes_beside_what_comes_anyway_and_only_while_it_lasts() -> None:
    quiet = overload(1.0, robots=5, duration_s=90.0, seed=1)
    crowded = with_crowds(quiet, 10.0, [CROWD_S], 1)
    more = Counter(crowded.tasks) - Counter(quiet.tasks)
    assert not Counter(quiet.tasks) - Counter(crowded.tasks)
    assert more
    assert all(CROWD_S[0] <= task.at_s <= CROWD_S[1] for task in more)
    assert list(crowded.tasks) == sorted(crowded.tasks, key=lambda task: task.at_s)


def test_every_goal_ends_once_and_memory_is_looked_at_after_overloads() -> None:
    found = recovery(5.0, robots=20, seeds=[0, 1], cycles=3)
    assert found.answers == {1: found.tasks}
    assert sum(found.codes.values()) == found.tasks
    assert found.calm > 0
    assert 1 <= len(found.kept_bytes) <= 3
    assert all(found.kept_bytes)
