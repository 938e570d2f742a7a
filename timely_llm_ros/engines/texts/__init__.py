"""Token ids to text and back, with the grammar that constrains them."""

from timely_llm_ros.engines.texts.loading import load_texts
from timely_llm_ros.engines.texts.prompt_tokens import PromptTokens
from timely_llm_ros.engines.texts.server_texts import ServerTexts
from timely_llm_ros.engines.texts.text_stream import TextStream
from timely_llm_ros.engines.texts.token_texts import GrammarState, TokenTexts

__all__ = [
    'GrammarState', 'PromptTokens', 'ServerTexts', 'TextStream', 'TokenTexts', 'load_texts',
]  # fmt: skip
