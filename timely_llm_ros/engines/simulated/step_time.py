"""How long a simulated engine's step takes, from a formula fitted to real hardware.

Prefill of a context from ``m`` to ``n`` tokens takes ``a (n^2 - m^2) + b (n - m) + c``, so that a
cached prefix costs nothing. Decoding takes ``q(b) + p N`` for ``b`` generations whose contexts have
``N`` tokens together. A preset has ``q`` linear in ``b`` and one ``p``; a measured profile has both
for several ``b``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times import (
    DecodeCoefficients,
    ExecutionTimeModel,
    Margin,
    decode_at,
    read_profile,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from timely_llm_ros.engines.core import StepPlan


@dataclass(frozen=True, slots=True)
class StepWork:
    """What a step has to do.

    Attributes:
        batch: Generations that get a token.
        kv_tokens: Tokens of their contexts together.
        prefills: Each context that is computed further, as (tokens before, tokens after).
        begun: Generations whose own context is computed from its beginning.
        resumed: Further generations that were not in the step before.
        waiting: Generations that competed for the step and were not in the one before.
        copied: Tokens whose KV is copied to the host's memory or back.
    """

    batch: int
    kv_tokens: int = 0
    prefills: tuple[tuple[int, int], ...] = ()
    begun: int = 0
    resumed: int = 0
    waiting: int = 0
    copied: int = 0


@dataclass(frozen=True, slots=True)
class StepTimeModel:
    """How long a simulated step takes.

    Attributes:
        decode_s: Decoding step of one generation with an empty context (s): q(1).
        batch_factor: Relative growth of that per further generation in the step.
        kv_token_s: Time per token of context attended to (s): p.
        prefill_token_s: Time per prompt token computed (s): b.
        prefill_square_s: Time per squared token of context (s): a.
        prefill_s: Time per context begun (s): c.
        resume_s: Time to bring a suspended generation back (s).
        schedule_s: Time to choose one generation (s).
        schedule_waiting_s: Further time for that per generation it is chosen from (s).
        copy_token_s: Time to copy a token's KV to the host's memory or back (s); infinite where
            there is no link to it. The step waits for that.
        refusals: Whether a generation that was looked at and left waiting takes that time too, as
            in a scheduler that fetches the best one before it asks whether it fits.
        measured: Decoding by batch size, ascending; where there is any, it takes the place of
            ``decode_s``, ``batch_factor`` and ``kv_token_s``.
    """

    decode_s: float = 0.0216
    batch_factor: float = 0.02
    kv_token_s: float = 0.0
    prefill_token_s: float = 0.0001
    prefill_square_s: float = 0.0
    prefill_s: float = 0.0
    resume_s: float = 0.0
    schedule_s: float = 0.0
    schedule_waiting_s: float = 0.0
    copy_token_s: float = math.inf
    refusals: bool = False
    measured: tuple[DecodeCoefficients, ...] = ()

    def step_s(self, work: StepWork) -> float:
        """Return the duration of a step (s)."""
        total_s = self.prefill_s * work.begun + self.resume_s * work.resumed
        if work.batch and self.measured:
            kv_token_s, decode_s = decode_at(self.measured, work.batch)
            total_s += decode_s + kv_token_s * work.kv_tokens
        elif work.batch:
            growth = 1.0 + self.batch_factor * (work.batch - 1)
            total_s += self.decode_s * growth + self.kv_token_s * work.kv_tokens
        for before, after in work.prefills:
            total_s += self._prefill_s(before, after)
        if work.copied:
            total_s += self.copy_token_s * work.copied
        chosen = work.begun + work.resumed
        if self.refusals and work.waiting > chosen:
            chosen += 1
        waited = sum(range(work.waiting, work.waiting - chosen, -1))
        return total_s + self.schedule_s * chosen + self.schedule_waiting_s * waited

    def copying_pays(self, before: int, after: int) -> bool:
        """Return whether to copy KV to the host and back costs less than to compute it again.

        It is that of the tokens of a context from one place up to another.
        """
        computed_s = self.prefill_s + self._prefill_s(before, after)
        return 2 * self.copy_token_s * (after - before) < computed_s

    def _prefill_s(self, before: int, after: int) -> float:
        squares_s = self.prefill_square_s * (after**2 - before**2)
        return squares_s + self.prefill_token_s * (after - before)

    def times(self) -> ExecutionTimeModel:
        """Return the same for predictions about one generation; exact, so every margin is 1.

        A simulated step that ends a prompt makes a token too, and so takes both times; and a step
        reads its own token's KV, which predictions leave to the constant.
        """
        one = self.decode_s
        decode = self.measured or (
            DecodeCoefficients(1, self.kv_token_s, one),
            DecodeCoefficients(2, self.kv_token_s, one * (1.0 + self.batch_factor)),
        )
        return ExecutionTimeModel(
            self.prefill_square_s,
            self.prefill_token_s + decode[0].kv_token_s,
            self.prefill_s + decode[0].step_s,
            tuple(
                replace(entry, step_s=entry.step_s + entry.batch * entry.kv_token_s)
                for entry in decode
            ),
            tuple(Margin(coverage, 1.0, 1.0) for coverage in (0.9, 0.95, 0.99)),
        )


@dataclass(frozen=True, slots=True)
class Hardware:
    """A preset: how fast a card runs a model and how much KV fits.

    Attributes:
        step_time: How long its steps take.
        kv_capacity_tokens: Tokens of KV that fit beside the model.
        about: Where the numbers come from.
    """

    step_time: StepTimeModel
    kv_capacity_tokens: int
    about: str


_TOY = StepTimeModel(
    decode_s=0.0216,
    batch_factor=0.02,
    prefill_token_s=0.0,
    prefill_s=0.030,
    resume_s=0.0005,
    schedule_s=0.000405,
    schedule_waiting_s=0.000202,
)

_TOY_UNCACHED = replace(_TOY, prefill_s=0.133)

HARDWARE: Mapping[str, Hardware] = {
    'toy': Hardware(
        _TOY,
        1_000_000,
        'reference simulation: 30 ms for a new request whose prefix is cached',
    ),
    'toy_uncached': Hardware(
        _TOY_UNCACHED,
        1_000_000,
        'reference simulation: 133 ms for every new request, no prefix cache',
    ),
    'toy_refusals': Hardware(
        replace(_TOY, refusals=True),
        1_000_000,
        "toy, with the paper's scheduling overhead also where who was fetched must wait",
    ),
    'toy_uncached_refusals': Hardware(
        replace(_TOY_UNCACHED, refusals=True),
        1_000_000,
        "toy_uncached, with the paper's scheduling overhead also where who was fetched must wait",
    ),
    'rtx4090_llama3_8b': Hardware(
        StepTimeModel(
            decode_s=0.02138,
            batch_factor=0.02,
            kv_token_s=1.3e-7,
            prefill_token_s=9.324e-5,
            prefill_square_s=7.16e-9,
            resume_s=0.0005,
            copy_token_s=5.24e-6,
        ),
        50_000,
        'TimelyLLM, Table 1 and section 4.1: 133.31 ms for 1300 tokens, 328.45 ms for 2884, then '
        '21.75 ms a step; 131072 bytes of KV a token, read at 1008 GB/s; growth with the batch '
        'and 25 GB/s to the host, of 31.5 that its link has, are assumed',
    ),
    'a40_qwen2.5_7b': Hardware(
        StepTimeModel(
            decode_s=0.022,
            batch_factor=0.02,
            kv_token_s=8.2e-8,
            prefill_token_s=1.02e-4,
            resume_s=0.0005,
        ),
        440_000,
        'from data sheets, not measured: 15.2 GB of weights and 57344 bytes of KV a token at '
        '696 GB/s, prefill at 149.7 TFLOP/s; growth with the batch is assumed',
    ),
    'h200_llama3_8b': Hardware(
        StepTimeModel(
            decode_s=0.0034,
            batch_factor=0.02,
            kv_token_s=2.7e-8,
            prefill_token_s=1.62e-5,
        ),
        840_000,
        'from data sheets, not measured: 16.1 GB of weights and 131072 bytes of KV a token at '
        '4800 GB/s, prefill at 989 TFLOP/s, 90 % of 141 GB for weights and KV; a suspended '
        "generation's KV stays where it is; growth with the batch is assumed",
    ),
}
"""Step times and KV capacity by name."""


def find_hardware(name: str) -> Hardware:
    """Return the preset of ``HARDWARE``, or what a file of ``timely-llm profile`` says.

    Raises:
        ConfigurationError: There is no such preset, or the file is no profile.
    """
    preset = HARDWARE.get(name)
    if preset is not None:
        return preset
    if '/' in name or name.endswith('.json') or Path(name).is_file():
        return _measured_hardware(name)
    raise ConfigurationError(
        f'hardware {name!r}: expected one of {", ".join(sorted(HARDWARE))}, '
        'or the path of a profile file'
    )


def _measured_hardware(path: str) -> Hardware:
    profile = read_profile(path)
    times = profile.times
    one, last = times.at(1), times.decode[-1]
    growth_s = (last.step_s - one.step_s) / max(1, last.batch - 1)
    return Hardware(
        StepTimeModel(
            decode_s=one.step_s,
            # For whoever reads the linear form; steps are as measured.
            batch_factor=growth_s / one.step_s if one.step_s else 0.0,
            kv_token_s=one.kv_token_s,
            prefill_token_s=times.prefill_token_s,
            prefill_square_s=times.prefill_square_s,
            prefill_s=times.prefill_s,
            measured=times.decode,
        ),
        profile.kv_capacity_tokens,
        f'measured: {path}',
    )


def work_of(plan: StepPlan, kept: Collection[str], waiting: int) -> StepWork:
    """Return what a planned step has to do.

    The generations whose ids are ``kept`` go on from the step before without a break; ``waiting``
    ones compete and are not in the step.
    """
    prefills = [(row.prefix.computed - row.tokens, row.prefix.computed) for row in plan.prefixes]
    batch = kv_tokens = begun = resumed = 0
    for row in plan.rows:
        generation = row.generation
        context = generation.context
        after = context.attended
        if row.samples:
            batch += 1
            kv_tokens += after
        from_scratch = context.computed == row.tokens
        if row.tokens > 1 or from_scratch:
            prefills.append((after - row.tokens, after))
        if from_scratch:
            begun += 1
        elif generation.generation_id not in kept:
            resumed += 1
    waiting += begun + resumed
    return StepWork(batch, kv_tokens, tuple(prefills), begun, resumed, waiting, plan.copied)
