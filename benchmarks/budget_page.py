"""Writes the tables of budgets and predictions in docs/results.md from the benchmarks' JSON files.

    .venv/bin/python -m benchmarks.budget_page [timebill rlp trail calibration]

What stands between ``<!-- NAME.json -->`` and ``<!-- end of NAME.json -->`` is replaced; what is
written around it, by hand, stays.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import measured, table, verdicts
from benchmarks.trail import trail_tables
from timely_llm_ros.budget import ENDED

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / 'docs' / 'results.md'
RESULTS = ROOT / 'benchmarks' / 'results'

FORESIGHT = ('lengths told', 'oracle')
"""Approaches that know what nobody can know beforehand."""


def frontier(weights: Sequence[dict[str, float]]) -> list[str]:
    """Return the lines on what ending is worth."""
    lines = [
        '*Lengths told*: ours, with the length told that a plan has if everything is kept; so much '
        'would a perfect predictor of lengths give.',
        '',
        'How much more it is worth that a plan ends in time at all than how right it is weighs '
        f'completion against score; ours takes {ENDED:g}, chosen on tasks of other seeds. Under '
        'Kill, by that weight: score ahead of the best fixed share, and completion less that of '
        '95 %, in points:',
        '',
    ]
    return lines + table(
        ('weight', *(f'{row["weight"]:g}' for row in weights)),
        (
            ('score, mean of the budgets', *(f'{row["ahead_mean"]:+.3f}' for row in weights)),
            ('score, worst budget', *(f'{row["ahead_worst"]:+.3f}' for row in weights)),
            ('completion, mean', *(f'{100 * row["completion_mean"]:+.1f}' for row in weights)),
            ('completion, worst', *(f'{100 * row["completion_worst"]:+.1f}' for row in weights)),
        ),
    )


def timebill(content: dict[str, Any]) -> list[str]:
    """Return the tables of TimeBill."""
    found = content['figures']
    budgets = [f'{T:.3f} s' for T in found['budgets_s']]
    steps = {(it['batch'], it['context'], it['evicted']): it['step_ms'] for it in found['steps']}
    shares = sorted({share for _, _, share in steps})
    lines = [measured(content, found['wall_s']), '']
    lines += [
        f'{found["jobs"]} tasks in held-out scenes of 40 to 200 objects (median prompt '
        f'{found["leverage"]["median_prompt_tokens"]:.0f} tokens), one at a time; '
        f'{found["eviction"]}; medians of {found["visits"]} timings.',
        '',
        'Where eviction shortens a step (ms, medians):',
        '',
    ]
    lines += table(
        ('batch', 'context', *(f'{share:.0%}' for share in shares)),
        (
            (batch, context, *(f'{steps[batch, context, share]:.2f}' for share in shares))
            for batch, context in sorted({(b, c) for b, c, _ in steps})
        ),
    )
    for overrun, title in (('kill', 'Kill'), ('skip_next', 'Skip-Next')):
        lines += [f'{title}: F1 of the calls / completed, by budget:', '']
        best = [
            max(rows[n][f'{overrun}_f1'] for name, rows in found['approaches'].items()
                if name not in FORESIGHT)
            for n in range(len(budgets))
        ]  # fmt: skip
        rows = []
        for name, row in found['approaches'].items():
            cells = []
            for n, it in enumerate(row):
                f1 = f'{it[f"{overrun}_f1"]:.3f}'
                if name not in FORESIGHT and it[f'{overrun}_f1'] == best[n]:
                    f1 = f'**{f1}**'
                cells.append(f'{f1} / {it[f"{overrun}_completion"]:.0%}')
            rows.append((name, *cells))
        ahead = found['ahead_of_the_best_fixed_share'][overrun]
        rows.append(
            (
                'TimeBill less the best fixed share',
                *(f'{it["ahead"]:+.3f} ± {it["standard_error"]:.3f}' for it in ahead),
            )
        )
        lines += table(('approach', *budgets), rows)
    sweep = found['k_sweep']
    lines += [f'k at {sweep["budget_s"]:.3f} s, as printed, under Kill:', '']
    lines += table(
        ('k', *(f'{row["k"]:.0f}' for row in sweep['rows'])),
        (
            ('F1', *(f'{row["kill_f1"]:.3f}' for row in sweep['rows'])),
            ('completed', *(f'{row["kill_completion"]:.0%}' for row in sweep['rows'])),
        ),
    )
    if 'frontier' in found:
        lines += frontier(found['frontier'])
    lines += ['Without any budget:', '']
    quality = found['quality_by_share']
    lines += table(
        ('evicted', *(f'{float(share):.0%}' for share in quality)),
        (
            ('F1', *(f'{it["f1"]:.3f}' for it in quality.values())),
            ('exactly right', *(f'{it["exact"]:.0%}' for it in quality.values())),
            ('median s', *(f'{it["median_s"]:.3f}' for it in quality.values())),
        ),
    )
    factors, covered = found['factors'], found['coverage']
    window, clock = found['leverage'], found['by_the_clock']
    lines += [
        f'Whole generations against the profile: a prompt takes {factors["prefill_expected"]:.2f} '
        f'times as long as expected (median; 95 % of them at most '
        f'{factors["prefill_95_pct"]:.2f}), decoding {factors["decode_expected"]:.2f} '
        f'({factors["decode_95_pct"]:.2f}). Expected times are '
        f'{covered["expected_time_mape_pct"]:.1f} % off, predicted lengths '
        f'{covered["mean_length_error_tokens"]:.1f} tokens. t_WCET held for {covered["wcet"]:.0%}, '
        f'the 95 % quantile of the length for {covered["length"]:.0%}. Evicting takes '
        f'{found["evicting_ms"]:.1f} ms for a median prompt.',
        '',
        f'Leverage: evicting 95 % shortens a worst case by {1e3 * window["median_s"]:.0f} ms or '
        f'{window["median_share_of_wcet"]:.0%} (medians).',
        '',
        f'Against the clock at {clock["budget_s"]:.3f} s: F1 {clock["f1"]:.3f}, '
        f'{clock["completion"]:.0%} completed; looked up {clock["looked_up_f1"]:.3f}, '
        f'{clock["looked_up_completion"]:.0%}; {clock["same_end"]:.0%} of the tasks end the same '
        'way.',
        '',
    ]
    return [*lines, *verdicts(content)]


def rlp(content: dict[str, Any]) -> list[str]:
    """Return the table of response-length predictors."""
    found = content['figures']
    lines = [measured(content, found.get('wall_s')), '']
    lines += [
        f'Learned from {found["learned_from"]} plans of the model, judged on {found["held_out"]} of'
        ' held-out scenes and wordings. Errors in tokens, of the mean; *eq. 2*: of the upper edge '
        'of the most probable bucket.',
        '',
    ]
    lines += table(
        ('predictor', 'MAE', 'RMSE', 'R²', 'MAE, eq. 2', 'learned in'),
        (
            (
                it['name'], f'{it["mae"]:.2f}', f'{it["rmse"]:.2f}', f'{it["r2"]:.3f}',
                '' if it['upper_edge_mae'] is None else f'{it["upper_edge_mae"]:.2f}',
                f'{it["train_s"]:.0f} s',
            )
            for it in found['rows']
        ),
    )  # fmt: skip
    times = found['times']['ms']
    said = ', '.join(f'{ms:.1f} ms for {tokens}' for tokens, ms in times.items())
    lines += [f'A prediction takes {said} tokens of compressed prompt.', '']
    return [*lines, *verdicts(content)]


def calibration(content: dict[str, Any]) -> list[str]:
    """Return the table of coverage by the share evicted."""
    found = content['figures']
    lines = [measured(content, found['wall_s']), '']
    for scenes in ('small scenes', 'large scenes'):
        rows = found[scenes]
        lines += [
            f'{scenes.capitalize()}: how often quantiles held, the probe\'s / the '
            "response-length predictor's, by the share evicted:",
            '',
        ]  # fmt: skip
        quantiles = next(iter(rows.values()))['coverage']['probe']
        lines += table(
            ('evicted', 'plans', *(f'{float(q):.0%}' for q in quantiles)),
            (
                (
                    f'{float(share):.0%}', row['plans'],
                    *(f'{row["coverage"]["probe"][q]:.0%} / {row["coverage"]["prompt"][q]:.0%}'
                      for q in quantiles),
                )
                for share, row in rows.items()
            ),
        )  # fmt: skip
    return [*lines, *verdicts(content)]


HEADINGS = {
    'timebill': (
        'Time budgets (TimeBill)',
        "Each task is generated with every share of a grid of its prompt's KV evicted and takes "
        'the median of its timings; what an approach\nchooses is looked up. '
        '*As printed*: equation 11 put right, and the most '
        'evicted where no worst case fits.\n*Refusing*: what the planner does, a task '
        'whose worst case does not fit is refused when it arrives.\n*TimeBill*: ours, the score '
        'to expect decides ([budgets](reference/budgets.md)).\n*Worst case first*: a worst case '
        'that fits decides, the score only where none does. '
        '*Oracle*: knows every outcome beforehand.\n'
        'There is no baseline of 4-bit weights: '
        'nothing that this package depends on loads them on a CPU, and the kernels of AWQ need a '
        'GPU.\n\nWhat bounds it: most of a task is its prompt, which no eviction shortens. The '
        'oracle shows what knowing times and scores would give.\n\n'
        '![TimeBill](images/timebill.png)',
    ),
    'rlp': (
        'Response-length predictors',
        'All learn from the same plans of the embedded model. Its plans end before 128 tokens, so '
        'buckets of 32 and 64 are few.',
    ),
    'trail': (
        'Shortest remaining plan first (TRAIL)',
        'How right probe and prompt are on held-out plans, what the probe costs, and what '
        'it is good for. What bounds it: where a task says what to do, its prompt decides how '
        'long the plan is, so states have little to add. In open tasks little is left to luck: '
        'whole plans that the planner draws from one prompt are nearly alike in length, so '
        'both predictors could be '
        'far better, and of a prompt-only predictor that were perfect no probe could be 2.66 '
        "times as near. *Perfect bins*: the middle of the right one of TRAIL's "
        'bins. How much sooner plans can end at all depends on how different they are: '
        'the oracle shows it; it is the best in mean latency, not in the time to the '
        'first token.\n\n'
        '![TRAIL](images/trail.png)',
    ),
    'calibration': (
        'How far predicted lengths can be trusted',
        'The mean ranks, a quantile makes a budget: so quantiles must hold, also where KV was '
        'evicted.\n\n![Calibration](images/calibration.png)',
    ),
}
"""Titles of sections and what they begin with."""

NEXT = '## The demo\n'
"""What new sections stand before."""

SECTIONS = {'timebill': timebill, 'rlp': rlp, 'trail': trail_tables, 'calibration': calibration}


def replaced(page: str, name: str, lines: Sequence[str]) -> str:
    """Return the page with a section's tables; a section that is not there is begun.

    Raises:
        ValueError: A section begins but does not end, or nothing says where new ones go.
    """
    begin, end = f'<!-- {name}.json -->', f'<!-- end of {name}.json -->'
    if begin not in page:
        heading, text = HEADINGS[name]
        whole = f'## {heading}\n\n{text}\n\n{begin}\n{end}\n\n'
        old = page.find(f'## {heading}\n')
        start = old if old >= 0 else page.find(NEXT)
        after = page.find('\n## ', start) + 1 if old >= 0 else start
        if start < 0 or not after:
            raise ValueError(
                f'{PAGE}: expected a section "{heading}", or "{NEXT}" to put it before'
            )
        page = page[:start] + whole + page[after:]
    before, _, rest = page.partition(begin)
    _, ends, after_end = rest.partition(end)
    if not ends:
        raise ValueError(f'{PAGE}: {begin} without {end}')
    return before + '\n'.join([begin, '', *lines]).rstrip() + '\n\n' + end + after_end


def main() -> None:
    """Write the tables of the benchmarks named, or of all there are."""
    names = sys.argv[1:] or [name for name in SECTIONS if (RESULTS / f'{name}.json').is_file()]
    page = PAGE.read_text(encoding='utf-8')
    for name in names:
        content = json.loads((RESULTS / f'{name}.json').read_text(encoding='utf-8'))
        page = replaced(page, name, SECTIONS[name](content))
    PAGE.write_text(page, encoding='utf-8')
    print(f'{PAGE}: {", ".join(names)}')


if __name__ == '__main__':
    main()
