"""The engine ``vllm``: our scheduler inside vLLM."""

from timely_llm_ros.engines.vllm.config import VllmConfig
from timely_llm_ros.engines.vllm.engine import VllmEngine
from timely_llm_ros.engines.vllm.fallback import VllmChoice
from timely_llm_ros.engines.vllm.server import ServeOptions
from timely_llm_ros.engines.vllm.start import prepare_environment
from timely_llm_ros.engines.vllm.text import load_texts

__all__ = [
    'ServeOptions',
    'VllmChoice',
    'VllmConfig',
    'VllmEngine',
    'load_texts',
    'prepare_environment',
]
