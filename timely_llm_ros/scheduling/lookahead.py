"""Lookahead admission: who joins a step is decided by what everybody loses by it.

A generation that joins makes the step longer for all in it: a little by one more row, a lot by its
prompt. With the learned step times the limit projects when each segment will be complete.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from timely_llm_ros.scheduling.admission import OVERDUE_LOSS_PER_S, BatchLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.scheduling.admission import Candidate, StepTimes

MOST_PLANNED = 8
"""Of more pressed prompts than these only so many of the best are planned in groups."""

_CROWDED_WEIGHT = 0.01
"""What a step counts in the share of steps that had more candidates than places."""

_CROWDED = 0.2
"""The share of such steps from which steps are filled. Where tasks are refused fewer wait outside
the more are refused: at half, steps went half empty at twenty times what can be served."""


class LookaheadBatchLimit(BatchLimit):
    """Runs those whose joining costs all together least.

    * One that has its prompt's KV already joins if what the others lose by it is no more than what
      it gains; kept out, it would come after the last of those that lose.
    * *Pressed* prompts, those that would be late if all prompts were computed first, are served in
      groups, one group after the other. Beginning all at once makes the first ones late, one by one
      the last ones; the first group is as large as the cheapest partition of all of them says.
    * Other prompts join only where nobody loses by it, and as few in a step as leave them all in
      time: a step cannot be interrupted, and somebody dearer may come at any moment, if there ever
      was one.
    * As long as no step was observed, one prompt begins at a time.

    Where it ``fills``, or a fifth of the steps of late had more candidates than places, one that
    has its prompt's KV joins wherever there is room, whoever loses by it: one more row costs
    little, and only full steps serve as many as can be served.
    ``network_s`` is the one-way time to a robot.
    """

    def __init__(
        self,
        max_running: int,
        step_times: StepTimes,
        *,
        network_s: float = 0.0,
        fills: bool = False,
    ) -> None:
        super().__init__(max_running, step_times)
        self._network_s, self._fills = network_s, fills
        self._dearest = self._behind = self._crowded = 0.0

    @property
    def considered(self) -> int:
        """How many of the best-ranked candidates :meth:`choose` wants to see."""
        return 4 * self.max_running

    def choose(self, candidates: Sequence[Candidate], running: int = 0) -> Sequence[int]:
        """Return the places of the candidates to run, in order; at least one."""
        if not candidates:
            return ()
        crowded = len(candidates) > self.max_running
        self._crowded += _CROWDED_WEIGHT * (crowded - self._crowded)
        fills = self._fills or self._crowded > _CROWDED
        losses = [item.loss_per_s for item in candidates if item.loss_per_s < OVERDUE_LOSS_PER_S]
        self._dearest = max(self._dearest, *losses, 0.0)
        places = list(range(min(running, self.max_running)))
        inside = [candidates[place] for place in places]
        prompts = [
            place for place, item in enumerate(candidates) if item.begins and place >= running
        ]
        if not self.step_times.known:
            first = prompts[: not inside]
            others = (place for place in range(running, len(candidates)) if place not in prompts)
            return sorted([*places, *first, *others][: self.max_running]) or [0]
        places += self._amid(candidates, running)
        inside = [candidates[place] for place in places]
        pressed = self._pressed(candidates, prompts)
        begun = pressed[: self._first_group([candidates[place] for place in pressed], inside)]
        begun = begun[: self.max_running - len(inside)]
        places += begun
        inside += [candidates[place] for place in begun]
        self._behind = self._losing(candidates, places)
        paced = self._pace([candidates[place] for place in prompts if place not in pressed], inside)
        added = len(begun)
        for place in range(running, len(candidates)):
            item = candidates[place]
            if len(inside) == self.max_running or (item.begins and not paced):
                continue
            if place in pressed or place in places:
                continue
            if fills and not item.begins:
                pass
            elif inside and not self._gains(item, inside, added):
                continue
            places.append(place)
            inside.append(item)
            paced -= item.begins
            added += item.begins
        return sorted(places) if places else [0]

    def _amid(self, candidates: Sequence[Candidate], running: int) -> list[int]:
        """Return who is amid a first segment and ranks before every prompt.

        They would join in any case; a prompt that begins with them must count what they lose.
        """
        found: list[int] = []
        for place in range(running, len(candidates)):
            item = candidates[place]
            if item.begins or running + len(found) == self.max_running:
                break
            if item.loss_per_s:
                found.append(place)
        return found

    def _pressed(self, candidates: Sequence[Candidate], prompts: list[int]) -> list[int]:
        """Return the prompts that would be late if all were computed first, best rank first."""
        step_s = self._step_s(len(prompts))
        all_s = self._network_s + len(prompts) * self.step_times.prefill_s
        pressed = [
            place
            for place in prompts
            if candidates[place].loss_per_s
            and candidates[place].slack_s < all_s + _tokens(candidates[place]) * step_s
        ]
        return pressed[:MOST_PLANNED]

    def _first_group(self, pressed: list[Candidate], inside: list[Candidate]) -> int:
        """Return how many of the pressed to begin now, the others after them: least loss in all."""
        if not pressed:
            return 0
        wait_s, now_s = self._network_s, self._step_s(len(inside))
        losing = [(item, _tokens(item)) for item in inside if item.loss_per_s]
        ends_s = [wait_s + tokens * now_s for _, tokens in losing]
        losses = [item.loss(end_s) for (item, _), end_s in zip(losing, ends_s, strict=True)]
        begun_now = []
        for size in range(1, len(pressed) + 1):
            longer_s = self._step_s(len(inside) + size)
            begin_s = wait_s + size * self.step_times.prefill_s
            loss = 0.0
            for (item, tokens), lost in zip(losing, losses, strict=True):
                loss += item.loss(begin_s + tokens * longer_s) - lost
            begun_now.append(loss)
        now_loss, size = self._cheapest(pressed, wait_s, begun_now)
        if ends_s:
            last_s = max(ends_s)
            if self._cheapest(pressed, last_s, [0.0] * len(pressed))[0] < now_loss:
                return 0
        return size

    def _cheapest(
        self, pressed: list[Candidate], free_s: float, begun_now: list[float]
    ) -> tuple[float, int]:
        """Return the least loss of any partition into groups, and the size of its first one.

        The engine is free for the pressed in ``free_s``. ``begun_now`` is what others lose by a
        first group of one, of two, ... of them.
        """
        count, prefill_s = len(pressed), self.step_times.prefill_s
        group_s = max(map(_tokens, pressed)) * self._step_s(min(count, self.max_running))

        @cache
        def best(start: int, groups: int) -> tuple[float, int]:
            """Return the same for those from ``start`` on, after so many groups."""
            if start == count:
                return 0.0, 0
            least, size = math.inf, 0
            for end in range(start + 1, count + 1):
                end_s = free_s + end * prefill_s + (groups + 1) * group_s
                loss = sum(item.loss(end_s) for item in pressed[start:end])
                loss += 0.0 if groups else begun_now[end - 1]
                if loss < least:
                    loss += best(end, groups + 1)[0]
                    if loss < least:
                        least, size = loss, end - start
            return least, size

        return best(0, 0)

    def _pace(self, prompts: list[Candidate], inside: list[Candidate]) -> int:
        """Return how few prompts per step leave all of these in time; all where none would."""
        if not prompts:
            return 0
        dearest = max(item.loss_per_s for item in prompts)
        if dearest >= self._dearest:
            return len(prompts)
        step_s, prefill_s = self._step_s(len(inside) + 1), self.step_times.prefill_s
        left_s = min(item.slack_s - _tokens(item) * step_s for item in prompts) - self._network_s
        for count in range(1, len(prompts)):
            if math.ceil(len(prompts) / count) * (step_s + count * prefill_s) <= left_s:
                return count
        return len(prompts)

    def _gains(self, item: Candidate, inside: list[Candidate], begun: int) -> bool:
        """Return whether one gains at least what those inside lose if it joins them now.

        Before any of them goes on, ``begun`` prompts are computed.
        """
        prefill_s = self.step_times.prefill_s
        step_s, longer_s = self._step_s(len(inside)), self._step_s(len(inside) + 1)
        own_prefill_s = prefill_s if item.begins else 0.0
        wait_s = self._network_s + begun * prefill_s
        delayed_s = wait_s + own_prefill_s
        loss = 0.0
        last_s = 0.0
        for other in inside:
            # The many that stay in time are passed over first: each candidate looks at them.
            slack_s, tokens, _, _, _ = other
            tokens = tokens if tokens > 0 else 1
            later_s = delayed_s + tokens * longer_s
            if later_s <= slack_s:
                continue
            end_s = wait_s + tokens * step_s
            if later_s > end_s:
                loss += other.loss(later_s) - other.loss(end_s)
                last_s = max(last_s, end_s)
        if not loss:
            return True
        own_s = own_prefill_s + _tokens(item) * longer_s
        gain = max(0.0, item.loss(last_s + own_s) - item.loss(wait_s + own_s))
        return gain + self._saved(item, len(inside)) >= loss

    def _losing(self, candidates: Sequence[Candidate], places: list[int]) -> float:
        """Return what those outside that are late already lose per second (utility/s)."""
        chosen = set(places)
        return sum(
            item.loss_per_s
            for place, item in enumerate(candidates)
            if place not in chosen and -item.falls_s < item.slack_s < self._network_s
        )

    def _saved(self, item: Candidate, batch: int) -> float:
        """Return what the late ones outside gain if one joins now and not a full step later.

        A row in a step that is run in any case costs less than its share of a later full one, and
        the engine is free for those outside that much sooner. With nobody late outside it is
        nothing; the longer the backlog, the fuller the steps.
        """
        later_s = self._step_s(self.max_running) / self.max_running
        now_s = self._step_s(batch + 1) - self._step_s(batch)
        return max(0.0, later_s - now_s) * _tokens(item) * self._behind

    def _step_s(self, batch: int) -> float:
        return self.step_times.expected_s(max(batch, 1)) or 0.0


def _tokens(item: Candidate) -> int:
    return max(item.tokens_left, 1)
