"""The engine ``vllm``: our scheduler inside vLLM."""

from timely_llm_ros.engines.vllm.config import VllmConfig
from timely_llm_ros.engines.vllm.engine import VllmEngine
from timely_llm_ros.engines.vllm.fallback import VllmWithFallback
from timely_llm_ros.engines.vllm.model_folder import ModelFolder
from timely_llm_ros.engines.vllm.server import ServeOptions
from timely_llm_ros.engines.vllm.start import hear_no_more, prepare_environment

__all__ = [
    'ModelFolder', 'ServeOptions', 'VllmConfig', 'VllmEngine', 'VllmWithFallback',
    'hear_no_more', 'prepare_environment',
]  # fmt: skip
