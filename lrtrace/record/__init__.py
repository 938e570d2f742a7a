"""Records a fleet into a trace, and holds what the replay shares with the recorder."""

from lrtrace.record.message_classes import message_class
from lrtrace.record.program_node import ProgramNode, run_program
from lrtrace.record.qos import qos_profile
from lrtrace.record.recorder_parameters import RecorderParameters

__all__ = [
    'ProgramNode', 'RecorderParameters', 'message_class', 'qos_profile', 'run_program',
]  # fmt: skip
