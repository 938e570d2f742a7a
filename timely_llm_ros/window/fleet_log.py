"""Keeps what a page has to be told that comes late: states as they are, and the last tasks."""

from __future__ import annotations

import json
import math
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from timely_llm_ros.window.fleet_events import Event

MOST_TASKS = 300
"""Tasks that are remembered; those that have ended go first, the oldest before all."""

MOST_EVENTS_OF_A_TASK = 600
MOST_STATES = 4000
"""States that are remembered: a robot has four, and robots come by name from anybody."""

SAMPLE_PERIOD_S, MOST_SAMPLES = 0.2, 1800
"""The engine's load is remembered twice in this time (s), and so many of these are."""

_OF_ROBOTS = ('robot', 'pose', 'way', 'body')
_SAMPLED = ('running', 'queued', 'suspended', 'held')


class FleetLog:
    """Takes every event of a fleet; :meth:`events` returns those that still matter, in order."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], Event] = {}
        self._tasks: dict[str, list[Event]] = {}
        self._ended: dict[str, None] = {}
        self._samples: deque[Event] = deque(maxlen=MOST_SAMPLES)

    def take(self, event: Event) -> None:
        """Take an event with its time ``t`` (s)."""
        kind = event['event']
        if kind in _OF_ROBOTS:
            self._keep(kind, event['robot'], event)
            if kind == 'pose' and ('start', event['robot']) not in self._states:
                # What a robot knows lies so from there.
                self._keep('start', event['robot'], event)
        elif kind == 'unapproved':
            self._keep(kind, '', event)
        elif kind == 'things':
            self._keep(kind, event['source'], event)
        elif kind == 'scheduler':
            self._sample(event)
            self._keep(kind, '', event)
        elif kind in ('task', 'segment'):
            self._take_task(event)

    def events(self) -> list[Event]:
        """Return what a page needs that knows nothing yet, in the order of time."""
        found = [event for events in self._tasks.values() for event in events]
        found += self._samples
        found += self._states.values()
        return sorted(found, key=lambda event: float(event['t']))

    def _keep(self, kind: str, name: str, event: Event) -> None:
        if (kind, name) in self._states or len(self._states) < MOST_STATES:
            self._states[kind, name] = event

    def _sample(self, event: Event) -> None:
        samples = self._samples
        if samples and event['t'] < samples[-1]['t']:
            # The clock of a simulation began anew.
            samples.clear()
        if len(samples) > 1 and event['t'] - samples[-2]['t'] < SAMPLE_PERIOD_S:
            # The last holds until the next: an engine that came to rest must not be left out.
            samples.pop()
        told = {name: event[name] for name in _SAMPLED}
        samples.append({'event': 'load', 't': event['t'], **told})

    def _take_task(self, event: Event) -> None:
        plan = event['plan']
        events = self._tasks.setdefault(plan, [])
        if len(events) < MOST_EVENTS_OF_A_TASK:
            events.append(event)
        if event.get('what') in ('ended', 'refused'):
            self._ended[plan] = None
        if len(self._tasks) > MOST_TASKS:
            oldest = next(iter(self._ended or self._tasks))
            self._ended.pop(oldest, None)
            del self._tasks[oldest]


def to_text(value: Any) -> str:
    """Return JSON that every browser reads: a number that is not finite becomes null."""
    try:
        return json.dumps(value, separators=(',', ':'), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(',', ':'), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
