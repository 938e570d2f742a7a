"""Multi-bin batching."""

from benchmarks.multibin.theory import carried_throughput, error_service_s, uniform_throughput

__all__ = [
    'carried_throughput', 'error_service_s', 'uniform_throughput',
]  # fmt: skip
