"""Stop strings: texts before which what a model writes ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError, ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST, _LONGEST = 64, 256


def check_stop_strings(stops: Iterable[str]) -> None:
    """Check stop strings.

    Raises:
        ConfigurationError: One is empty or too long, holds what ends a statement, or there are too
            many.
    """
    found = list(stops)
    for stop in found:
        if not isinstance(stop, str) or not 0 < len(stop) <= _LONGEST or ';' in stop:
            # What may become a stop string is held back, and no statement must be.
            raise ConfigurationError(
                f'stop string {str(stop)[:60]!r}: expected 1 to {_LONGEST} characters, none of '
                'them ";"'
            )
    if len(found) > _MOST:
        raise ConfigurationError(f'{len(found)} stop strings: expected at most {_MOST}')


def own_stop_strings(model: str) -> tuple[str, ...]:
    """Return the stop strings of a model's ``generation_config.json``; none where it has no folder.

    Raises:
        ModelLoadError: The file cannot be read, or its stop strings cannot be used.
    """
    file = Path(model) / 'generation_config.json'
    if not model or not file.is_file():
        return ()
    try:
        found = json.loads(file.read_text(encoding='utf-8')).get('stop_strings') or ()
        stops = (found,) if isinstance(found, str) else tuple(found)
        check_stop_strings(stops)
    except (OSError, ValueError, TypeError, AttributeError, ConfigurationError) as err:
        raise ModelLoadError(f'{file}: stop_strings: {err}') from err
    return stops


class StopText:
    """Finds stop strings in a text that comes in pieces, and holds back what may become one.

    Args:
        stops: The strings; the text before the first of them is all that counts.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.found = False
        """Whether a stop string has come."""
        self._stops = stops
        self._held = ''

    def push(self, text: str) -> str:
        """Return the text that certainly belongs to no stop string, as far as that is new."""
        if not self._stops:
            return text
        text = self._held + text
        ends = [place + len(stop) for stop in self._stops if (place := text.find(stop)) >= 0]
        if ends:
            # The first one to be complete counts, in however large pieces the text comes.
            text = text[: min(ends)]
            self.found, self._held = True, ''
            return text[: min(place for stop in self._stops if (place := text.find(stop)) >= 0)]
        kept = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def rest(self) -> str:
        """Return what is held back, because nothing comes behind it."""
        held, self._held = self._held, ''
        return held


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of a text may begin a stop string."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
