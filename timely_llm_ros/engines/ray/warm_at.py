"""Which replica keeps which robot's scene warm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from timely_llm_ros.engines.commands import GenerationRequest, Warm


class WarmAt:
    """The replicas of the scenes that are wanted, by name, and what they were told."""

    def __init__(self) -> None:
        self._scenes: dict[str, tuple[str, Warm]] = {}

    def of(self, request: GenerationRequest) -> str:
        """Return the replica that has a request's scene; '' for none."""
        found = self._scenes.get(request.scene_of)
        return '' if found is None else found[0]

    def at(self, replica: str) -> list[Warm]:
        """Return what a replica was told."""
        return [warm for name, warm in self._scenes.values() if name == replica]

    def place(self, command: Warm, known: Collection[str], candidates: Iterable[str]) -> str:
        """Return which replica is to be told: the one before while it is ``known``; '' for none.

        Else it is the candidate that has the fewest scenes.
        """
        there, _ = self._scenes.pop(command.scene_of, ('', None))
        if there not in known:
            counts = dict.fromkeys(candidates, 0)
            for name, _ in self._scenes.values():
                if name in counts:
                    counts[name] += 1
            there = min(counts, key=counts.__getitem__, default='')
        if there and command.prompt is not None:
            self._scenes[command.scene_of] = there, command
        return there
