"""Fakes and mocks for the tests of whoever builds on this package."""

from timely_llm_ros.testing.jointed_arm import POSES, SKILLS, LocalJoints
from timely_llm_ros.testing.ros_domain import free_domain

__all__ = [
    'POSES',
    'SKILLS',
    'LocalJoints',
    'free_domain',
]
