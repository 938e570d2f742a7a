"""Overlays: files that replace the durations of a skill set and say on what evidence.

An overlay names the skill set that it ``extends``, gives some of its skills another ``duration``,
and may carry the ``evidence`` for them, which is checked and otherwise only read by people.
``timely-llm profile-robot`` writes overlays; docs/reference/skill_sets.md explains every key.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, SkillSetError
from timely_llm_ros.skills.loading.skill_files import (
    find_skill_file,
    is_skill_path,
    read_skill_file,
)
from timely_llm_ros.skills.loading.skill_set_yaml import (
    MAX_SECONDS,
    MAX_SKILLS,
    read_duration,
    read_whole_skill_set,
)
from timely_llm_ros.skills.loading.yaml_nodes import compose

if TYPE_CHECKING:
    from timely_llm_ros.skills.loading.yaml_nodes import YamlValue
    from timely_llm_ros.skills.skill_types import SkillSet

MAX_PATH_LENGTH = 1024
"""Characters that a path in an overlay may have."""

MAX_TRACES = 1000
"""Traces that an overlay may name."""

MAX_CALLS = 1_000_000_000
"""Calls that an overlay may say it was fitted to."""

MAX_RATIO = 1_000_000.0
"""Greatest quotient of a measured time and the expected one."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Shares whose quantiles the evidence holds, under :func:`quantile_key`."""


def quantile_key(share: float) -> str:
    """Return what the evidence calls a quantile, for example ``q05``."""
    return f'q{round(100 * share):02d}'


def read_overlay(item: YamlValue, source: str) -> SkillSet:
    """Return the skill set that an overlay extends, with the durations that the overlay gives.

    Where ``extends`` is a path, it is relative to the folder of ``source``.

    Raises:
        SkillSetError: The overlay or the skill set that it extends is not valid.
    """
    top = item.mapping(required=('extends', 'skills'), optional=('evidence',))
    base = _base(top['extends'], source)
    if 'evidence' in top:
        _check_evidence(top['evidence'])
    items = top['skills'].mapping(any_key=True)
    if not 1 <= len(items) <= MAX_SKILLS:
        top['skills'].refuse(f'{len(items)} skills: expected 1 to {MAX_SKILLS}')
    skills = dict(base.skills)
    for name, value in items.items():
        if name not in skills:
            value.refuse(
                f'{name!r}: expected a skill of skill set {base.name!r}: {", ".join(skills)}'
            )
        keys = value.mapping(required=('duration',), optional=('evidence',))
        duration = read_duration(keys['duration'], skills[name].arguments)
        if 'evidence' in keys:
            _check_skill_evidence(keys['evidence'])
        skills[name] = replace(skills[name], duration=duration)
    return replace(base, skills=skills)


def _base(extends: YamlValue, source: str) -> SkillSet:
    named = extends.line(MAX_PATH_LENGTH)
    try:
        path = Path(source).parent / named if is_skill_path(named) else find_skill_file(named)
        text = read_skill_file(path)
    except SkillSetError as err:
        extends.refuse(f'{named!r}: {err}')
    except ConfigurationError as err:
        extends.refuse(str(err))
    content = compose(text, str(path))
    if content.has('extends'):
        # Chains would have to be guarded against circles and say little about their evidence.
        extends.refuse(f'{named!r} is an overlay itself: expected a whole skill set')
    return read_whole_skill_set(content)


def _check_evidence(item: YamlValue) -> None:
    keys = item.mapping(optional=('date', 'traces', 'fingerprint'))
    for name in ('date', 'fingerprint'):
        if name in keys:
            keys[name].description()
    if 'traces' in keys:
        for trace in keys['traces'].sequence(MAX_TRACES):
            trace.line(MAX_PATH_LENGTH)


def _check_skill_evidence(item: YamlValue) -> None:
    keys = item.mapping(
        required=('calls',), optional=('outliers', 'measured_s', 'residuals', 'ranges')
    )
    calls = keys['calls'].integer(1, MAX_CALLS)
    if 'outliers' in keys:
        keys['outliers'].integer(0, calls)
    if 'measured_s' in keys:
        times = keys['measured_s'].mapping(required=('least', 'median', 'greatest'))
        for time in times.values():
            time.number(0, MAX_SECONDS)
    if 'residuals' in keys:
        quantiles = keys['residuals'].mapping(required=tuple(map(quantile_key, QUANTILES)))
        for quantile in quantiles.values():
            quantile.number(-1, MAX_RATIO)
    if 'ranges' in keys:
        for limits in keys['ranges'].mapping(any_key=True).values():
            for limit in limits.sequence(2):
                limit.number(0, MAX_RATIO)
