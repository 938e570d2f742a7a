"""What each robot knows of its surroundings between goals: detections in, scenes out; no ROS."""

from timely_llm_ros.scene.detection import Detection, SceneOptions, Sighting
from timely_llm_ros.scene.known_scene import KnownScene

__all__ = ['Detection', 'KnownScene', 'SceneOptions', 'Sighting']
