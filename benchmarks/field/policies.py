"""Rankings after the ideas of other systems, as policies of ours, for comparison only.

*After*, not *as*: of these papers only abstracts and public summaries were at hand, so each class
says what was read and what was filled in. What those systems do beside ranking is given to all
alike: early dropping, refusals, the size of batches and interruption are settings that the
benchmark tries for each of them. Continuum (arXiv 2511.02230) serves programs first come first
served, which is the policy ``fcfs``; what it does with KV is in ``kept.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from timely_llm_ros.scheduling import GenerationRow, Policy, TableView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_VIEWED = tuple(item.name for item in fields(TableView))


@dataclass(frozen=True, slots=True)
class FieldPolicy(Policy):
    """A ranking that is written once, for one generation; speed does not matter here.

    Attributes:
        network_s: One-way time from the engine to a robot (s).
        margin: Ranks move with time, so a challenger must be this much better mid-segment.
    """

    network_s: float = 0.0
    margin: float = 0.5

    def rank(self, view: TableView, now_s: float) -> NDArray[np.float64]:
        """Return what :meth:`rank_one` gives for each."""
        columns = [getattr(view, name).tolist() for name in _VIEWED]
        rows = (
            GenerationRow(**dict(zip(_VIEWED, values, strict=True)))
            for values in zip(*columns, strict=True)
        )
        return np.array([self.rank_one(row, now_s) for row in rows], np.float64)

    def late_s(self, row: GenerationRow, now_s: float) -> float:
        """Return how late the segment in the making is if it is generated next (s); < 0: early."""
        due_s = row.due_s if row.segment_index else row.arrival_s + row.ert_s
        return now_s + row.expected_generation_s + self.network_s - due_s


@dataclass(frozen=True, slots=True)
class WaitRatioFirst(FieldPolicy):
    """After Kairos (Dai et al., arXiv 2605.11381), which serves robots' generate-execute loops.

    Read: its scheduler ranks by a *wait ratio*, whether generation or execution dominates a task
    now. Filled in: the ratio is the robot's present wait, until this segment would be there, over
    that wait and the time from the task's arrival until the robot ran out of work. So tasks without
    an action go first, in the order of arrival, and robots that still have work last, soonest idle
    first. Kairos knows no deadlines, and neither does this. Its adaptive execution horizon belongs
    to diffusion models and has no counterpart here.
    """

    def rank_one(self, row: GenerationRow, now_s: float) -> float:
        """Return the wait ratio, 0 to 1; minus the time until the robot waits where it does not."""
        wait_s = now_s + row.expected_generation_s + self.network_s - row.due_s
        if wait_s <= 0:
            return wait_s
        return wait_s / (wait_s + max(0.0, row.due_s - row.arrival_s))


@dataclass(frozen=True, slots=True)
class GainDensityFirst(FieldPolicy):
    """After JITServe, first called Tempo (Zhang et al., arXiv 2504.20068).

    Read: requests are given just enough bandwidth to meet their deadlines, the rest goes to others,
    and those with the greatest service gain per bandwidth go first, by conservative lengths that
    are refined while they are generated. Filled in: the gain is the task's time utility at the
    moment at which the segment would be there; the bandwidth is its expected remaining generation
    time; just enough means that the density counts by the share of the time left that it needs.
    What can gain nothing any more is served last, first come first served. Its groups of requests
    of equal length, which save work within a batch, are left out.
    """

    def rank_one(self, row: GenerationRow, now_s: float) -> float:
        """Return gain per second of generation, times how much of the time left it needs."""
        late_s = self.late_s(row, now_s)
        gain = row.beta + row.alpha * max(0.0, late_s)
        if gain <= 0:
            return -row.arrival_s - 1e6
        left_s = row.expected_generation_s - late_s
        needed = min(1.0, row.expected_generation_s / left_s) if left_s > 0 else 1.0
        return gain / row.expected_generation_s * needed


@dataclass(frozen=True, slots=True)
class ExperienceGainFirst(FieldPolicy):
    """After Andes (Liu et al., arXiv 2404.16283), which is made for people who read answers.

    Read: quality of experience is 1 - delay / whole, where the delay is measured against the pace
    at which a user reads; a preemptive scheduler ranks by the gain of serving a request now over
    the resources that it takes. Filled in: a robot reads at the pace of its execution; the whole is
    the delay and the response that was expected; serving now is compared with serving
    ``horizon_s`` later; the resource is generation time, since KV is not short here. Users are
    equal in Andes, so slopes of time utilities do not count.

    Attributes:
        horizon_s: How much later the alternative is (s).
    """

    horizon_s: float = 0.5

    def rank_one(self, row: GenerationRow, now_s: float) -> float:
        """Return the experience gained per second of generation."""
        late_s = self.late_s(row, now_s)
        whole_s = max(row.ert_s, 1e-3)

        def quality(delay_s: float) -> float:
            return whole_s / (whole_s + max(0.0, delay_s))

        gain = quality(late_s) - quality(late_s + self.horizon_s)
        # Those that lose nothing yet: soonest due first, behind all that do.
        return gain / row.expected_generation_s if gain > 0 else late_s


@dataclass(frozen=True, slots=True)
class BoostedArrivalFirst(FieldPolicy):
    """After a tail-aware policy without predicted lengths (Li et al., arXiv 2606.18431).

    Read: priorities are boosted softly, by a parameter gamma and cheap statistics instead of
    predicted lengths; gamma towards 0 is shortest first, towards infinity first come first served.
    Filled in: the boost of Yu and Scully's queueing theory, taken off the arrival, which is
    ``log(1 / (1 - exp(-gamma s))) / gamma`` for a job of size s; the size is what a plan has had
    and will have had with this segment, in segments of its class's mean generation time. Its
    preemption that sees KV is left out, since KV is not short here.

    Attributes:
        gamma_per_s: How little shortness counts against arrival (1/s).
    """

    gamma_per_s: float = 1.0

    def rank_one(self, row: GenerationRow, now_s: float) -> float:  # noqa: ARG002 -- as Policy has it
        """Return minus the boosted arrival."""
        size_s = row.expected_generation_s * (1 + row.segment_index)
        boost_s = -math.log(-math.expm1(-self.gamma_per_s * size_s)) / self.gamma_per_s
        return boost_s - row.arrival_s


@dataclass(frozen=True, slots=True)
class BoostedYoungFirst(Policy):
    """The same for whole plans, of whose lengths nothing is known but the tokens that they have.

    Filled in: the size is what a plan has had and has with its next token, at the pace of
    ``step_s``, so that a young plan counts as short.

    Attributes:
        gamma_per_s: How little shortness counts against arrival (1/s).
        step_s: How long a token takes (s).
    """

    ranks_plans: ClassVar[bool] = True

    gamma_per_s: float = 1.0
    step_s: float = 0.02

    def rank(self, view: TableView, now_s: float) -> NDArray[np.float64]:  # noqa: ARG002 -- as Policy has it
        """Return minus the boosted arrivals."""
        sizes_s = self.step_s * (1 + view.total_tokens)
        boosts_s = -np.log(-np.expm1(-self.gamma_per_s * sizes_s)) / self.gamma_per_s
        boosted: NDArray[np.float64] = boosts_s - view.arrival_s
        return boosted

    def rank_one(self, row: GenerationRow, now_s: float) -> float:  # noqa: ARG002 -- as Policy has it
        """Return the same for one generation."""
        size_s = self.step_s * (1 + row.total_tokens)
        boost_s = -math.log(-math.expm1(-self.gamma_per_s * size_s)) / self.gamma_per_s
        return boost_s - row.arrival_s


@dataclass(frozen=True, slots=True)
class GuardedDeadlineFirst(FieldPolicy):
    """After SCORPIO (Tang et al., arXiv 2505.23022).

    Read: a guard of the first token orders by least deadline and rejects what cannot meet it; a
    guard of the later ones admits by a virtual batch size and gives credits, so that requests with
    tight pace are in more batches. Filled in: the first token is the first segment; what cannot
    meet its deadline goes behind all that can, least late first, and is rejected by early
    dropping once it is worth nothing; a later segment's deadline is when its robot runs out of
    work, which is the pace that credits would give it.
    """

    def rank_one(self, row: GenerationRow, now_s: float) -> float:
        """Return the slack's negative where the deadline can be met, below all those else."""
        late_s = self.late_s(row, now_s)
        if late_s > 0 and not row.segment_index:
            return -1e6 - late_s
        return late_s - row.expected_generation_s


KAIROS, JITSERVE, ANDES = WaitRatioFirst(), GainDensityFirst(), ExperienceGainFirst()
TAIL_AWARE, SCORPIO = BoostedArrivalFirst(), GuardedDeadlineFirst()

FIELD: Mapping[str, Policy] = {
    'kairos': KAIROS,
    'jitserve': JITSERVE,
    'andes': ANDES,
    'tail_aware': TAIL_AWARE,
    'scorpio': SCORPIO,
}
"""The policies by the names of their systems."""
