"""Fits the step times of the hardware that a run was recorded on to the run itself.

A segment of ``n`` tokens, during which ``b`` generations ran on average and ``p`` prompts were
computed, took ``n q + n (b - 1) g + p c`` of engine time: a step of one generation takes ``q``, a
further generation adds ``g``, a prompt takes ``c``. Least squares over all segments find the three,
so ``c`` is the mean cost of a prompt, long or short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

from timely_llm_ros.engines.simulated import Hardware, StepTimeModel
from timely_llm_ros.errors import TraceError

if TYPE_CHECKING:
    from lrtrace.run import Run

_LEAST_STEP_S = 1e-6


def fit_hardware(run: Run, kv_tokens: int) -> Hardware:
    """Return the hardware of a recorded run, whose engine could hold ``kv_tokens`` of KV.

    Raises:
        TraceError: No segment in it tells how long its generation took.
    """
    rows, took_s = _observations(run)
    if not took_s.size:
        raise TraceError(
            f'trace {run.path!r}: no segment with tokens and a generation time: expected some to '
            'fit step times to; name the hardware instead'
        )
    step_s, further_s, prompt_s = map(float, nnls(rows, took_s)[0])
    step_s = max(step_s, _LEAST_STEP_S)
    return Hardware(
        StepTimeModel(
            decode_s=step_s,
            batch_factor=further_s / step_s,
            prefill_token_s=0.0,
            prefill_s=prompt_s,
        ),
        kv_tokens,
        f'fitted to the trace: {1e3 * step_s:.1f} ms a step, {1e3 * further_s:.2f} ms more for '
        f'each further generation in it, {1e3 * prompt_s:.1f} ms a prompt',
    )


def _observations(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Return the regressors (segments x 3) and the generation times (s)."""
    segments = [
        (segment.generated_s - segment.generation_s, segment.generated_s, segment)
        for task in run.tasks
        for segment in task.ordered_segments
        if segment.generated_s is not None and segment.tokens and segment.generation_s > 0
    ]
    if not segments:
        return np.empty((0, 3)), np.empty(0)
    starts_s = np.array([start_s for start_s, _, _ in segments])
    ends_s = np.array([end_s for _, end_s, _ in segments])
    tokens = np.array([float(segment.tokens) for _, _, segment in segments])
    took_s = ends_s - starts_s
    batch = _mean_running(starts_s, ends_s)
    prompts = np.sort([start_s for start_s, _, segment in segments if segment.index == 0])
    # Half a step of grace: who begins in the same step begins at the same time.
    grace_s = 0.5 * float(np.median(took_s / tokens))
    begun = np.searchsorted(prompts, ends_s - grace_s) - np.searchsorted(
        prompts, starts_s - grace_s
    )
    return np.column_stack([tokens, tokens * (batch - 1.0), begun]), took_s


def _mean_running(starts_s: np.ndarray, ends_s: np.ndarray) -> np.ndarray:
    """Return how many generations ran during each of some spans of time, itself included."""
    times_s = np.concatenate([starts_s, ends_s])
    changes = np.concatenate([np.ones_like(starts_s), -np.ones_like(ends_s)])
    order = np.argsort(times_s, kind='stable')
    times_s, running = times_s[order], np.cumsum(changes[order])
    area_s = np.concatenate([[0.0], np.cumsum(running[:-1] * np.diff(times_s))])
    spans_s = np.interp(ends_s, times_s, area_s) - np.interp(starts_s, times_s, area_s)
    running_on_average: np.ndarray = np.maximum(1.0, spans_s / (ends_s - starts_s))
    return running_on_average
