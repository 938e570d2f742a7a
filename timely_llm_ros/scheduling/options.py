"""The scheduler's options, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, get_args

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import check_options, option
from timely_llm_ros.scheduling.admission import BatchLimit, PrintedBatchLimit
from timely_llm_ros.scheduling.costs import ProfiledCosts, SegmentCosts
from timely_llm_ros.scheduling.lookahead import LookaheadBatchLimit
from timely_llm_ros.scheduling.policies import find_policy
from timely_llm_ros.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from timely_llm_ros.scheduling.admission import StepTimes
    from timely_llm_ros.scheduling.generation import GenerationTable
    from timely_llm_ros.scheduling.scheduler import ServingMode

Admission = Literal['lookahead', 'feasible', 'fixed', 'printed']
"""How many generations run together.

``lookahead``: each that gains more by running than the others lose by it. ``feasible``: as many as
leave every deadline that can still be met. ``fixed``: as many as may. ``printed``: TimelyLLM's rule
to the letter (section 4.4), which collapses under load; for comparison only.
"""


@dataclass(frozen=True, slots=True)
class SchedulingOptions:
    """What a scheduler does beside its policy and its largest batch; each field says its own part.

    ``admission`` holds in mode ``segmented``. ``profiled_generation_s`` also takes every segment to
    have at most TimelyLLM's 10 tokens.

    Raises:
        ConfigurationError: A value is out of range.
    """

    admission: Admission = option(
        'lookahead',
        'How many of them run together: each that gains more than the others lose by it, as many '
        'as leave every deadline that can still be met, always max_running, or as TimelyLLM '
        'prints it.',
        choices=get_args(Admission),
        live=True,
    )
    interrupts: bool = option(
        False,
        'Whether a segment in the making may be interrupted for a better-ranked one.',
        live=True,
    )
    age_bound_s: float | None = option(
        30.0,
        'Whose robot has waited longer than this (s) goes first, whatever the policy; 0 for no '
        'bound.',
        minimum=0.0,
        maximum=86400.0,
        off=0.0,
        live=True,
    )
    network_s: float = option(
        0.0,
        'One-way time to a robot (s), by which a segment is due earlier.',
        minimum=0.0,
        maximum=10.0,
        live=True,
    )
    fills: bool = option(
        False,
        'Whether, with admission lookahead, a generation whose prompt is computed joins wherever '
        'there is room: more plans, each urgent one a little later.',
        live=True,
    )
    profiled_generation_s: float | None = option(
        None,
        'Engine time that every segment is taken to cost (s); 0 to learn it.',
        minimum=0.0,
        maximum=3600.0,
        off=0.0,
    )
    preemption_share: float = option(
        0.8,
        'Policy srpt may interrupt a generation until it has this share of the tokens first '
        'predicted.',
        minimum=0.0,
        maximum=1.0,
        live=True,
    )
    background_batch: int = option(
        16,
        'Most background generations in one engine step.',
        minimum=1,
        maximum=1024,
    )
    background_chunk: int = option(
        128,
        'Most prompt tokens of theirs in one engine step.',
        minimum=1,
        maximum=65536,
    )
    background_step_s: float = option(
        0.005,
        'How long an engine step of theirs should last at most (s) where the engine cannot '
        "interrupt it, so that a robot's task may have to wait for it.",
        minimum=0.0001,
        maximum=10.0,
    )

    def __post_init__(self) -> None:
        check_options(self)
        for name in ('age_bound_s', 'profiled_generation_s'):
            if getattr(self, name) == 0:
                raise ConfigurationError(f'{name} 0: expected a number > 0 or None')

    def scheduler(
        self,
        table: GenerationTable,
        step_times: StepTimes,
        *,
        policy: str,
        max_running: int,
        mode: ServingMode,
    ) -> Scheduler:
        """Return a scheduler of the table's generations.

        Raises:
            ConfigurationError: There is no such policy.
        """
        chosen = find_policy(policy)
        taken = {f.name: getattr(self, f.name) for f in fields(chosen) if hasattr(self, f.name)}
        limit = BatchLimit(max_running, step_times, veto=self.admission == 'feasible')
        if self.admission == 'printed':
            limit = PrintedBatchLimit(max_running, step_times, network_s=self.network_s)
        elif self.admission == 'lookahead':
            limit = LookaheadBatchLimit(
                max_running, step_times, network_s=self.network_s, fills=self.fills
            )
        return Scheduler(
            table,
            replace(chosen, **taken),
            limit,
            mode=mode,
            interrupts=self.interrupts,
            age_bound_s=self.age_bound_s,
        )

    def costs(self) -> SegmentCosts:
        """Return the account of what segments cost."""
        if self.profiled_generation_s is None:
            return SegmentCosts()
        return ProfiledCosts(self.profiled_generation_s)
