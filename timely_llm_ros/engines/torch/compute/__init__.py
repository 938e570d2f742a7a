"""What the torch engine computes; imports torch."""

from timely_llm_ros.engines.torch.compute.backend import TorchBackend
from timely_llm_ros.engines.torch.compute.eviction import find_method
from timely_llm_ros.engines.torch.compute.model import LoadedModel, load_model
from timely_llm_ros.engines.torch.compute.profile import BRIEF_STEPS, STEPS, TorchStopwatch
from timely_llm_ros.engines.torch.compute.requests import measure_requests
from timely_llm_ros.engines.torch.compute.static_batches import (
    Generated,
    StaticBatches,
    serve_continuously,
)

__all__ = [
    'BRIEF_STEPS', 'STEPS', 'Generated', 'LoadedModel', 'StaticBatches', 'TorchBackend',
    'TorchStopwatch', 'find_method', 'load_model', 'measure_requests', 'serve_continuously',
]  # fmt: skip
