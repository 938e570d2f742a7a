"""What runs inside vLLM's engine core, and what a client must know of it."""

from timely_llm_ros.engines.vllm.plugin.contract import (
    ASYNC_SCHEDULER,
    SCHEDULER,
    describe_range,
    installed,
    require_contract,
)
from timely_llm_ros.engines.vllm.plugin.core import FreezeCore, New, Work
from timely_llm_ros.engines.vllm.plugin.request import KEY, encode_request
from timely_llm_ros.engines.vllm.plugin.uncut import UNCUT

__all__ = [
    'ASYNC_SCHEDULER', 'KEY', 'SCHEDULER', 'UNCUT', 'FreezeCore', 'New', 'Work', 'describe_range',
    'encode_request', 'installed', 'require_contract',
]  # fmt: skip
