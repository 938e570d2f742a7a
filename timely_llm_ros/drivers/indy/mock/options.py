"""The options of a mock Indy, which cross to the process that serves it as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from timely_llm_ros.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class MockIndyOptions:
    """How one mock arm is served.

    Attributes:
        host: Its address.
        index: Which of the SDK's two sets of ports it has, 0 or 1.
        speed: It is this many times as fast as a real one.
        jitter: Relative standard deviation of the durations of its motions, up to 0.3.
        seed: Equal seeds draw equal deviations.
        record: File to which what happens to it is appended; empty for none.
        until_eof: Whether it ends with its standard input; else it goes on without one.

    Raises:
        ConfigurationError: One is out of range.
    """

    host: str = '127.0.0.1'
    index: int = 0
    speed: float = 1.0
    jitter: float = 0.0
    seed: int = 0
    record: str = ''
    until_eof: bool = False

    def __post_init__(self) -> None:
        if self.index not in (0, 1):
            raise ConfigurationError(f'index {self.index!r}: expected 0 or 1')
        if not 0 < self.speed <= 1000:
            raise ConfigurationError(
                f'speed {self.speed!r}: expected a number above 0, at most 1000'
            )
        if not 0 <= self.jitter <= 0.3:
            raise ConfigurationError(f'jitter {self.jitter!r}: expected a number from 0 to 0.3')

    def to_json(self) -> str:
        """Return the options as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> MockIndyOptions:
        """Return the options that :meth:`to_json` wrote."""
        return cls(**json.loads(text))
