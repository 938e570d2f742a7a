"""How long a model takes: measured, fitted, kept in files."""

from timely_llm_ros.prediction.times.execution_time import (
    DecodeCoefficients,
    ExecutionTimeModel,
    Margin,
    TimeCoefficients,
    decode_at,
)
from timely_llm_ros.prediction.times.fitting import nonnegative_least_squares
from timely_llm_ros.prediction.times.profile_file import Profile, read_profile, write_profile
from timely_llm_ros.prediction.times.profiling import (
    PrefillPoint,
    ProfileErrors,
    ProfilePlan,
    RequestOverhead,
    SizeErrors,
    StepPoint,
    Timings,
    expected_s,
    fit_profile,
    measure,
    profile_errors,
)

__all__ = [
    'DecodeCoefficients', 'ExecutionTimeModel', 'Margin', 'PrefillPoint', 'Profile',
    'ProfileErrors', 'ProfilePlan', 'RequestOverhead', 'SizeErrors', 'StepPoint',
    'TimeCoefficients', 'Timings', 'decode_at', 'expected_s', 'fit_profile',
    'measure', 'nonnegative_least_squares', 'profile_errors', 'read_profile', 'write_profile',
]  # fmt: skip
