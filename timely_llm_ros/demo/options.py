"""What the demo is told: its fleet, its tasks, its engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from timely_llm_ros.engines import ENGINES
from timely_llm_ros.options import option

if TYPE_CHECKING:
    from pathlib import Path

DriverKind = Literal['simulated', 'mock', 'ros', 'world']
"""What moves the demo's robots."""

FLEETS: dict[DriverKind, tuple[int, int]] = {
    'simulated': (8, 24),
    'mock': (5, 24),
    'ros': (6, 24),
    'world': (8, 16),
}
"""Robots, and tasks per run, where none are given; flights of a world take longer."""

PACE_S = 0.0217
"""Decode step (s) of an 8B model on an RTX 4090: TimelyLLM, Table 1."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the demo runs.

    Attributes:
        robots: Size of the fleet.
        tasks: Tasks per run.
        pace_s: Least duration of an engine step (s); 0 for as fast as the model goes.
        servers: Addresses of model servers for engine ``openai``; none to start one.
        drivers: What moves the robots: nothing (``simulated``), or real drivers, behind which are
            mock robots (``mock``), mocks of ROS interfaces (``ros``) or drones and arms of a
            world with physics (``world``).
        output: Folder for traces, logs and the report; made.
        live: Whether to draw the live view; else lines are printed now and then.

    With a ``model`` of the user's its plans may be wrong, which is no failure of the demo.
    """

    engine: str = option(
        'torch',
        'torch, vllm and openai run the model: on transformers, inside vLLM, or on a '
        'vLLM server; simulated writes the right plans without any model',
        choices=tuple(ENGINES),
    )
    model: str = option(
        '',
        'folder of a language model, or the name of one in models/, that plans in place of the '
        'shipped one',
    )
    seed: int = option(0, 'of tasks and robots', minimum=0, maximum=2**31 - 1)
    batch: int = option(2, 'most generations that the engine runs at once', minimum=1, maximum=1024)
    robots: int = 8
    tasks: int = 24
    pace_s: float = PACE_S
    servers: tuple[str, ...] = ()
    drivers: DriverKind = 'simulated'
    output: Path | None = None
    live: bool = True

    @property
    def notes(self) -> dict[str, str]:
        """What a trace says of the run beside what the planner tells."""
        pace = f'every engine step lasts at least {self.pace_s * 1000:.1f} ms'
        if self.pace_s == PACE_S:
            pace += ', the decode step of an 8B model on an RTX 4090 (TimelyLLM, table 1)'
        return {
            'seed': str(self.seed),
            'model': self.model or 'the shipped one',
            'pace': pace if self.pace_s else 'as fast as the model goes',
            'generations_per_step': f'{self.batch} at most',
        }
