"""Tables on vLLM with our scheduler beside stock vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.pages.writing import described, present_command, read, table
from benchmarks.vllm import BUSY, URGENT_SHARE, settings, ways_of

if TYPE_CHECKING:
    from collections.abc import Mapping

GENERAL = 'first_action_vllm_general'
FORWARDED = {'timely-planner': 'first_action_vllm', 'SmolLM2, tuned': GENERAL}
"""The results on fast-forward, by model."""


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    figures = read('vllm').figures
    return {
        'made': {
            part: f'Measured with `{present_command(run["command"])}` on {run["date"]}, '
            f'{described(run["machine"])}.'
            for part, run in figures['made'].items()
        },
        'a': figures['a'],
        'b': figures['b'],
        'overhead': overhead(figures['a']),
        'resumes': resumes(figures['a']['resume']),
        'settings': settings(figures['b']),
        'loops': {(loop['robots'], loop['load']): loop for loop in figures['b']['loops']},
        'ways': lambda robots, load: ways(figures['b'], robots, load),
        'suspended': suspended(figures['c']),
        'choosing': choosing(figures['d']),
        'forwarded': forwarded(),
        'forwarded_plans': _forwarded_plans(),
        'general': read(GENERAL),
        'busy': BUSY,
        'urgent_share': URGENT_SHARE,
    }


def forwarded() -> str:
    """Return what fast-forward brings, by size of the scene and number of clients."""
    head = (
        'model', 'objects', 'scenes', 'clients', 'plans', 'steps per token', 'stock, plans/s',
        'ours without', 'with', 'times stock', 'times without', 'CPU time, times',
        'ids as without', 'as stock',
    )  # fmt: skip
    rows = [
        (
            model,
            row['objects'],
            row['scenes'],
            row['clients'],
            row['plans'],
            f'{row["steps_per_token"]:.3f}',
            *(f'{speed:.1f}' for speed in row['plans_per_s']),
            f'{row["gain"]:.2f} ± {row["gain_error"]:.2f}',
            f'{row["gain_of_forwarding"]:.2f}',
            f'{row["cpu_gain"]:.2f}',
            f'{100 * row["same_text_as_off"]:.1f} %',
            f'{100 * row["same_text"]:.1f} %',
        )
        for model, results in FORWARDED.items()
        for row in read(results).figures['rows']
    ]
    return table(head, rows)


def _forwarded_plans() -> int:
    """Return of how many different plans the figures on fast-forward are."""
    rows = read('first_action_vllm').figures['rows']
    return sum({row['objects']: row['different_plans'] for row in rows}.values())


def overhead(part: Mapping[str, Any]) -> str:
    """Return what segments cost."""
    rows = []
    for at_once in ('1 at once', '4 at once'):
        one = part[at_once]
        error = f' ± {100 * one["overhead_error"]:.1f}' if one['overhead_error'] else ''
        rows.append(
            (
                at_once,
                f'{one["stock_s"]:.3f} s',
                f'{100 * one["overhead"]:.1f} %{error}',
                f'{one["per_boundary_ms"]:.2f} ms',
            )
        )
    return table(('plans', 'stock', 'ours takes longer by', 'per boundary'), rows)


def resumes(resume: Mapping[str, float]) -> str:
    """Return how long a resumed plan waits for its next token."""
    named = (
        ('chosen by the scheduler', 'chosen'),
        ('plain step of that engine', 'chosen_step'),
        ('asked for, from idle', 'asked'),
        ('plain step of that engine', 'asked_step'),
        ('stock: request of one uncached token, from idle', 'stock_request'),
    )
    return table(
        ('', 'p50', 'p99'),
        (
            (name, *(f'{resume[f"{key}_{share}_ms"]:.2f} ms' for share in ('p50', 'p99')))
            for name, key in named
        ),
    )


def ways(part: Mapping[str, Any], robots: int, load: float) -> str:
    """Return what each way of serving a fleet gives, the best first."""
    found = sorted(ways_of(part, robots, load).items(), key=lambda item: -item[1]['utility'])
    return table(
        (
            'way', 'batch', 'mean utility', 'urgent p50 / p99', 'normal p50 / p99', 'plans/s',
            'utility per second', 'tasks, urgent',
        ),
        (
            (
                way,
                run['batch'],
                f'{run["utility"]:.3f} ({run["utility_error"]:.3f})',
                f'{run["urgent_p50_ms"]:.0f} / {run["urgent_p99_ms"]:.0f} '
                f'({run["urgent_p99_error_ms"]:.0f}) ms',
                f'{run["normal_p50_ms"]:.0f} / {run["normal_p99_ms"]:.0f} ms',
                f'{run["plans_per_s"]:.1f} ({run["plans_per_s_error"]:.1f})',
                f'{run["utility_per_s"]:.1f} ({run["utility_per_s_error"]:.1f})',
                f'{run["tasks"]}, {run["urgent_tasks"]}',
            )
            for way, run in found
        ),
    )  # fmt: skip


def suspended(part: Mapping[str, Any]) -> str:
    """Return what many suspended generations cost."""
    rows = []
    for name, one in part.items():
        pool, count = name.split()
        resumed = '-'
        if 'resume_p50_ms' in one:
            resumed = f'{one["resume_p50_ms"]:.1f} / {one["resume_p99_ms"]:.1f} ms'
        step = f'{one["step_p50_ms"]:.2f} / {one["step_p99_ms"]:.2f} ms'
        rows.append((pool, count, one['held_at_once'], step, resumed, one['spilled'], one['wrong']))
    head = ('pool', 'suspended', 'held at once', 'step beside them', 'resume', 'spilled', 'wrong')
    return table(head, rows)


def choosing(part: Mapping[str, Any]) -> str:
    """Return what choosing takes per step, by the number of generations."""
    return table(
        ('generations', 'choosing p50', 'p99', 'choosing and bookkeeping p50'),
        (
            (
                count,
                *(
                    f'{one[key]:.0f} us'
                    for key in ('choose_p50_us', 'choose_p99_us', 'step_p50_us')
                ),
            )
            for count, one in part.items()
        ),
    )
