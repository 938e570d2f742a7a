"""Policies: pure, vectorised rankings of generations. Higher ranks go first."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.plugins import load_plugin, plugin_names
from timely_llm_ros.scheduling.generation import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.scheduling.generation import FloatArray, GenerationRow, TableView

MINIMUM_SLACK_S = 0.001
"""Slack below this counts as this, so that a deadline just missed is not infinitely urgent."""

LEAST_STAKE = 1e-3
"""The least share of its loss that a generation counts with, so that the hopeless have an order."""

PINNED_RANK = 1e15
"""The rank of a generation that must not be interrupted, above all that may be."""

_QUEUED = int(Phase.QUEUED)


@dataclass(frozen=True, slots=True)
class Policy(ABC):
    """Ranks generations. Pure: the same arguments give the same ranks.

    A field that is named like one of ``SchedulingOptions`` takes its value in a scheduler.

    Attributes:
        margin: How much better, as a ratio, a rank must be to interrupt a segment in the making.
    """

    margin: float = 0.0

    ranks_plans: ClassVar[bool] = False
    """Whether it ranks whole plans, by how much is left of them. It then ranks in every mode, is
    given remaining lengths, and may rank a generation ``PINNED_RANK``."""

    @abstractmethod
    def rank(self, view: TableView, now_s: float) -> FloatArray:
        """Return one finite rank per generation, higher first."""

    @abstractmethod
    def rank_one(self, row: GenerationRow, now_s: float) -> float:
        """Return what :meth:`rank` gives for one generation: faster where there are few."""


@dataclass(frozen=True, slots=True)
class FirstComeFirstServed(Policy):
    """By arrival; a generation keeps its place between segments."""

    def rank(self, view: TableView, now_s: float) -> FloatArray:  # noqa: ARG002 -- as Policy has it
        """Return ranks that fall with the arrival time."""
        return -view.arrival_s

    def rank_one(self, row: GenerationRow, now_s: float) -> float:  # noqa: ARG002 -- as Policy has it
        """Return the same for one generation."""
        return -row.arrival_s


@dataclass(frozen=True, slots=True)
class EarliestDeadlineFirst(Policy):
    """By the first segment's deadline, arrival + ERT, kept for the whole generation.

    This is TimelyLLM's baseline: deadlines of later segments do not count.
    """

    def rank(self, view: TableView, now_s: float) -> FloatArray:  # noqa: ARG002 -- as Policy has it
        """Return ranks that fall with the first deadline."""
        return -(view.arrival_s + view.ert_s)

    def rank_one(self, row: GenerationRow, now_s: float) -> float:  # noqa: ARG002 -- as Policy has it
        """Return the same for one generation."""
        return -(row.arrival_s + row.ert_s)


@dataclass(frozen=True, slots=True)
class HighestUtilityDensityFirst(Policy):
    """TimelyLLM's policy: potential utility density (eq. 4), with a class of its own for the late.

    The density is ``U / (G * L)``: the utility U that the segment has if it is generated next, its
    expected generation time G, and the slack L until it should reach the robot. A first segment is
    due ERT after the arrival, a later one when the robot runs out of work.

    A generation whose utility has fallen to 0 or below ranks behind all others, and among its
    like by ``|alpha| / G`` (Smith's rule, which is optimal for linear losses). The printed formula
    would rank a hopeless generation first or starve the one that is overdue most.

    Attributes:
        network_s: One-way time from the engine to a robot.
        minimum_slack_s: Slack below this counts as this.
        margin: Ranks move with time, so a challenger must be this much better mid-segment.
    """

    network_s: float = 0.0
    minimum_slack_s: float = MINIMUM_SLACK_S
    margin: float = 0.5

    def rank(self, view: TableView, now_s: float) -> FloatArray:
        """Return the density where utility is positive, ``-G / |alpha|`` where it is not."""
        generation_s = view.expected_generation_s
        slack_s = np.where(view.segment_index == 0, view.arrival_s + view.ert_s, view.due_s)
        slack_s -= now_s + self.network_s
        utility = generation_s - slack_s
        np.maximum(utility, 0.0, out=utility)
        utility *= view.alpha
        utility += view.beta
        np.maximum(slack_s, self.minimum_slack_s, out=slack_s)
        slack_s *= generation_s
        density: FloatArray = np.divide(utility, slack_s, out=slack_s)
        if utility.min(initial=1.0) > 0:
            return density
        late = np.flatnonzero(utility <= 0)
        density[late] = generation_s[late] / view.alpha[late]
        return density

    def rank_one(self, row: GenerationRow, now_s: float) -> float:
        """Return the same for one generation."""
        due_s = row.arrival_s + row.ert_s if row.segment_index == 0 else row.due_s
        slack_s = due_s - (now_s + self.network_s)
        generation_s = row.expected_generation_s
        late_s = generation_s - slack_s
        utility = row.beta + row.alpha * late_s if late_s > 0 else row.beta
        if utility <= 0:
            return generation_s / row.alpha
        return utility / (generation_s * max(slack_s, self.minimum_slack_s))


@dataclass(frozen=True, slots=True)
class LeastLossFirst(Policy):
    """By what is lost per engine second if it is not served now.

    The rank is ``|alpha| / G / (1 + slack / horizon)^2``, where the slack is what is left until the
    segment would be late if it were generated next. This is Smith's rule among the late; the later
    a segment is due, the less it matters that it waits. The form is that of the apparent tardiness
    cost (Vepsalainen and Morton, 1987), with a power for the exponential, which would underflow.

    Nobody can lose more than there is left: where a first segment would be worthless within the
    horizon if it were generated next, its rank counts by the share of the horizon that is left.

    Attributes:
        horizon_s: How far ahead a deadline begins to press, and a loss counts (s).
        network_s: One-way time from the engine to a robot (s).
        margin: Ranks move with time, so a challenger must be this much better mid-segment.
    """

    horizon_s: float = 0.2
    network_s: float = 0.0
    margin: float = 0.5

    def rank(self, view: TableView, now_s: float) -> FloatArray:
        """Return the loss per engine second."""
        slack_s = np.where(view.segment_index == 0, view.arrival_s + view.ert_s, view.due_s)
        slack_s -= now_s + self.network_s
        slack_s -= view.expected_generation_s
        left_s = np.where(view.segment_index == 0, view.worthless_s, math.inf)
        left_s -= now_s + self.network_s
        left_s -= view.expected_generation_s
        left_s /= self.horizon_s
        np.clip(left_s, LEAST_STAKE, 1.0, out=left_s)
        np.maximum(slack_s, 0.0, out=slack_s)
        slack_s /= self.horizon_s
        slack_s += 1.0
        slack_s *= slack_s
        slack_s *= view.expected_generation_s
        np.divide(-view.alpha, slack_s, out=slack_s)
        slack_s *= left_s
        return slack_s

    def rank_one(self, row: GenerationRow, now_s: float) -> float:
        """Return the same for one generation."""
        slack_s = row.arrival_s + row.ert_s if row.segment_index == 0 else row.due_s
        slack_s -= now_s + self.network_s
        slack_s -= row.expected_generation_s
        ease = max(slack_s, 0.0) / self.horizon_s + 1.0
        rank = -row.alpha / (ease * ease * row.expected_generation_s)
        if row.segment_index:
            return rank
        left_s = row.worthless_s - (now_s + self.network_s) - row.expected_generation_s
        return rank * min(max(left_s / self.horizon_s, LEAST_STAKE), 1.0)


def preemption_limit(predicted_tokens: float, share: float) -> int:
    """Return in how many tokens a generation may be preempted (TRAIL, section 3.2): floor(c r).

    ``predicted_tokens`` is r, the *first* predicted length; ``share`` is c, from 0 to 1.
    """
    # Rounded first: 0.8 * 25 must not become 19 for a bit in its last place.
    return math.floor(round(share * predicted_tokens, 9))


@dataclass(frozen=True, slots=True)
class ShortestRemainingFirst(Policy):
    """TRAIL's policy: shortest predicted remaining plan first, preempted only while young.

    A generation may be interrupted in its first ``floor(c r)`` tokens, where ``r`` is the first
    prediction of its length; after that only between two segments, where it keeps its KV, and not
    even there while memory is short. The policy ranks whole plans, so it serves every mode.

    Attributes:
        preemption_share: c. 1 is shortest predicted remaining first, 0 shortest predicted first
            without preemption.
        margin: How much shorter the plan that interrupts another must be, as a ratio.
    """

    ranks_plans: ClassVar[bool] = True

    preemption_share: float = 0.8

    def rank(self, view: TableView, now_s: float) -> FloatArray:  # noqa: ARG002 -- as Policy has it
        """Return ``-remaining``, ``PINNED_RANK`` where it must not be interrupted."""
        limit = np.floor(np.round(self.preemption_share * view.predicted_tokens, 9))
        pinned = (view.total_tokens >= limit) & (view.phase != _QUEUED) & (view.pausable == 0)
        return np.where(pinned, PINNED_RANK, -view.remaining_tokens)

    def rank_one(self, row: GenerationRow, now_s: float) -> float:  # noqa: ARG002 -- as Policy has it
        """Return the same for one generation."""
        if (
            row.phase != _QUEUED
            and not row.pausable
            and row.total_tokens >= preemption_limit(row.predicted_tokens, self.preemption_share)
        ):
            return PINNED_RANK
        return -row.remaining_tokens


POLICIES: Mapping[str, Policy] = {
    'fcfs': FirstComeFirstServed(),
    'edf': EarliestDeadlineFirst(),
    'utility': HighestUtilityDensityFirst(),
    'least_loss': LeastLossFirst(),
    'srpt': ShortestRemainingFirst(),
}
"""The policies by name."""


def policy_names() -> tuple[str, ...]:
    """Return the names of the policies, those of other packages last."""
    return (*POLICIES, *(name for name in plugin_names('policies') if name not in POLICIES))


def find_policy(name: str) -> Policy:
    """Return the policy of that name.

    Raises:
        ConfigurationError: There is none, or another package's is none.
    """
    if name in POLICIES:
        return POLICIES[name]
    if name not in policy_names():
        raise ConfigurationError(
            f'policy {name!r}: expected one of {", ".join(sorted(policy_names()))}'
        )
    policy = load_plugin('policies', name)
    if not isinstance(policy, Policy):
        raise ConfigurationError(f'policy {name!r}: {policy!r}: expected an instance of Policy')
    return policy
