"""Fakes and mocks for the tests of whoever builds on this package.

``in_fleet`` runs a test with a planner, an engine and robots on virtual time: hours of flight pass
in milliseconds, and every time is exact. ``docs/reference/api.md`` shows a test of each kind.
"""

from timely_llm_ros.drivers.indy.mock import MockIndy
from timely_llm_ros.drivers.tello.mock import MockTello
from timely_llm_ros.drivers.trajectory.mock import JointBody
from timely_llm_ros.testing.exact_skills import EXACT_SCENE, EXACT_SKILLS, acts
from timely_llm_ros.testing.fleet import Fleet, in_fleet, make_fleet
from timely_llm_ros.testing.jointed_arm import (
    JOINTED_HOME,
    JOINTED_POSES,
    JOINTED_SKILLS,
    JOINTED_YAML,
    LocalJoints,
)
from timely_llm_ros.testing.recording_driver import Note, RecordingDriver
from timely_llm_ros.testing.ros_domain import free_domain
from timely_llm_ros.testing.scripted_engine import Script, ScriptedEngine, by_instruction
from timely_llm_ros.virtual_time import run_virtual

__all__ = [
    'EXACT_SCENE', 'EXACT_SKILLS', 'JOINTED_HOME', 'JOINTED_POSES', 'JOINTED_SKILLS',
    'JOINTED_YAML', 'Fleet', 'JointBody', 'LocalJoints', 'MockIndy', 'MockTello', 'Note',
    'RecordingDriver', 'Script', 'ScriptedEngine', 'acts', 'by_instruction', 'free_domain',
    'in_fleet', 'make_fleet', 'run_virtual',
]  # fmt: skip
