"""Profiles a skill set: fits every skill's duration from recorded traces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lrtrace.call_samples import measured_calls
from lrtrace.executed_segments import read_executed
from timely_llm_ros.calibration.skill_fit import MIN_CALLS, LeftAlone, SkillFit, fit_skill
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lrtrace.executed_segments import ExecutedSegment
    from lrtrace.storage import Trace
    from timely_llm_ros.skills import SkillSet


@dataclass(frozen=True, slots=True)
class SkillProfile:
    """What traces say of the durations of a skill set.

    Attributes:
        skill_set: The skill set, as it was.
        traces: Paths of the traces.
        calls: How many calls were measured, of all skills.
        results: What was found for each skill that was asked for, in the skill set's order.
        left_out: How many segments gave no measured calls, by the reason.
    """

    skill_set: SkillSet
    traces: tuple[str, ...]
    calls: int
    results: Mapping[str, SkillFit | LeftAlone]
    left_out: Mapping[str, int]

    @property
    def fits(self) -> dict[str, SkillFit]:
        """The skills that were fitted."""
        return {name: fit for name, fit in self.results.items() if isinstance(fit, SkillFit)}

    @property
    def left_alone(self) -> dict[str, LeftAlone]:
        """The skills that were not."""
        return {name: fit for name, fit in self.results.items() if isinstance(fit, LeftAlone)}


def profile_skills(
    traces: Sequence[Trace],
    *,
    skill_set: SkillSet | None = None,
    skills: Collection[str] = (),
    min_calls: int = MIN_CALLS,
) -> SkillProfile:
    """Fit the durations of a skill set.

    Args:
        traces: The traces.
        skill_set: Whose skills; by default the only one of which the traces have segments.
        skills: Which skills; all by default.
        min_calls: A skill with fewer measured calls is left alone.

    Raises:
        TraceError: A trace cannot be read or is not one of a fleet.
        ConfigurationError: A trace is given twice; the traces have no segment of the skill set,
            or of several without saying which; a skill is not in it.
    """
    _require_different(traces)
    segments = [segment for trace in traces for segment in read_executed(trace)]
    chosen = _chosen(skill_set, segments)
    for name in skills:
        if name not in chosen.skills:
            raise ConfigurationError(
                f'skill {name!r}: expected one of skill set {chosen.name!r}: '
                f'{", ".join(chosen.skills)}'
            )
    found = measured_calls(segments, chosen)
    return SkillProfile(
        skill_set=chosen,
        traces=tuple(str(trace.path) for trace in traces),
        calls=found.count,
        results={
            name: fit_skill(skill, found.samples.get(name, ()), min_calls=min_calls)
            for name, skill in chosen.skills.items()
            if not skills or name in skills
        },
        left_out=found.left_out,
    )


def _require_different(traces: Sequence[Trace]) -> None:
    files = Counter(Path(file).resolve() for trace in traces for file in trace.files)
    for file, times in files.items():
        if times > 1:
            raise ConfigurationError(f'trace {str(file)!r}: given twice: expected each once')


def _chosen(skill_set: SkillSet | None, segments: Sequence[ExecutedSegment]) -> SkillSet:
    names = sorted({segment.skill_set for segment in segments if segment.skill_set})
    listed = ', '.join(names) or 'none'
    if skill_set is not None:
        if skill_set.name not in names:
            raise ConfigurationError(
                f'skill set {skill_set.name!r}: expected one that the traces have executed '
                f'segments of: {listed}'
            )
        return skill_set
    if len(names) != 1:
        raise ConfigurationError(
            f'the traces have executed segments of the skill sets {listed}: expected one, '
            'or to be told which'
        )
    return find_skill_set(names[0])
