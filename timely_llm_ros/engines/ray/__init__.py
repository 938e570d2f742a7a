"""The engine ``ray``: other engines as replicas on a Ray cluster."""

from timely_llm_ros.engines.ray.cluster import Replica, connect, replicas, scale
from timely_llm_ros.engines.ray.config import RayConfig, RayOptions
from timely_llm_ros.engines.ray.engine import RayEngine
from timely_llm_ros.engines.ray.replica import EngineReplica

__all__ = [
    'EngineReplica', 'RayConfig', 'RayEngine', 'RayOptions', 'Replica', 'connect', 'replicas',
    'scale',
]  # fmt: skip
