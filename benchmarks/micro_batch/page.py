"""Writes the section on batching in ``docs/results.md`` from the benchmarks' JSON files.

.venv/bin/python -m benchmarks.micro_batch.page
"""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

from timely_llm_ros.scheduling import carried_throughput, error_service_s, uniform_throughput

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / 'benchmarks' / 'results'
PAGE = ROOT / 'docs' / 'results.md'
BEGIN, END = '<!-- batching: begin -->', '<!-- batching: end -->'

MACHINE = '2-core AMD EPYC'


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f'{name}.json').read_text(encoding='utf-8'))
    return found


def source(result: dict[str, Any]) -> str:
    """Return what ran, when and where."""
    file = f'`benchmarks/results/{result["name"]}.json`'
    return f'`{result["command"]}`, {result["date"][:10]}, {MACHINE}; {file}.'


def flow(text: str) -> str:
    """Fill the lines of paragraphs; tables, pictures and headings stay."""
    blocks = (block.strip() for block in text.split('\n\n'))
    return '\n\n'.join(
        block
        if block.startswith(('|', '!', '#'))
        else textwrap.fill(
            ' '.join(block.split()), 140, break_long_words=False, break_on_hyphens=False
        )
        for block in blocks
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ['---'] * len(head), *rows]
    return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def targets(result: dict[str, Any]) -> str:
    return table(
        ['target', '', 'measured', ''],
        [
            [one['name'], one['target'], f'{one["value"]:.4g}', 'met' if one['ok'] else 'missed']
            for one in result['targets']
        ],
    )


def percent(value: float) -> str:
    return f'{100 * value:+.1f} %'


def background() -> str:
    result = read('background')
    figures = result['figures']
    errors, rates = figures['errors'], figures['background_tokens_per_s']
    quiet = figures['rounds']['quiet']
    names = {'robots': 'robots alone', 'both': 'with the background'}
    shapes = ', '.join(
        f'{rate:.0f} tokens/s with {shape}'
        for shape, rate in figures['steps of any length, tokens/s'].items()
    )
    times = table(
        ['', 'p50', 'p90', 'p99'],
        [
            [names[name], *(f'{1000 * values[q]:.1f} ms' for q in ('p50', 'p90', 'p99'))]
            for name, values in figures['urgent_response_s'].items()
        ],
    )
    return f"""### The background lane

{source(result)} The embedded model on the torch engine in one run, {figures['load_per_s']:g}
tasks of robots a second; short parts with and
without a saturated background in turn, the same tasks at the same times in both, {quiet} quiet
rounds. Response times
of {figures['urgent_tasks']} urgent tasks each:

{times}

{targets(result)}

The p99 rises by {100 * figures['rise']:.1f} ± {100 * errors['rise']:.1f} % (standard error,
bootstrap over rounds); in the mean a task's response is later by
{1000 * figures['delay_s']:.2f} ± {1000 * errors['delay_s']:.2f} ms. Robots interrupt
{figures['interrupted_per_s']:.0f} steps of the background a second. The idle capacity is what
the lane makes alone ({rates['alone']:.0f} tokens/s) times the share of
the time in which robots leave the engine idle ({100 * figures['idle_share']:.0f} %); beside
robots it makes {rates['beside robots']:.0f} tokens/s. The strict target takes what it makes alone
with the best of several shapes of steps of any length: {shapes}.
"""


