"""Generated text becomes segments here: the moment a statement or a sentence is complete."""

from timely_llm_ros.skills.segments.by_skill_set import read_statements, segmenter_for
from timely_llm_ros.skills.segments.fallback import ANY_KIND, fallback_segments
from timely_llm_ros.skills.segments.free_text_segmenter import FORBIDDEN_CHARACTERS
from timely_llm_ros.skills.segments.segment import Segment
from timely_llm_ros.skills.segments.text_segmenter import TextSegmenter

__all__ = [
    'ANY_KIND', 'FORBIDDEN_CHARACTERS', 'Segment', 'TextSegmenter', 'fallback_segments',
    'read_statements', 'segmenter_for',
]  # fmt: skip
