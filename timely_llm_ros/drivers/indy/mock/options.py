"""The options of a mock Indy, which cross to the process that serves it as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from timely_llm_ros.options import check_options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class MockIndyOptions:
    """How one mock arm is served.

    Attributes:
        until_eof: Whether it ends with its standard input; else it goes on without one.

    Raises:
        ConfigurationError: A value is out of range.
    """

    host: str = option('127.0.0.1', 'its address')
    index: int = option(0, "which of the SDK's port sets", minimum=0, maximum=1)
    speed: float = option(1.0, 'times as fast as a real one', minimum=0.001, maximum=1000)
    jitter: float = option(
        0.0, "relative standard deviation of its motions' durations", minimum=0, maximum=0.3
    )
    seed: int = option(0, 'of that deviation')
    record: str = option('', 'file for what the arm does, as JSON lines')
    until_eof: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def to_json(self) -> str:
        """Return the options as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> MockIndyOptions:
        """Return the options that :meth:`to_json` wrote."""
        return cls(**json.loads(text))
