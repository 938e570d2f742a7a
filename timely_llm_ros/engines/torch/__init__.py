"""The engine ``torch``: the embedded model in a process of its own."""

from timely_llm_ros.engines.torch.config import TorchConfig
from timely_llm_ros.engines.torch.engine import TorchEngine
from timely_llm_ros.engines.torch.lengths import FEW, RARE, StateReader
from timely_llm_ros.engines.torch.wire import FrameReader, frame

__all__ = [
    'FEW', 'RARE', 'FrameReader', 'StateReader', 'TorchConfig', 'TorchEngine', 'frame',
]  # fmt: skip
