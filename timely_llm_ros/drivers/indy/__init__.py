"""The driver of Neuromeka Indy arms."""

from timely_llm_ros.drivers.indy.driver import IndyDriver
from timely_llm_ros.drivers.indy.environment import sdk_python

__all__ = [
    'IndyDriver',
    'sdk_python',
]