def simulated() -> str:
    result = read('multibin_theory')
    figures = result['figures']
    span = (1.0, 20.0, 128)
    uniform = {(row['per_s'], row['bins']): row for row in figures['fig3_fig4']['one_server']}
    bins = sorted({k for _, k in uniform})

    def cell(per_s: float, k: int) -> str:
        row = uniform[per_s, k]
        most = uniform_throughput(*span, k)
        latency = f'{row["latency_s"]:.1f}' if per_s < most else '-'
        carried = carried_throughput(per_s, most)
        return f'{row["throughput_per_s"]:.3f} / {carried:.3f}, {latency}'

    rates = sorted({per_s for per_s, _ in uniform})
    carried = table(
        ['per s', *(f'k = {k}' for k in bins)],
        [[f'{per_s:g}', *(cell(per_s, k) for k in bins)] for per_s in rates],
    )
    mistakes = {(row['per_s'], row['bins']): row['throughput_per_s'] for row in figures['fig8']}
    error_bins = sorted({k for _, k in mistakes})
    errors = table(
        ['p_e', *(f'k = {k}' for k in error_bins)],
        [
            [
                f'{p_e:g}',
                *(
                    f'{mistakes[p_e, k]:.3f} / {128 / error_service_s(*span, k, p_e):.3f}'
                    for k in error_bins
                ),
            ]
            for p_e in sorted({p_e for p_e, _ in mistakes})
        ],
    )

    def best(name: str, k: int) -> str:
        rows = [row for row in figures['fig6'][name] if row['bins'] == k]
        most = max(row['throughput_per_s'] for row in rows)
        return f'{most:.3f}, {min(row["latency_s"] for row in rows):.2f}'

    answer_bins = sorted({row['bins'] for row in figures['fig6']['optimal']})
    answers = table(
        ['bins', 'equal masses', 'optimal boundaries'],
        [[str(k), best('equal mass', k), best('optimal', k)] for k in answer_bins],
    )
    tail = {(row['per_s'], row['bins']): row for row in figures['fig9']}
    tail_bins = sorted({k for _, k in tail})
    exponential = table(
        ['per s', *(f'k = {k}' for k in tail_bins)],
        [
            [f'{per_s:g}', *(f'{tail[per_s, k]["throughput_per_s"]:.3f}' for k in tail_bins)]
            for per_s in sorted({per_s for per_s, _ in tail})
        ],
    )
    return f"""### Multi-bin batching, simulated

{source(result)} {figures['draws']} draws. Figures 3 and 4 of the paper: times uniform on 1 to 20
s, batches of 128, 128,000 requests, one server;
throughput (1/s) simulated / theorem 4.2, and mean latency (s), which means nothing where more
comes than is served:

{carried}

![Throughput by arrivals and number of bins](images/multibin_fig3.png)
![Latency with one server, any number, and lemma 5.1](images/multibin_fig4.png)

Requests that a predictor puts into a neighbouring bin with the chance p_e each (figure 8;
simulated / theory). One error in a hundred takes
half of what two bins gain, and at p_e = 0.5 two bins gain nothing. Beyond 8 bins the simulation
is below the theory because 1,000 batches end
with a partial one in each bin.

{errors}

![Throughput by chance of an error](images/multibin_fig8.png)

Lengths that are neither uniform nor exponential (figure 6: batches of 8, 8 servers; the paper's
GSM8K lengths are not published, a lognormal of
median 180 tokens stands for them): most throughput (1/s) and least latency (s).

{answers}

![Throughput and latency with lognormal lengths](images/multibin_fig6.png)

Exponential times of mean 10 s, batches of 200, 200,000 requests, boundaries of lemma A.1 (figure
9): throughput (1/s).

{exponential}

![Exponential times: throughput and latency](images/multibin_fig9.png)

{targets(result)}

*The reference* are independent simulations of the same rules (`benchmarks/multibin/reference.py`).
"""


def real() -> str:
    result = read('multibin')
    figures = result['figures']
    lengths, per_s, gains = figures['lengths'], figures['per_s'], figures['gain']
    errors, steps, expected = figures['gain_error'], figures['steps_gain'], figures['theory_gain']

    def row(name: str, label: str) -> list[str]:
        return [
            label,
            f'{per_s[name]:.1f}',
            f'{percent(gains[name])} ± {100 * errors[name]:.1f}',
            percent(steps[name]) if name in steps else '',
            percent(expected[name]) if name in expected else '',
        ]

    ways = [
        row(name, f'{name.split()[1]} bins, oracle, {kind}')
        for kind, start in (('equal masses', 'equal '), ('optimal', 'optimal '))
        for name in gains
        if name.startswith(start) and name != 'equal 1'
    ]
    others = [row(name, name) for name in gains if not name.startswith(('equal ', 'optimal '))]
    measured = table(
        ['', 'requests/s', 'gain over one bin', 'steps', 'theory'],
        [row('equal 1', 'one bin'), *ways, *others],
    )
    known = [name for name in gains if name.startswith('optimal ')]
    below = [name.split()[1] for name in known if gains[name] <= gains['continuous']]
    above = [name.split()[1] for name in known if gains[name] > gains['continuous']]
    continuous, predicted = per_s['continuous'], per_s['four bins, predicted']
    uniform = [uniform_throughput(0.0, 1.0, 8, k) for k in (1, 4, 32)]
    own = figures['own_plans_per_s']
    text = f"""### Multi-bin batching on the real engine

{source(result)} Figures 7 and 11 of the paper: static batches of 8 of the embedded model,
padding computed; {lengths['requests']} requests of forced lengths:
lognormal, mean {lengths['mean']:.0f} tokens, coefficient of variation
{lengths['variation']:.2f}, longest {lengths['longest']}, which stands for GSM8K's spread (the
paper's lengths are not published). All
ways take turns, batch by batch, so that all meet the same machine. *Steps*: what the drawn
batches would gain if every step took equally
long and nothing else any time. *Theory*: eq. 2 for that distribution; with any number of bins it
is {percent(figures['bound_gain'])}, and for uniform lengths from 0 on
{percent(uniform[1] / uniform[0] - 1)}
with 4 and
{percent(uniform[2] / uniform[0] - 1)}
with 32 bins.

{measured}

{targets(result)}

Continuous batching on the same engine gains {percent(gains['continuous'])} without any lengths:
more than {', '.join(below) or 'no'} bins with known lengths, less than {', '.join(above) or 'no'},
and {percent(continuous / predicted - 1)} over four bins with predicted ones. Its requests do not
wait for each other either; that is why it is the default of `timely-llm generate`.
*Rows leave*: a batch whose rows are no longer computed once they
have ended.

![Throughput by bins on the real engine](images/multibin_fig7_fig11.png)
"""
    if own:
        text += f"""
The model's own plans ({own['mean tokens']:.0f} tokens in the mean, variation
{own['variation of the lengths']:.2f}, prompts of many more): four bins serve
{percent(own['four bins, oracle'] / own['one bin'] - 1)} with known lengths and
{percent(own['four bins, learned'] / own['one bin'] - 1)} with lengths learned from the words of
the first answers.
"""
    return text


