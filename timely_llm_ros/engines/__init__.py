"""Engines: what produces plans, behind one protocol."""

from timely_llm_ros.engines.commands import (
    Cancel,
    Command,
    GenerationRequest,
    Reschedule,
    Resume,
    RobotIdleAt,
    Submit,
    Suspend,
    Warm,
)
from timely_llm_ros.engines.config import EngineConfig, ModelConfig, StepOptions
from timely_llm_ros.engines.engine import (
    MEASURING,
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
    SegmentGenerated,
)
from timely_llm_ros.engines.openai import OpenAIConfig, OpenAIEngine, ServerOptions
from timely_llm_ros.engines.ray import RayConfig, RayOptions
from timely_llm_ros.engines.registry import ENGINES, create_engine, find_engine
from timely_llm_ros.engines.simulated import SimulatedConfig
from timely_llm_ros.engines.torch import TorchConfig
from timely_llm_ros.engines.vllm import VllmConfig

__all__ = [
    'ENGINES', 'MEASURING', 'Cancel', 'Command', 'EndReason', 'Engine', 'EngineConfig',
    'EngineEvent', 'EngineFailed', 'EngineInfo', 'EngineReady', 'EngineState', 'EngineStateChanged',
    'EvictionDecided', 'GenerationEnded', 'GenerationRequest', 'ModelConfig', 'OpenAIConfig',
    'OpenAIEngine', 'RayConfig', 'RayOptions', 'Reschedule', 'Resume', 'RobotIdleAt',
    'SegmentGenerated', 'ServerOptions', 'SimulatedConfig', 'StepOptions', 'Submit', 'Suspend',
    'TorchConfig', 'VllmConfig', 'Warm', 'create_engine', 'find_engine',
]  # fmt: skip
