"""What the recorder says of itself in its diagnostics, its log and its last line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timely_llm_ros.ros import Metric

if TYPE_CHECKING:
    from timely_llm_ros.ros import Samples

NAMED = 3
"""A line names this many topics."""


@dataclass(frozen=True, slots=True)
class RecorderCounts:
    """What was recorded so far, and what was not."""

    folder: str = ''
    messages: int = 0
    topics: int = 0
    files: int = 0
    backlog_bytes: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Messages for which there was no room, by topic."""

    lost: Counter[str] = field(default_factory=Counter)
    """Messages that the middleware lost, by topic."""

    failure: str = ''
    """Why the trace cannot be written on; empty if it can."""

    @property
    def missing_text(self) -> str:
        """How many messages are not in the trace, and of which topics; empty if none."""
        return ', '.join(
            f'{count.total()} {how} ({_most(count)})'
            for count, how in (
                (self.dropped, 'dropped for want of room'),
                (self.lost, 'lost by the middleware'),
            )
            if count
        )


def summary_line(counts: RecorderCounts) -> str:
    """Say in one line what was recorded."""
    files = f' in {counts.files} files' if counts.files > 1 else ''
    missing = f', {counts.missing_text}' if counts.missing_text else ''
    return f'{counts.folder}: {counts.messages} messages of {counts.topics} topics{files}{missing}'


def health(counts: RecorderCounts, *, active: bool) -> tuple[int, str, dict[str, str]]:
    """Return level (0 to 2), message and values of a recorder's diagnostic status (REP-107).

    Missing messages are a warning until the recording ends, and so is a recorder that does not
    record.
    """
    level, message = (0, 'recording') if active else (1, 'inactive: it was not activated')
    if counts.missing_text:
        level, message = 1, f'not recorded: {counts.missing_text}'
    if counts.failure:
        level, message = 2, counts.failure
    values = {
        'folder': counts.folder,
        'messages': counts.messages,
        'topics': counts.topics,
        'files': counts.files,
        'backlog_bytes': counts.backlog_bytes,
        'dropped_messages': counts.dropped.total(),
        'lost_messages': counts.lost.total(),
    }
    return level, message, {name: str(value) for name, value in values.items()}


MESSAGES = Metric('timely_recorder_messages_total', 'counter', 'Messages in the trace.')
TOPICS = Metric('timely_recorder_topics', 'gauge', 'Topics that are recorded.')
FILES = Metric('timely_recorder_files', 'gauge', 'Files of the trace.')
BACKLOG = Metric('timely_recorder_backlog_bytes', 'gauge', 'What waits to be written.')
DROPPED = Metric(
    'timely_recorder_dropped_messages_total', 'counter', 'Messages for which there was no room.'
)
LOST = Metric(
    'timely_recorder_lost_messages_total', 'counter', 'Messages that the middleware lost.'
)

RECORDER_METRICS = (MESSAGES, TOPICS, FILES, BACKLOG, DROPPED, LOST)
"""Every metric of a recorder."""


def recorder_samples(counts: RecorderCounts) -> Samples:
    """Return what a recorder tells Prometheus."""
    values = (
        counts.messages,
        counts.topics,
        counts.files,
        counts.backlog_bytes,
        counts.dropped.total(),
        counts.lost.total(),
    )
    return {metric: [((), value)] for metric, value in zip(RECORDER_METRICS, values, strict=True)}


def _most(count: Counter[str]) -> str:
    named = ', '.join(f'{topic} {number}' for topic, number in count.most_common(NAMED))
    more = len(count) - NAMED
    return f'{named} and {more} other topics' if more > 0 else named
