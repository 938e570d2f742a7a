"""vLLM with our scheduler beside vLLM without."""

from benchmarks.vllm.clients import SETTLE_S, Jobs, Stock, arguments, forget_prefixes
from benchmarks.vllm.contention import settings, ways_of
from benchmarks.vllm.fleet import BUSY, URGENT_SHARE

__all__ = [
    'BUSY', 'SETTLE_S', 'URGENT_SHARE', 'Jobs', 'Stock', 'arguments', 'forget_prefixes', 'settings',
    'ways_of',
]  # fmt: skip
