"""What engines know of a model before it is loaded: files, sampling, sizes of prompts."""

from timely_llm_ros.engines.tokens.model_files import (
    PREDICTORS,
    SHIPPED_MODEL,
    find_model,
    require_model_files,
)
from timely_llm_ros.engines.tokens.prompt_size import PromptSize
from timely_llm_ros.engines.tokens.sampling import MAX_SEED, MAX_TEMPERATURE, Sampling

__all__ = [
    'MAX_SEED', 'MAX_TEMPERATURE', 'PREDICTORS', 'SHIPPED_MODEL', 'PromptSize', 'Sampling',
    'find_model', 'require_model_files',
]  # fmt: skip
