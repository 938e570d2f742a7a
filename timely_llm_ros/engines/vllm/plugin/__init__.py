"""The scheduler that runs inside vLLM's engine core, and what its clients need."""

from timely_llm_ros.engines.vllm.plugin.contract import (
    ASYNC_SCHEDULER,
    SCHEDULER,
    WORKER,
    check_contract,
    describe_range,
    installed,
    require_contract,
)
from timely_llm_ros.engines.vllm.plugin.core import FreezeCore, New, Work
from timely_llm_ros.engines.vllm.plugin.request import KEY, encode_request, encode_scene
from timely_llm_ros.engines.vllm.uncut_text import UNCUT_TEXT

__all__ = [
    'ASYNC_SCHEDULER', 'KEY', 'SCHEDULER', 'UNCUT_TEXT', 'WORKER', 'FreezeCore', 'New', 'Work',
    'check_contract', 'describe_range', 'encode_request', 'encode_scene', 'installed',
    'require_contract',
]  # fmt: skip
