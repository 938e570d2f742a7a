"""The options of the torch engine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar

from timely_llm_ros.engines.config import LocalOptions, ModelConfig, StepOptions
from timely_llm_ros.engines.tokens import Sampling
from timely_llm_ros.options import option
from timely_llm_ros.scheduling import SchedulingOptions

GPU_CHUNK = 2048
"""What ``prefill_chunk`` 0 stands for where no CPU computes: vLLM's."""


@dataclass(frozen=True, kw_only=True)
class TorchConfig(StepOptions, LocalOptions, ModelConfig):
    """Options of :class:`TorchEngine`."""

    name: ClassVar[str] = 'torch'

    device: str = option('cpu', 'Where torch computes, e.g. cpu or cuda.')

    @property
    def chunk(self) -> int:
        """Most prompt tokens in one step: more where no CPU computes."""
        on_cpu = self.device.partition(':')[0] == 'cpu'
        return super().chunk if on_cpu else self.prefill_chunk or GPU_CHUNK

    @classmethod
    def from_json(cls, text: str) -> TorchConfig:
        """Read what :meth:`to_json` wrote."""
        values = json.loads(text)
        nested = {
            'scheduling': SchedulingOptions(**values['scheduling']),
            'sampling': Sampling(**values['sampling']),
            'stop_strings': tuple(values['stop_strings']),
        }
        return cls(**values | nested)

    def to_json(self) -> str:
        """Write the options for the worker's command line."""
        return json.dumps(asdict(self))
