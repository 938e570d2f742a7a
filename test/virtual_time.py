"""The package's virtual-time loop, under the name that tests know it by."""

from __future__ import annotations

from timely_llm_ros.virtual_time import VirtualTimeLoop, run_virtual

__all__ = ['VirtualTimeLoop', 'run_virtual']
