"""A world as a file: what is in each bay, for the program that simulates it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.skills import Scene, SceneObject
from timely_llm_ros.world.options import Bay

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def write_bays(path: Path, bays: Sequence[Bay]) -> None:
    """Write a world as JSON."""
    content = {bay.robot: [asdict(item) for item in bay.scene.objects] for bay in bays}
    path.write_text(json.dumps(content, indent=1), encoding='utf-8')


def read_bays(path: Path) -> list[Bay]:
    """Read a world.

    Raises:
        ConfigurationError: It cannot be read, or is not of that form.
    """
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
        return [
            Bay(robot, Scene(tuple(SceneObject(**item) for item in items)))
            for robot, items in content.items()
        ]
    except (OSError, ValueError, TypeError, AttributeError, InvalidTaskError) as err:
        raise ConfigurationError(
            f'bays {str(path)!r}: expected a file of objects by robot: {err}'
        ) from err
