"""What robots see: what their cameras tell, and pictures from them."""

from timely_llm_ros.world.eyes.camera import RANGE_M, WIDE_RAD, Camera, Seen, Told, survey
from timely_llm_ros.world.eyes.pictures import Photographer

__all__ = [
    'RANGE_M', 'WIDE_RAD', 'Camera', 'Photographer', 'Seen', 'Told', 'survey',
]  # fmt: skip
