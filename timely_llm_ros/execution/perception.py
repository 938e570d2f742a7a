"""What robots see. The perception over ROS is in ``nodes/executor/``."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

from timely_llm_ros.errors import ConfigurationError, SkillFailedError

if TYPE_CHECKING:
    from timely_llm_ros.skills import Scene


class Perception(Protocol):
    """One robot's eyes. Used from the loop of its driver."""

    async def look(self, scene: Scene) -> frozenset[str]:
        """Return the names of the scene's objects that the robot sees now.

        Raises:
            SkillFailedError: Whatever does the seeing is silent.
        """
        ...

    def locate(self, scene: Scene) -> Scene:
        """Return the scene with its objects where the robot saw them last, as far as it did."""
        ...

    async def take_picture(self) -> None:
        """Have a picture taken.

        Raises:
            SkillFailedError: There is nobody to take one.
        """
        ...


class NoPerception:
    """A robot without eyes: every skill that needs them fails and says so."""

    async def look(self, scene: Scene) -> frozenset[str]:  # noqa: ARG002 (as the protocol has it)
        """Raise ``SkillFailedError``."""
        raise _blind()

    def locate(self, scene: Scene) -> Scene:
        """Return the scene as it is."""
        return scene

    async def take_picture(self) -> None:
        """Raise ``SkillFailedError``."""
        raise _blind()


def _blind() -> SkillFailedError:
    return SkillFailedError('the robot has no perception: expected one to be configured')


class SimulatedPerception:
    """Sees each object of a scene, or not, by a draw of a given probability.

    Raises:
        ConfigurationError: The probability is out of range.
    """

    def __init__(self, *, seed: int = 0, probability: float = 0.7) -> None:
        if not 0 <= probability <= 1:
            raise ConfigurationError(
                f'probability of seeing {probability!r}: expected a number from 0 to 1'
            )
        self._random = random.Random(seed)
        self._probability = probability
        self.pictures = 0

    async def look(self, scene: Scene) -> frozenset[str]:
        """Draw which objects are seen."""
        return frozenset(name for name in scene.names if self._random.random() < self._probability)

    def locate(self, scene: Scene) -> Scene:
        """Return the scene as it is."""
        return scene

    async def take_picture(self) -> None:
        """Count the picture."""
        self.pictures += 1
