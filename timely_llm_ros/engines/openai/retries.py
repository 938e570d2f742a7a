"""When a request that failed is repeated, and when it is given up."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.errors import ServerBusyError

if TYPE_CHECKING:
    from timely_llm_ros.errors import ServerLostError

LAST_PAUSE_S = 15.0
"""Longest pause before a request is repeated (s), whatever its server asks for."""

MOST_FRUITLESS = 5
"""Requests in a row that may bring a generation nothing before it ends with an error."""

HERE_AGAIN = 1
"""How often in a row something that fails is repeated where it failed."""

SLOW_S = 1.0
"""A failure that took longer (s), or would, is not repeated where it happened: it costs again."""


def is_untrusted(error: BaseException | None) -> bool:
    """Return whether a certificate that cannot be verified caused an error; no retry mends that."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


@dataclass(slots=True)
class Trouble:
    """What went wrong with a generation's requests since its last token.

    Attributes:
        since_s: When it began.
        tries: Requests in a row that failed.
        fruitless: Those of them that brought nothing and that the server did not merely put off.
        until_s: When the next request may be sent.
    """

    since_s: float
    tries: int = 0
    fruitless: int = 0
    until_s: float = 0.0

    def add(self, error: ServerLostError, *, begun: bool) -> None:
        """Count a request that failed; ``begun`` where it had brought tokens."""
        self.tries += 1
        self.fruitless += not (begun or isinstance(error, ServerBusyError))

    def end(self, error: ServerLostError, now_s: float, give_up_s: float) -> str:
        """Return why the generation must end; '' where its request is repeated."""
        if self.fruitless >= MOST_FRUITLESS:
            return f'{self.fruitless} requests brought no token; the last: {error}'
        if isinstance(error, ServerBusyError) and now_s > self.since_s + give_up_s:
            return f'put off for {give_up_s:g} s: {error}'
        return ''

    def pause_s(
        self, error: ServerLostError, *, begun: bool, first_s: float, due_s: float
    ) -> float:
        """Return how long to wait before the request is repeated (s).

        Not at all where a stream broke that had begun. Else as long as the server asks, drawn a
        little longer so that generations do not come all at once; but where that is past the time
        at which a segment is due, only until then, or for the pauses that double from one failure
        to the next.

        Args:
            error: Why it failed.
            begun: Whether it had brought tokens.
            first_s: The first pause where the server asks for none (s).
            due_s: In how long the next segment is due (s).
        """
        asked_s = error.retry_after_s if isinstance(error, ServerBusyError) else None
        if begun and not isinstance(error, ServerBusyError):
            return 0.0
        usual_s = first_s * 2.0 ** min(self.tries - 1, 16) * random.uniform(0.5, 1.0)
        wanted_s = usual_s if asked_s is None else asked_s * random.uniform(1.0, 1.25)
        if wanted_s > due_s:
            wanted_s = max(due_s, min(usual_s, wanted_s))
        return min(LAST_PAUSE_S, wanted_s)