def pipeline() -> str:
    result = read('pipeline')
    figures = result['figures']
    systems = ('baseline', 'budget', 'both')
    rows = []
    for row in figures['rows']:
        served, paper = row['served'], row['paper']
        first, last = paper['baseline'], paper['both']
        idle = 100 * (1 - last['idle_s'] / first['idle_s'])
        speedup = first['completion_s'] / last['completion_s']
        rows.append(
            [
                row['workload'],
                *(
                    f'{served[s]["completion_s"]:.1f} ({paper[s]["completion_s"]:.1f})'
                    for s in systems
                ),
                *(f'{served[s]["completion_s"]:.1f}' for s in ('period', 'sure')),
                f'{row["gains"]["both"]["speedup"]:.2f} ({speedup:.2f})',
                f'{row["gains"]["both"]["idle_pct"]:.0f} % ({idle:.0f} %)',
            ]
        )
    model = figures['model']
    ms = {name: f'{1000 * value:.2f} ms' for name, value in model.items()}
    return f"""### Micro-batches of a pipeline

{source(result)} Simulated: four stages, links of 100 Mbps, Llama-2-13b-chat (Table 1 of the paper:
requests, prompt and generated tokens each). Until the last request is served (s), in brackets what
the paper measured; `baseline` is vLLM's way, `budget` algorithm 1, `both` algorithms 1 and 2,
`period` algorithm 1 with `best_count`, `sure` with `sure_count`. Then what `both` gains over
`baseline`: speed-up, and by how much less a GPU is idle. The shortest round is not the shortest
run where KV is short: which number is chosen then decides who is preempted and computed again,
which is worth some percent in either direction. So `sure_count` leaves algorithm 2's number only
for a round that is shorter by 3 %, which is never so here; with other costs it is.

{table(['workload', 'baseline', 'budget', 'both', 'period', 'sure', 'speed-up', 'idle'], rows)}

{targets(result)}

One cost model serves all rows and systems. A micro-batch keeps a stage {ms['host_s']} in which its
GPU executes nothing, then 12.90 ms for reading its weights, {ms['kernel_more_s']} for whatever else
there is, {ms['compute_token_s']} per token and {1e6 * model['context_token_s']:.2f} us per token of
context; a link {ms['transfer_base_s']} and {ms['transfer_token_s']} per token, the way back
{ms['return_s']}; KV memory holds {model['kv_tokens']:,.0f} tokens; sending holds up the sender for
{model['held_share']:.2f} of its time; a micro-batch has at most 1024 tokens. A random search from a
seed (`{figures['fitted_by']}`) fitted its nine numbers to the completion, busy and idle times
of the table's 30 cells, its mean gains and its order. Idle is what the paper calls idle: the GPU
executes no kernel, and sending is one.
"""


def put(begin: str, end: str, text: str) -> None:
    """Replace what stands between two marks of the page."""
    before, _, rest = PAGE.read_text(encoding='utf-8').partition(begin)
    _, _, after = rest.partition(end)
    if not rest or not after:
        raise SystemExit(f'{PAGE}: expected {begin} and {end}')
    temporary = PAGE.with_suffix('.md.new')
    temporary.write_text(f'{before}{begin}\n\n{text}\n\n{end}{after}', encoding='utf-8')
    os.replace(temporary, PAGE)


def main() -> None:
    put(
        BEGIN,
        END,
        '\n\n'.join(flow(part()) for part in (background, simulated, real, pipeline)),
    )
    print(PAGE)


if __name__ == '__main__':
    main()
