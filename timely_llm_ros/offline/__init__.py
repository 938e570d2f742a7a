"""Plans for many prompts at once, when no robot waits."""

from timely_llm_ros.offline.generate import BinOptions, generate
from timely_llm_ros.offline.length_features import LengthFeatures
from timely_llm_ros.offline.request_maker import RequestMaker

__all__ = [
    'BinOptions',
    'LengthFeatures',
    'RequestMaker',
    'generate',
]
