"""The tables of TRAIL in docs/results.md."""

from __future__ import annotations

from typing import Any

from benchmarks.common import measured, table, verdicts

REPLAYED = {'replay': 'Tasks that say what to do', 'replay_open': 'Open tasks'}


def trail_tables(content: dict[str, Any]) -> list[str]:
    """Return the tables of TRAIL."""
    found = content['figures']
    lines = [measured(content, None), '']
    if 'probe' in found:
        scenes = list(found['probe'])
        lines += ['Mean error of the remaining length over all tokens of held-out plans:', '']
        names = found['probe'][scenes[0]]['mean_error_tokens']
        lines += table(
            ('tokens', *scenes),
            (
                (name, *(f'{found["probe"][it]["mean_error_tokens"][name]:.2f}' for it in scenes))
                for name in names
            ),
        )
    if 'bound' in found:
        lines += trail_bound(found['bound'])
    if 'overhead' in found:
        rows = found['overhead']['batches'].items()
        said = '; '.join(
            f'{row["share"]:.2%} (standard error {row["standard_error"]:.2%}) of '
            f'{row["step_ms"]:.2f} ms at batch {batch}'
            for batch, row in rows
        )
        lines += [
            'The probe, asked after a first token and at every '
            f'{found["overhead"]["every"]}th step, '
            f'{found["overhead"].get("rare", 2)} times as rarely where fewer than '
            f'{found["overhead"]["few"]} generations run, adds {said}.',
            '',
        ]
    for part, title in (
        ('replay', 'virtual time'),
        ('replay_open', 'virtual time, open tasks'),
        ('serving', 'the torch engine, real time'),
    ):
        if part not in found:
            continue
        runs = found[part]['runs']
        lines += [
            f'Mean latency / time to the first token or segment (s), {title}; '
            f'{found[part]["plans"]} plans a run, limit: {found[part]["binding_limit"]}:',
            '',
        ]
        loads = sorted({run['load'] for run in runs})
        systems = list(dict.fromkeys(r['system'] for r in runs if 'c=' not in r['system']))
        by = {(run['system'], run['load']): run for run in runs}
        lines += table(
            ('system', *(f'load {load:g}' if load else 'burst' for load in loads)),
            (
                (
                    name,
                    *(f'{by[name, at]["mean_s"]:.2f} / {by[name, at]["first_mean_s"]:.2f}'
                      for at in loads),
                )
                for name in systems
            ),
        )  # fmt: skip
    for part in ('replay', 'replay_open'):
        if part not in found:
            continue
        replay = found[part]
        lines += [
            f'{REPLAYED[part]}: fcfs begins to queue at load {replay["fcfs_queues_from_load"]:g}. '
            f'There the oracle is {replay["oracle_mean_ratio"]:.2f} times better in mean latency '
            f'and {replay["oracle_first_ratio"]:.2f} times to the first token. Plans have '
            f'{replay["mean_tokens"]:.1f} tokens, standard deviation '
            f'{replay["variation"]:.2f} of that.',
            '',
        ]
    for part, title in (('replay', 'Virtual time, load 1'), ('ablation', 'Real time, burst')):
        runs = [it for it in found.get(part, {}).get('runs', []) if 'c=' in it['system']]
        if runs:
            lines += [f'{title}, {found[part]["binding_limit"]}, by c:', '']
            rows = [('mean latency (s)', *(f'{run["mean_s"]:.2f}' for run in runs))]
            if part == 'ablation':
                rows.append(('computed again', *(f'{run["spilled"]}' for run in runs)))
            lines += table(('c', *(f'{run["share"]:g}' for run in runs)), rows)
    return [*lines, *verdicts(content)]


def trail_bound(found: dict[str, Any]) -> list[str]:
    """Return what bounds predictions of open tasks."""
    lines = [
        'What can be known of open tasks: the planner itself wrote '
        f'{found["plans"]} held-out plans on from {found["states"]} of their states, '
        f'{found["continuations_of_a_state"]} times '
        'each, and as often whole plans of each prompt. Mean error of what is left over all '
        'these continuations, in parentheses its standard error over plans:',
        '',
    ]
    lines += table(
        ('who predicts', 'tokens'),
        (
            (who, f'{error:.2f} ({found["standard_errors"][who]:.2f})')
            for who, error in found['errors'].items()
        ),
    )
    lines += table(
        ('ratio of errors', 'measured'),
        ((what, f'{ratio:.2f} ({error:.2f})') for what, (ratio, error) in found['ratios'].items()),
    )
    replay = found['replay']
    lines += [f'The same plans in virtual time at load {replay["load"]:g}:', '']
    return lines + table(
        ('system', 'mean latency (s)', "share of the oracle's gain"),
        (
            (name, f'{mean_s:.2f}', f'{replay["gain"][name]:.0%}')
            for name, mean_s in replay['mean_s'].items()
        ),
    )
