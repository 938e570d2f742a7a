"""A record of jobs done with every share, as a file: judged again without model or machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.timebill.record import Recorded, Tried
from timely_llm_ros.prediction.lengths import LengthDistribution
from timely_llm_ros.prediction.times import DecodeCoefficients, ExecutionTimeModel, Margin


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that is generated and timed.

    Attributes:
        seed: Of the jobs.
        quick: Whether it is a rough one.
        eviction: How tokens were chosen.
        grid: The shares that were evicted.
        evicting_token_s: How long evicting takes per token of a prompt (s).
        steps: Single steps by batch, context and share.
        estimator: How well the profile fits.
        times: The profile.
        jobs: What came of each.
        clock: How doing them against the clock fared; empty where nobody did.
    """

    seed: int
    quick: bool
    eviction: str
    grid: tuple[float, ...]
    evicting_token_s: float
    steps: list[dict[str, float]]
    estimator: dict[str, Any]
    times: ExecutionTimeModel
    jobs: tuple[Recorded, ...]
    clock: dict[str, float] = field(default_factory=dict)


def write_record(record: Record, path: str | Path) -> None:
    """Write a record as JSON."""
    Path(path).write_text(json.dumps(asdict(record)) + '\n', encoding='utf-8')


def read_record(path: str | Path) -> Record:
    """Read what :func:`write_record` wrote."""
    content = json.loads(Path(path).read_text(encoding='utf-8'))
    times = content['times']
    decode = tuple(DecodeCoefficients(**it) for it in times.pop('decode'))
    margins = tuple(Margin(**it) for it in times.pop('margins'))
    return Record(
        **{
            **content,
            'grid': tuple(content['grid']),
            'times': ExecutionTimeModel(**times, decode=decode, margins=margins),
            'jobs': tuple(map(_recorded, content['jobs'])),
        }
    )


def _recorded(content: dict[str, Any]) -> Recorded:
    said = content['forecast']
    return Recorded(
        **{
            **content,
            'forecast': LengthDistribution(tuple(said['probabilities']), said['size']),
            'tried': tuple(
                Tried(**{**it, 'visits_s': tuple(it['visits_s'])}) for it in content['tried']
            ),
        }
    )
