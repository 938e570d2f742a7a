"""A simulated room with physics: drones fly, arms grip, people walk, and the world judges."""

from timely_llm_ros.world.aircraft import WorldAircraft
from timely_llm_ros.world.bays_file import read_bays, write_bays
from timely_llm_ros.world.event_log import EventLog
from timely_llm_ros.world.eyes import survey
from timely_llm_ros.world.judge import Verdict, WorldTask
from timely_llm_ros.world.layout import arrange
from timely_llm_ros.world.move_group import MoveGroup
from timely_llm_ros.world.options import Bay, Body, WorldOptions
from timely_llm_ros.world.table import ArmReach, JointController, arrange_table
from timely_llm_ros.world.world import World

__all__ = [
    'ArmReach', 'Bay', 'Body', 'EventLog', 'JointController', 'MoveGroup', 'Verdict', 'World',
    'WorldAircraft', 'WorldOptions', 'WorldTask', 'arrange', 'arrange_table', 'read_bays', 'survey',
    'write_bays',
]  # fmt: skip
