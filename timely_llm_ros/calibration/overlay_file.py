"""Writes overlays: fitted durations of a skill set and the evidence for them, as YAML."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from timely_llm_ros.calibration.skill_fit import rounded
from timely_llm_ros.skills import (
    ConstantDuration,
    EmpiricalDuration,
    LinearDuration,
    ReadingDuration,
)
from timely_llm_ros.skills.loading import (
    MAX_PATH_LENGTH,
    MAX_TRACES,
    QUANTILES,
    is_skill_path,
    parse_skill_set,
    quantile_key,
)

if TYPE_CHECKING:
    import datetime

    from timely_llm_ros.calibration.skill_fit import SkillFit
    from timely_llm_ros.calibration.skill_profile import SkillProfile

_MODELS = {
    ConstantDuration: 'constant',
    LinearDuration: 'linear',
    EmpiricalDuration: 'empirical',
    ReadingDuration: 'reading',
}
"""What YAML calls the duration models."""


def overlay_text(
    profile: SkillProfile, *, extends: str, output: str | Path, date: datetime.date
) -> str:
    """Return the overlay of a profile's fits, of which there is at least one, as YAML text.

    Args:
        profile: The profile.
        extends: Name or path of the skill set, as it was given.
        output: Where the overlay will lie: a path in it is relative to that folder.
        date: When the fit was made.

    Raises:
        SkillSetError: ``extends`` does not lead to a whole skill set, or the fits do not fit it.
    """
    if is_skill_path(extends):
        relative = os.path.relpath(extends, Path(output).parent)
        extends = relative if is_skill_path(relative) else f'./{relative}'
    content = {
        'extends': extends,
        'evidence': {
            'date': date.isoformat(),
            'traces': [_line(trace) for trace in profile.traces[:MAX_TRACES]],
            'fingerprint': profile.skill_set.fingerprint(),
        },
        'skills': {name: _skill(fit) for name, fit in profile.fits.items()},
    }
    head = (
        f'# Durations of the skill set {profile.skill_set.name}, fitted to recorded traces by '
        '`timely-llm profile-robot`.\n# Every key is explained in docs/reference/skill_sets.md.\n'
    )
    text = head + yaml.safe_dump(
        content, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True
    )
    # What cannot be read back must not be written.
    parse_skill_set(text, source=str(output))
    return text


def _skill(fit: SkillFit) -> dict[str, Any]:
    least, middle, greatest = (rounded(time_s) for time_s in fit.measured_s)
    evidence: dict[str, Any] = {
        'calls': fit.calls,
        'outliers': fit.outliers,
        'measured_s': {'least': least, 'median': middle, 'greatest': greatest},
        'residuals': {
            quantile_key(share): rounded(value)
            for share, value in zip(QUANTILES, fit.residuals, strict=True)
        },
    }
    if fit.ranges:
        evidence['ranges'] = {
            name: [rounded(limit) for limit in limits] for name, limits in fit.ranges.items()
        }
    duration = {'model': _MODELS[type(fit.model)], **asdict(fit.model)}
    return {'duration': duration, 'evidence': evidence}


def _line(path: str) -> str:
    """Return a path as one printable line, cut where an overlay has no room for more."""
    printable = ''.join(letter if letter.isprintable() else '?' for letter in path)
    return ' '.join(printable.split())[:MAX_PATH_LENGTH]
