"""vLLM with our scheduler beside vLLM without."""

from benchmarks.vllm.contention import settings, ways_of
from benchmarks.vllm.fleet import BUSY, URGENT_SHARE

__all__ = [
    'BUSY', 'URGENT_SHARE', 'settings', 'ways_of',
]  # fmt: skip
