"""The experiments by name."""

from __future__ import annotations

from benchmarks.timelyllm.figures import (
    admission,
    arms,
    batch_sweep,
    bounds,
    chat,
    end_to_end,
    overheads,
    policies,
    time_trace,
)

EXPERIMENTS = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        end_to_end,
        time_trace,
        batch_sweep,
        policies,
        arms,
        chat,
        overheads,
        bounds,
        admission,
    )
}
