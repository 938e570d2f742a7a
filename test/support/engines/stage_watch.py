"""A scheduler for vLLM that writes down how it composes steps; imported in vLLM's engine core."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.vllm.plugin.scheduler import TimelyScheduler
from timely_llm_ros.engines.vllm.plugin.token_budget import PipelineBudget

if TYPE_CHECKING:
    from timely_llm_ros.engines.vllm.plugin.token_budget import Composed

LOG_VARIABLE = 'TIMELY_TEST_STAGES'
"""Names the file that the steps are written to."""


class WatchedBudget(PipelineBudget):
    """Writes one line per step: what could take part, what does, and why."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._log = Path(os.environ[LOG_VARIABLE]).open('a', buffering=1)  # noqa: SIM115

    def compose(self, running: Any, entering: Any, now_s: float) -> Composed:
        step = super().compose(running, entering, now_s)
        costs = self.times.costs
        line = {
            'offered': len(running) + len(entering),
            'taken': len(step.running) + len(step.entering),
            'prompts': len(entering) + sum(_left(request) > 1 for request in running),
            'decoding': sum(_left(request) <= 1 for request in running),
            'contexts': sum(request.num_computed_tokens for request in running),
            'micro_batches': self.micro_batches,
            'costs': None if costs is None else asdict(costs),
        }
        self._log.write(json.dumps(line) + '\n')
        return step


def _left(request: Any) -> int:
    tokens = request.num_tokens_with_spec + request.num_output_placeholders
    return int(tokens - request.num_computed_tokens)


class WatchedScheduler(TimelyScheduler):
    """Our scheduler, with that budget."""

    pipeline_budget = WatchedBudget
