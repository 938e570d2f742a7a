"""How a simulated world judged the tasks of a run, where one did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lrtrace.storage import Trace

STRING = 'std_msgs/msg/String'
TOPIC = '/world_events'

MOST_VERDICTS, MOST_LETTERS = 100_000, 300
"""No more verdicts are read, and no more of the reason of each."""


class WorldVerdict(NamedTuple):
    """Whether a task succeeded by the state of the world, and what decided that."""

    succeeded: bool
    why: str


def read_verdicts(trace: Trace) -> dict[str, WorldVerdict]:
    """Return the verdicts of a trace by plan id; none where no world judged.

    Raises:
        TraceError: The trace cannot be read.
    """
    found: dict[str, WorldVerdict] = {}
    for message in trace.messages(types=(STRING,)):
        if not message.topic.endswith(TOPIC) or len(found) >= MOST_VERDICTS:
            continue
        try:
            event = json.loads(message.value.data)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get('event') == 'verdict' and event.get('plan'):
            word, _, why = str(event.get('detail', '')).partition(': ')
            found[str(event['plan'])] = WorldVerdict(word == 'succeeded', why[:MOST_LETTERS])
    return found
