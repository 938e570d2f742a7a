"""A model before it is loaded: its files, how its tokens are chosen, how long prompts are."""

from timely_llm_ros.engines.tokens.adapters import (
    ADAPTER_WEIGHTS,
    ADAPTERS,
    Adapter,
    find_adapter,
    find_adapters,
)
from timely_llm_ros.engines.tokens.model_files import (
    PREDICTORS,
    SHIPPED_MODEL,
    find_model,
    require_model_files,
)
from timely_llm_ros.engines.tokens.prompt_size import PromptSize
from timely_llm_ros.engines.tokens.sampling import MAX_SEED, Sampling
from timely_llm_ros.engines.tokens.special_tokens import read_as_text
from timely_llm_ros.engines.tokens.stop_strings import (
    StopText,
    check_stop_strings,
    own_stop_strings,
)

__all__ = [
    'ADAPTERS', 'ADAPTER_WEIGHTS', 'MAX_SEED', 'PREDICTORS', 'SHIPPED_MODEL', 'Adapter',
    'PromptSize', 'Sampling', 'StopText', 'check_stop_strings', 'find_adapter',
    'find_adapters', 'find_model', 'own_stop_strings', 'read_as_text', 'require_model_files',
]  # fmt: skip
