"""The engine ``openai``: plans from servers that are there already."""

from timely_llm_ros.engines.openai.completions import (
    PROBE_PLAN,
    Chunk,
    Completions,
    ServedModel,
    check_probe,
    grammar_probe,
)
from timely_llm_ros.engines.openai.config import OpenAIConfig
from timely_llm_ros.engines.openai.engine import OpenAIEngine
from timely_llm_ros.engines.openai.options import API_KEY_VARIABLE, ServerOptions, read_api_key
from timely_llm_ros.engines.openai.sequences import ServerSequences
from timely_llm_ros.engines.openai.served_times import measure_times, times_or_none
from timely_llm_ros.engines.openai.servers_engine import ServersEngine

__all__ = [
    'API_KEY_VARIABLE', 'PROBE_PLAN', 'Chunk', 'Completions', 'OpenAIConfig', 'OpenAIEngine',
    'ServedModel', 'ServerOptions', 'ServerSequences', 'ServersEngine', 'check_probe',
    'grammar_probe', 'measure_times', 'read_api_key', 'times_or_none',
]  # fmt: skip
