"""Recording a fleet into a trace."""

from lrtrace.record.message_classes import message_class
from lrtrace.record.recorder_node import ProgramNode, qos_profile, run_program

__all__ = [
    'ProgramNode',
    'message_class',
    'qos_profile',
    'run_program',
]
