"""The page of vLLM's results says what the benchmark's file says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.micro_batch import page as _batching_page
from benchmarks.vllm import page
from benchmarks.vllm.resumes import steps_and_resumes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def way(name: str, utility: float, load: float = 1.2) -> dict[str, Any]:
    times = dict.fromkeys(
        ('urgent_p50_ms', 'urgent_p99_ms', 'normal_p50_ms', 'normal_p99_ms'), 77.0
    )
    return {
        'way': name, 'batch': 4, 'robots': 16, 'load': load, 'tasks': 9, 'urgent_tasks': 3,
        'failed': 0, 'utility': utility, 'utility_error': 0.01, 'plans_per_s': 30.25,
        'plans_per_s_error': 0.5, 'urgent_p99_error_ms': 3.0,
    } | times  # fmt: skip


FIGURES: dict[str, Any] = {
    'a': {
        f'{count} at once': {
            'plans': 24, 'starts': 3, 'pairs': 15, 'boundaries': 138, 'stock_s': 2.5,
            'overhead': 0.0123, 'overhead_error': 0.01, 'per_boundary_ms': 0.25,
        }
        for count in (1, 4)
    } | {
        'resume': {'chosen_count': 7, 'asked_count': 8} | {
            f'{name}_{share}_ms': value
            for name, value in (('chosen', 3.5), ('chosen_step', 3.25), ('asked', 5.5))
            for share in ('p50', 'p99')
        },
    },
    'b': {
        'most_plans_per_s': 40.0, 'time_factor': 0.3, 'seconds': 6.0, 'rounds': 2,
        'search_s': 2.5, 'batches': [4, 16],
        'alone_ms': {'stock fcfs': 80.0, 'ours': 40.0},
        'loops': [
            {'robots': 16, 'load': load, 'acts_s': 0.1, 'thinks_s': 0.05} for load in (0.8, 1.2)
        ],
        'runs': [way('stock fcfs', 0.5), way('ours', 1.234), way('ours', 0.9, 0.8)],
    },
    'd': {'8': {'choose_p50_us': 25.0, 'choose_p99_us': 66.0, 'step_p50_us': 57.0}},
    'made': {
        name: {'command': f'python -m benchmarks.vllm.vllm --only {name}', 'date': '2026-01-02'}
        for name in ('a', 'b', 'd')
    },
}  # fmt: skip


def test_every_part_that_ran_is_told_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [{'name': 'a target', 'value': 0.25, 'target': '<= 1', 'ok': True}]
    result = {'name': 'vllm', 'figures': FIGURES, 'targets': targets}
    (tmp_path / 'vllm.json').write_text(json.dumps(result))
    monkeypatch.setattr(_batching_page, 'RESULTS', tmp_path)
    text = page.section()
    assert '`python -m benchmarks.vllm.vllm --only b`, 2026-01-02.' in text
    assert text.index('| ours | 4 | 1.234 (0.010) |') < text.index('| stock fcfs | 4 | 0.500')
    assert text.index('load 0.8:') < text.index('| ours | 4 | 0.900') < text.index('load 1.2:')
    assert '| 77 / 77 (3) ms |' in text
    assert '| 8 | 25 us | 66 us | 57 us |' in text
    assert '| a target | <= 1 | 0.25 | met |' in text
    assert '| 1 at once | 2.500 s | 1.2 % ± 1.0 | 0.25 ms |' in text
    assert '| chosen by the scheduler | 3.50 ms | 3.50 ms |' in text
    assert 'stock fcfs 80, ours 40' in text.replace('\n', ' ')
    assert '### Many suspended generations' not in text
    assert max(map(len, text.splitlines())) <= 140


def test_the_page_has_a_place_for_it() -> None:
    text = page.PAGE.read_text(encoding='utf-8')
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    assert text.index(page.BEGIN) < text.index(page.END)


def test_a_token_after_another_plans_token_is_a_resume() -> None:
    # Plan 0 begins, gives way to plan 1 after two tokens, and goes on at 7.0.
    steps_s, resumes_s = steps_and_resumes([[1.0, 2.0, 7.0, 8.5], [4.0, 5.0]])
    assert steps_s == [1.0, 1.0, 1.5]
    assert resumes_s == [2.0], 'the first token of plan 1 has its prompt in it'
    assert steps_and_resumes([[], [3.0]]) == ([], [])
