"""Engines: what produces plans, behind one protocol."""

from timely_llm_ros.engines.engine import (
    EndReason,
    Engine,
    EngineEvent,
    EngineFailed,
    EngineInfo,
    EngineReady,
    EngineState,
    EngineStateChanged,
    EvictionDecided,
    GenerationEnded,
    GenerationRequest,
    SegmentGenerated,
)
from timely_llm_ros.engines.registry import ENGINES, create_engine

__all__ = [
    'ENGINES',
    'EndReason',
    'Engine',
    'EngineEvent',
    'EngineFailed',
    'EngineInfo',
    'EngineReady',
    'EngineState',
    'EngineStateChanged',
    'EvictionDecided',
    'GenerationEnded',
    'GenerationRequest',
    'SegmentGenerated',
    'create_engine',
]
