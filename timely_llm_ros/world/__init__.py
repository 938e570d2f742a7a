"""A simulated room with physics: drones fly, people walk, cameras see, and the world judges."""

from timely_llm_ros.world.aircraft import WorldAircraft
from timely_llm_ros.world.bays_file import read_bays, write_bays
from timely_llm_ros.world.camera import survey
from timely_llm_ros.world.event_log import EventLog
from timely_llm_ros.world.judge import Verdict, WorldTask
from timely_llm_ros.world.layout import arrange
from timely_llm_ros.world.options import Bay, WorldOptions
from timely_llm_ros.world.world import World

__all__ = [
    'Bay', 'EventLog', 'Verdict', 'World', 'WorldAircraft', 'WorldOptions',
    'WorldTask', 'arrange', 'read_bays', 'survey', 'write_bays',
]  # fmt: skip
