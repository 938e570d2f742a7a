"""What if the tasks of a trace had been served otherwise."""

from timely_llm_ros.evaluation.what_if.comparison import (
    ModelError,
    Outcome,
    model_error,
    outcome,
    table,
)
from timely_llm_ros.evaluation.what_if.figure import draw, require_matplotlib
from timely_llm_ros.evaluation.what_if.live import replay_live
from timely_llm_ros.evaluation.what_if.recorded import Recording, recording_of
from timely_llm_ros.evaluation.what_if.what_if import (
    AS_RECORDED,
    WhatIf,
    hardware_of,
    own_way,
    replay,
    what_ifs,
)

__all__ = [
    'AS_RECORDED', 'ModelError', 'Outcome', 'Recording', 'WhatIf', 'draw', 'hardware_of',
    'model_error', 'outcome', 'own_way', 'recording_of', 'replay', 'replay_live',
    'require_matplotlib', 'table', 'what_ifs',
]  # fmt: skip
