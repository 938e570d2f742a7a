"""What-if replays: recorded tasks are served again by the real planner on virtual time.

The arrivals, the robots, the time utilities, the tokens of every segment and how long each robot
took are those of the trace; the engine is simulated. ``docs/how_to/replay.md`` says what that
leaves out.
"""

from lrtrace.replay.recorded import RecordedTask, Recording, recording_of
from lrtrace.replay.what_if import WhatIf, own_way, replay, what_ifs

__all__ = ['RecordedTask', 'Recording', 'WhatIf', 'own_way', 'recording_of', 'replay', 'what_ifs']
