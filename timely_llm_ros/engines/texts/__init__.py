"""Token ids to text and back, with the grammar that constrains them."""

from timely_llm_ros.engines.texts.server_texts import ServerTexts
from timely_llm_ros.engines.texts.text_stream import TextStream
from timely_llm_ros.engines.texts.token_texts import GrammarState, TokenTexts

__all__ = [
    'GrammarState',
    'ServerTexts',
    'TextStream',
    'TokenTexts',
]
