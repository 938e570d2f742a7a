"""Starts a mock Indy7 in a process of its own, and tells it what shall go wrong."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from timely_llm_ros.drivers.indy.environment import sdk_command
from timely_llm_ros.drivers.indy.mock.options import MockIndyOptions
from timely_llm_ros.drivers.journal import read_journal
from timely_llm_ros.errors import ConfigurationError

SERVER = 'timely_llm_ros.drivers.indy.mock.server'


class MockIndy:
    """A mock arm in a process of its own, for tests and demos; it ends with its owner.

    Args:
        folder: Where its record goes.
        host: Its address; by default a random one of this machine.
        speed: How many times as fast as a real one it is.
        jitter: Relative standard deviation of the durations of its motions.
        seed: Equal seeds draw equal deviations.

    Raises:
        ConfigurationError: The SDK is missing, an option is out of range or a port is taken.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        host: str | None = None,
        speed: float = 1.0,
        jitter: float = 0.0,
        seed: int = 0,
    ) -> None:
        draw = random.SystemRandom()
        self.host = host or '.'.join(('127', *(str(draw.randint(1, 254)) for _ in range(3))))
        self.record_path = Path(folder) / f'indy_{self.host}.jsonl'
        options = MockIndyOptions(
            host=self.host,
            speed=speed,
            jitter=jitter,
            seed=seed,
            record=str(self.record_path),
            until_eof=True,
        )
        self.process = subprocess.Popen(
            sdk_command(SERVER, options.to_json()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError('expected pipes')
        self._input, self._output = self.process.stdin, self.process.stdout
        self._expect('ready')

    def command(self, line: str) -> None:
        """Have something happen to the arm; return once it has.

        Raises:
            ConfigurationError: There is no such command, or the mock is gone.
        """
        self._input.write(line + '\n')
        self._input.flush()
        self._expect('ok')

    @property
    def record(self) -> list[dict[str, object]]:
        """What has happened to the arm, the oldest event first."""
        return read_journal(self.record_path)

    @property
    def stands_still(self) -> bool:
        """Whether the arm stands still, by its own record."""
        for event in reversed(self.record):
            if event['event'] in ('move', 'still'):
                return event['event'] == 'still'
        return True

    def close(self) -> None:
        """End it; idempotent."""
        for pipe in (self._input, self._output):
            pipe.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _expect(self, word: str) -> None:
        line = self._output.readline().strip()
        if line.partition(' ')[0] != word:
            if not line:
                self.close()
            raise ConfigurationError(f'mock Indy: {line or "it is gone"}: expected {word}')
