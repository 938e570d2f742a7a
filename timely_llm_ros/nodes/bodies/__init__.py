"""What ROS hears of simulated bodies: where they are, what they see, what happens to them."""

from timely_llm_ros.nodes.bodies.topics import BodyTopics, ShownThing, serve_bodies

__all__ = [
    'BodyTopics', 'ShownThing', 'serve_bodies',
]  # fmt: skip
