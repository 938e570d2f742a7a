"""Predicted lengths in the worker: from prompts on a thread, from hidden states after steps.

Neither keeps a segment waiting: prompts are read beside their own prefill, and hidden states after
a step's segments have left.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from timely_llm_ros.engines.engine import GenerationEnded
from timely_llm_ros.errors import ModelLoadError
from timely_llm_ros.prediction.lengths import EVERY, PROBE_NAME, RLP_NAME, read_probe, read_rlp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.core import LanedCore, StepPlan
    from timely_llm_ros.engines.torch.compute import LoadedModel, TorchBackend
    from timely_llm_ros.prediction.lengths import (
        LengthDistribution,
        RemainingLengthProbe,
        ResponseLengthModel,
    )


FEW = 4
"""With fewer generations in a step answers are rare: an answer takes as long as in other steps, and
there are few to choose among."""

RARE = 3
"""How many times as many steps there are then between two answers."""


class PromptReader:
    """Predicts lengths from prompts on a thread of its own."""

    def __init__(self, model: ResponseLengthModel) -> None:
        self._model = model
        self._prompts: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
        self._found: deque[tuple[str, LengthDistribution]] = deque()
        threading.Thread(target=self._run, name='length predictor', daemon=True).start()

    def read(self, request: GenerationRequest) -> None:
        """Have a request's prompt read; returns at once."""
        prompt = request.prompt
        self._prompts.put((request.generation_id, prompt.fixed, prompt.body))

    def take(self) -> list[tuple[str, LengthDistribution]]:
        """Return the generations that were read since the last call, and what is expected."""
        found = []
        while self._found:
            found.append(self._found.popleft())
        return found

    def _run(self) -> None:
        while True:
            name, fixed, body = self._prompts.get()
            self._found.append((name, self._model.predict(fixed, body)))


class StateReader:
    """Predicts from hidden states what is left of plans.

    Args:
        loaded: The model that generates; its layer is watched from now on.
        probe: The probe.
        every: Steps between two answers; :data:`RARE` times as many where fewer generations than
            :data:`FEW` run. A plan's first token is answered for at once, because then the model
            itself says something of the plan for the first time, which corrects the most.

    Raises:
        ConfigurationError: The model has no such layer.
    """

    def __init__(
        self, loaded: LoadedModel, probe: RemainingLengthProbe, *, every: int = EVERY
    ) -> None:
        self._tap = loaded.watch([probe.settings.layer])
        self._probe = probe
        self._every = every
        self._steps = 0
        self._known: dict[str, NDArray[np.float64]] = {}
        # The latest step's generations and their rows: mostly the next one's, too.
        self._latest: tuple[list[str], NDArray[np.float64]] = [], np.empty((0, 0))

    def expect(self, generation_id: str, forecast: LengthDistribution) -> None:
        """Learn what a prompt says, even if hidden states have said something already."""
        lengths = self._probe.filter
        known = self._known.get(generation_id, lengths.start)
        self._known[generation_id] = lengths.told(known, forecast)
        self._latest = [], np.empty((0, 0))

    def after_step(self, plan: StepPlan, backend: TorchBackend) -> dict[str, float]:
        """Return how many tokens are left of plans; after most steps it says nothing.

        Call it after every step, when its tokens have been counted.
        """
        self._steps += 1
        due = self._steps >= (self._every if len(plan.rows) >= FEW else RARE * self._every)
        if due:
            self._steps = 0
        ages_of: dict[str, int] = {}
        forwarded: dict[str, int] = {}
        for row in plan.rows:
            generation, name = row.generation, row.generation.generation_id
            # What is seen came before the tokens that had to follow.
            forwarded[name] = generation.brought - 1
            age = generation.tokens - forwarded[name]
            if (due or age == 1) and row.samples and not generation.ended:
                ages_of[name] = age
        if not ages_of:
            return {}
        names, places, ages = [], [], []
        for name, place in zip(*backend.sampled, strict=True):
            if name in ages_of:
                names.append(name)
                places.append(place)
                ages.append(ages_of[name])
        if not names:
            return {}
        answers = self._probe.answer(self._tap.rows(places))
        shares, left = self._probe.filter.refine(self._before(names), ages, answers)
        if due:
            # First tokens come from a few: what is kept of the others stays right.
            self._latest = names, shares
        self._known.update(zip(names, shares, strict=True))
        after = zip(names, left.tolist(), strict=True)
        return {name: max(1.0, tokens - forwarded[name]) for name, tokens in after}

    def _before(self, names: list[str]) -> NDArray[np.float64]:
        """Return what is known of these generations, ``[rows, longest]``."""
        latest, shares = self._latest
        if names == latest:
            return shares
        start = self._probe.filter.start
        return np.array([self._known.get(name, start) for name in names])

    def forget(self, generation_ids: Iterable[str]) -> None:
        """Forget generations that have ended."""
        for name in generation_ids:
            if self._known.pop(name, None) is not None:
                self._latest = [], np.empty((0, 0))


class WorkerLengths:
    """Tells a core what prompts and hidden states say of lengths, where there are such readers."""

    def __init__(
        self, core: LanedCore, prompts: PromptReader | None, states: StateReader | None
    ) -> None:
        self._core = core
        self._prompts = prompts
        self._states = states

    @classmethod
    def load(cls, folder: str, core: LanedCore, loaded: LoadedModel) -> WorkerLengths:
        """Load the predictors of a folder; none where it is empty.

        Raises:
            ModelLoadError: There is none in the folder, or one of them is broken.
        """
        prompts, states = None, None
        if folder:
            names = [name for name in (RLP_NAME, PROBE_NAME) if has_predictor(folder, name)]
            if not names:
                raise ModelLoadError(
                    f'predictors in {folder!r}: neither {RLP_NAME}.json nor {PROBE_NAME}.json; '
                    'expected what "timely-llm train-rlp" or "timely-llm train-probe" wrote'
                )
            if RLP_NAME in names:
                prompts = PromptReader(read_rlp(folder))
            if PROBE_NAME in names:
                states = StateReader(loaded, read_probe(folder))
        return cls(core, prompts, states)

    def submitted(self, request: GenerationRequest) -> None:
        """Have a new request's prompt read, unless its sender has predicted its length."""
        if self._prompts is not None and request.predicted_tokens is None:
            self._prompts.read(request)

    def before_step(self) -> None:
        """Tell the core what prompts said."""
        if self._prompts is not None:
            for name, forecast in self._prompts.take():
                self._core.predict(name, forecast.mean)
                if self._states is not None and name in self._core:
                    self._states.expect(name, forecast)

    def after_step(
        self, plan: StepPlan | None, backend: TorchBackend, events: Iterable[object]
    ) -> None:
        """Tell the core what hidden states say; call it when the step's events have left."""
        if self._states is None:
            return
        if plan is not None:
            left = self._states.after_step(plan, backend)
            if left:
                self._core.refine(left)
        self._states.forget(it.generation_id for it in events if isinstance(it, GenerationEnded))


def has_predictor(folder: str, name: str) -> bool:
    """Return whether a folder has that predictor."""
    return (Path(folder) / f'{name}.json').is_file()
