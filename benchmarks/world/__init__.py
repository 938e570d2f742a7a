"""Robots in a world with physics: how fast it is, and what succeeds in it."""

from benchmarks.world.arm_driver import ArmDriver
from benchmarks.world.driver import WorldDriver, live

__all__ = ['ArmDriver', 'WorldDriver', 'live']
