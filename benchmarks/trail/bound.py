"""What bounds a probe of open tasks: the planner itself is asked how its plans may go on.

A drawn plan's length is not decided before its last token is drawn. So even who knows the planner
by heart and sees all that it has written can only say how likely lengths are. That is measured: at
some ages of held-out plans the planner writes on again and again, each time with other chances from
there. The middle of those lengths is the best prediction from the state; whole plans of the same
prompt give the best one from the prompt.

A continuation is the whole generation once more under a name of its own: the draws before its age
are those of the plan, which makes the same tokens, and those from there on are its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.trail.distributions import running
from benchmarks.trail.probe import Followed, predictors, readings
from benchmarks.trail.replay import Spoken
from timely_llm_ros.engines.tokens import Sampling
from timely_llm_ros.training import generate_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.engines import GenerationRequest
    from timely_llm_ros.engines.torch.compute import LoadedModel

    Floats = NDArray[np.float64]

BETWEEN = 8
"""Tokens between two ages of a plan that are looked at; the first one differs from plan to plan."""

LEAST, STATE, PROMPT = 'least from the state', 'best from the state', 'best from the prompt'
"""The least is the error of the middle of the very lengths that are to be predicted, which is
somewhat too little; the best that of the middle of the others, which is somewhat too much."""

RESAMPLES = 2000

MARK = '~'
"""Begins what a continuation's id has more than its plan's."""


@dataclass(frozen=True, slots=True)
class BranchedSampling(Sampling):
    """Draws a continuation's first tokens as its plan's; ids are ``<plan>~<age>~<which>``."""

    def chance(self, generation_id: str, token: int) -> float:
        """Return a number from 0 up to 1; see :class:`Sampling`."""
        plan, _, branch = generation_id.partition(MARK)
        age = int(branch.partition(MARK)[0]) if branch else 0
        # Not super(), which the dataclass of slots stands in the way of.
        return Sampling.chance(self, plan if token < age else generation_id, token)


@dataclass(frozen=True, slots=True)
class Branched:
    """How long a plan may become.

    Attributes:
        place: Which plan.
        age: Tokens that it has; 0 for its prompt alone.
        lengths: Of the whole plan, one for each continuation that ended.
    """

    place: int
    age: int
    lengths: Floats


@dataclass(frozen=True, slots=True)
class Bound:
    """Mean errors of the remaining length at the states looked at (tokens).

    Every continuation is a truth that could have been, so there are many for a state.

    Attributes:
        states: How many.
        plans: Of how many plans.
        continuations: That ended, of all states together.
        errors: By who predicts.
        standard_errors: Of those, over plans.
        ratios: Of two of them, with its standard error.
    """

    states: int
    plans: int
    continuations: int
    errors: dict[str, float]
    standard_errors: dict[str, float]
    ratios: dict[str, tuple[float, float]]


def ages_of(place: int, length: int) -> range:
    """Return the ages at which a plan is looked at: all tokens alike, over many plans."""
    return range(1 + (place * 3) % BETWEEN, length, BETWEEN)


def branch(
    loaded: LoadedModel,
    requests: Sequence[GenerationRequest],
    lengths: Sequence[int],
    *,
    times: int,
    sampling: Sampling,
) -> list[Branched]:
    """Write plans on from some of their ages, and from their prompts.

    Args:
        loaded: The model; used up.
        requests: The plans' requests.
        lengths: How long each plan became.
        times: Continuations of a state.
        sampling: How the plans were drawn.
    """
    states = [
        (place, age) for place, length in enumerate(lengths) for age in (0, *ages_of(place, length))
    ]

    def continued() -> Iterator[GenerationRequest]:
        for number, (place, age) in enumerate(states):
            for which in range(times):
                name = f'{requests[place].generation_id}{MARK}{age}{MARK}{number}.{which}'
                yield replace(requests[place], generation_id=name)

    drawn = BranchedSampling(sampling.temperature, sampling.top_p, sampling.seed)
    found: list[list[float]] = [[] for _ in states]
    for name, sample in generate_samples(loaded, continued(), sampling=drawn).items():
        found[int(name.rpartition(MARK)[2].partition('.')[0])].append(sample.length)
    return [
        Branched(place, age, np.array(lengths))
        for (place, age), lengths in zip(states, found, strict=True)
        if len(lengths) > 1
    ]


def bound_of(plans: Sequence[Followed], branched: Sequence[Branched], name: str) -> Bound:
    """Return who is how wrong about what is left, at the states of plans that may go on so.

    Args:
        plans: With what was predicted of them.
        branched: Their states, and how long plans become from there; ages of 0 for prompts.
        name: The predictors' folder.
    """
    probe, _ = predictors(name)
    whole = {it.place: it.lengths for it in branched if not it.age}
    states = [it for it in branched if it.age and it.place in whole]
    errors: dict[str, list[float]] = {}
    for state in states:
        plan, age = plans[state.place], state.age
        for what, lengths in (
            (LEAST, np.median(state.lengths)),
            (STATE, others(state.lengths, np.median)),
            ('best from the state, mean', others(state.lengths, np.mean)),
            (PROMPT, max(float(np.median(whole[state.place])), age)),
            ('best from the prompt and that it runs', running(whole[state.place], age)),
            *(
                (what, age + probe.filter.left(rows[age - 1 : age], [age])[0])
                for what, rows in (
                    ('refined', plan.refined),
                    ('refined at every token', plan.eager),
                )
            ),
            *((it, max(length, age)) for it, length in readings(plan, probe.settings.bins).items()),
        ):  # fmt: skip
            wrong = float(np.abs(state.lengths - lengths).mean())
            errors.setdefault(what, []).append(wrong)
    places = np.array([state.place for state in states])
    # The same plans again and again in other shares: what another choice of plans had changed.
    drawn = np.random.default_rng(0).multinomial(
        len(plans), np.full(len(plans), 1 / len(plans)), RESAMPLES
    )
    weights = drawn[:, places].astype(np.float64)
    weights /= weights.sum(axis=1, keepdims=True)
    means = {what: float(np.mean(values)) for what, values in errors.items()}
    again = {what: weights @ np.array(values) for what, values in errors.items()}
    ours = min((it for it in means if it.startswith('prompt only')), key=means.__getitem__)
    return Bound(
        len(states),
        len(whole),
        sum(len(it.lengths) for it in branched),
        means,
        {what: float(values.std()) for what, values in again.items()},
        {
            f'{what} / {by}': (
                means[above] / means[below], float((again[above] / again[below]).std())
            )
            for what, above in (('perfect prompt', PROMPT), ('our prompt', ours))
            for by, below in (('perfect probe', STATE), ('least error', LEAST), ('ours', 'refined'))
        },
    )  # fmt: skip


def show_bound(bound: Bound) -> None:
    """Print it."""
    print(
        f'open tasks: {bound.states} states of {bound.plans} plans, {bound.continuations} '
        'continuations; mean error of the remaining length'
    )
    for what, value in bound.errors.items():
        print(f'  {what:40} {value:6.2f} tokens (standard error {bound.standard_errors[what]:.2f})')
    for what, (value, error) in bound.ratios.items():
        print(f'  {what:40} {value:6.2f} (standard error {error:.2f})')


def others(lengths: Floats, middle_of: Callable[[Floats], Any]) -> Floats:
    """Return for each length the middle of all others, which does not know it."""
    return np.array([middle_of(np.delete(lengths, it)) for it in range(len(lengths))])


def spoken_by(branched: Sequence[Branched], plans: Sequence[Followed]) -> list[Spoken]:
    """Return plans with what the best predictions are: means, as policies rank by them.

    Between two ages that were looked at, what is left falls by one with every token.
    """
    found = []
    by = {(it.place, it.age): float(it.lengths.mean()) for it in branched}
    for place, plan in enumerate(plans):
        length, lefts = by.get((place, 0), float(plan.length)), []
        first = length
        for age in range(1, plan.length):
            length = by.get((place, age), length)
            lefts.append(max(1.0, length - age))
        found.append(Spoken(plan.length, first, tuple(lefts)))
    return found
