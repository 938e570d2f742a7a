"""Engines: what produces plans, behind one protocol."""

from timely_llm_ros.engines.config import EngineConfig, ModelConfig, StepOptions
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
from timely_llm_ros.engines.registry import ENGINES, create_engine, find_engine

__all__ = [
    'ENGINES',
    'EndReason',
    'Engine',
    'EngineConfig',
    'EngineEvent',
    'EngineFailed',
    'EngineInfo',
    'EngineReady',
    'EngineState',
    'EngineStateChanged',
    'EvictionDecided',
    'GenerationEnded',
    'GenerationRequest',
    'ModelConfig',
    'SegmentGenerated',
    'StepOptions',
    'create_engine',
    'find_engine',
]
