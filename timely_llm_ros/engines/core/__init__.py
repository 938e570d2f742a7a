"""The heart that engines share: table, scheduler, KV account, segmenters, events."""

from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.drafting import DraftCosts
from timely_llm_ros.engines.core.eviction import EvictionMethod, EvictionName
from timely_llm_ros.engines.core.generations import REPEATED, STATE_PERIOD_S, Generations
from timely_llm_ros.engines.core.kv_account import ForeignKv, ForeignMemory, KvAccount
from timely_llm_ros.engines.core.kv_ledger import KvLedger, Prefix
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.core.options import PREFILL_CHUNK, CoreOptions
from timely_llm_ros.engines.core.reading import read_ahead
from timely_llm_ros.engines.core.step import Generation, Output, PrefixRow, Row, StepPlan
from timely_llm_ros.engines.core.step_size import StepSize

__all__ = [
    'PREFILL_CHUNK', 'REPEATED', 'STATE_PERIOD_S', 'CoreOptions', 'DraftCosts', 'EngineCore',
    'EvictionMethod', 'EvictionName', 'ForeignKv', 'ForeignMemory', 'Generation', 'Generations',
    'KvAccount', 'KvLedger', 'LanedCore', 'Output', 'Prefix', 'PrefixRow', 'Row', 'StepPlan',
    'StepSize', 'read_ahead',
]  # fmt: skip
