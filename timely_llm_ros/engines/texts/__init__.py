"""Tokenizers, and the grammars that constrain a model's tokens."""

from timely_llm_ros.engines.texts.loading import load_texts
from timely_llm_ros.engines.texts.plan_keeper import PlanKeeper, PlanKeepers, allow_all_or_none
from timely_llm_ros.engines.texts.prompt_tokens import PromptTokens
from timely_llm_ros.engines.texts.recent_plans import RecentPlans, WrittenPlan
from timely_llm_ros.engines.texts.server_texts import ServerTexts
from timely_llm_ros.engines.texts.text_stream import TextStream
from timely_llm_ros.engines.texts.token_codec import NO_FORCING, TokenCodec
from timely_llm_ros.engines.texts.token_texts import GrammarState, TokenTexts

__all__ = [
    'NO_FORCING', 'GrammarState', 'PlanKeeper', 'PlanKeepers', 'PromptTokens', 'RecentPlans',
    'ServerTexts', 'TextStream', 'TokenCodec', 'TokenTexts', 'WrittenPlan', 'allow_all_or_none',
    'load_texts',
]  # fmt: skip
