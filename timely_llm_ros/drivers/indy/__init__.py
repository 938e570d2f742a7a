"""The driver of Neuromeka Indy arms."""

from timely_llm_ros.drivers.indy.driver import IndyDriver
from timely_llm_ros.drivers.indy.environment import sdk_python
from timely_llm_ros.drivers.indy.options import IndyOptions

__all__ = [
    'IndyDriver', 'IndyOptions', 'sdk_python',
]  # fmt: skip
