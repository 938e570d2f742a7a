"""How long a plan will be: from its prompt, and while it is written."""

from timely_llm_ros.prediction.lengths.length_bins import LengthBins
from timely_llm_ros.prediction.lengths.length_filter import LengthFilter
from timely_llm_ros.prediction.lengths.length_forecast import (
    PREDICTORS,
    EmpiricalLengths,
    LengthForecast,
    LengthPredictor,
    find_predictor,
)
from timely_llm_ros.prediction.lengths.probe import (
    EVERY,
    PROBE_NAME,
    ProbeSettings,
    RemainingLengthProbe,
    read_probe,
    write_probe,
)
from timely_llm_ros.prediction.lengths.response_length import (
    LengthDistribution,
    bucket_of,
    pessimistic_length,
)
from timely_llm_ros.prediction.lengths.rlp import (
    RLP_NAME,
    ResponseLengthModel,
    RlpSettings,
    read_rlp,
    write_rlp,
)
from timely_llm_ros.prediction.lengths.rlp_calibration import bucket_prior, calibrate
from timely_llm_ros.prediction.lengths.rlp_network import BodyShape, SmallBody
from timely_llm_ros.prediction.lengths.rlp_prompt import compress_prompt

__all__ = [
    'EVERY', 'PREDICTORS', 'PROBE_NAME', 'RLP_NAME', 'BodyShape', 'EmpiricalLengths', 'LengthBins',
    'LengthDistribution', 'LengthFilter', 'LengthForecast', 'LengthPredictor', 'ProbeSettings',
    'RemainingLengthProbe', 'ResponseLengthModel', 'RlpSettings', 'SmallBody', 'bucket_of',
    'bucket_prior', 'calibrate', 'compress_prompt', 'find_predictor',
    'pessimistic_length', 'read_probe', 'read_rlp', 'write_probe', 'write_rlp',
]  # fmt: skip
