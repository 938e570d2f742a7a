"""Shows a profile of a skill set as text: each duration before and after, or why it stayed."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from timely_llm_ros.skills import (
    SPREAD,
    ConstantDuration,
    EmpiricalDuration,
    LinearDuration,
    ReadingDuration,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.calibration.skill_profile import SkillProfile
    from timely_llm_ros.skills import DurationModel, Skill

SI_UNITS = {
    'm': 'm', 'cm': 'm', 'mm': 'm', 'rad': 'rad', 'deg': 'rad', 's': 's', 'ms': 's', 'min': 's',
    'm/s': 'm/s', 'cm/s': 'm/s', 'rad/s': 'rad/s', 'deg/s': 'rad/s',
    'kg': 'kg', 'g': 'kg', 'N': 'N',
}  # fmt: skip
"""Language unit -> the unit in which duration models count."""

_HEAD = ('skill', 'calls', 'outliers', 'before', 'error', 'after', 'error', 'least')


def profile_table(profile: SkillProfile) -> str:
    """Return what was fitted, what was left alone, and which segments gave nothing."""
    traces = f'{len(profile.traces)} trace{"s" if len(profile.traces) != 1 else ""}'
    lines = [f'skill set {profile.skill_set.name}: {profile.calls} calls measured in {traces}']
    rows = [_HEAD]
    for name, fit in profile.fits.items():
        skill = profile.skill_set.skills[name]
        rows.append(
            (
                name,
                str(fit.calls),
                str(fit.outliers),
                model_text(skill.duration, skill),
                f'{100 * fit.error_before:.1f} %',
                model_text(fit.model, skill),
                f'{100 * fit.error:.1f} %',
                _least(fit.model),
            )
        )
    if len(rows) > 1:
        lines += ['', *_aligned(rows)]
        lines += [
            '',
            'error: median of |measured / expected - 1|; least: of the expected time, or in s',
        ]
    if profile.left_alone:
        lines += ['', 'left alone, their durations are as before:']
        reasons: dict[str, list[str]] = defaultdict(list)
        # Those that were never called come last.
        for name, result in sorted(profile.left_alone.items(), key=lambda item: not item[1].calls):
            reasons[result.reason if result.calls else 'no call measured'].append(name)
        lines += [f'  {", ".join(names)}: {reason}' for reason, names in reasons.items()]
    if profile.left_out:
        lines += ['', 'segments that gave no measured calls:']
        lines += [f'  {number} of which {reason}' for reason, number in profile.left_out.items()]
    return '\n'.join(lines)


def model_text(model: DurationModel, skill: Skill) -> str:
    """Return a duration model in a few words, for example ``1 s + 2 s/m distance, +-10 %``."""
    match model:
        case ConstantDuration():
            return f'{model.seconds:.3g} s{_plus_minus(model.variation)}'
        case LinearDuration():
            units = {
                spec.name: 'm' if spec.kind == 'object' else SI_UNITS.get(spec.unit, '1')
                for spec in skill.arguments
            }
            terms = [f'{slope:.3g} s/{units[name]} {name}' for name, slope in model.per.items()]
            return ' + '.join([f'{model.base_s:.3g} s', *terms]) + _plus_minus(model.variation)
        case EmpiricalDuration():
            mean_s = sum(model.samples_s) / len(model.samples_s)
            return (
                f'{len(model.samples_s)} times, {min(model.samples_s):.3g} to '
                f'{max(model.samples_s):.3g} s, mean {mean_s:.3g} s'
            )
        case ReadingDuration():
            return f'{model.words_per_minute:.3g} words/min{_plus_minus(model.variation)}'


def _plus_minus(variation: float) -> str:
    return f', ±{100 * variation:.2g} %' if variation else ''


def _least(model: DurationModel) -> str:
    if isinstance(model, EmpiricalDuration):
        return f'{min(model.samples_s):.3g} s'
    return f'{100 * (1 - SPREAD * model.variation):.0f} %'


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        '  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
