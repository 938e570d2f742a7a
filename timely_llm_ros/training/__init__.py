"""Trains the predictors of lengths, on plans that the embedded planner generates."""

from timely_llm_ros.training.length_samples import (
    ALL_SIZES,
    LONGEST,
    LengthSample,
    draw_requests,
    generate_samples,
    read_samples,
    write_samples,
)
from timely_llm_ros.training.open_requests import DRAWN, SIZES, draw_open_requests
from timely_llm_ros.training.probe_training import (
    BINS,
    ProbeTraining,
    calibrated,
    probe_errors,
    remaining_lengths,
    train_probe,
)
from timely_llm_ros.training.rlp_predictor import train_rlp
from timely_llm_ros.training.rlp_samples import PROMPT_TOKENS, rlp_samples, target_embedding
from timely_llm_ros.training.rlp_training import (
    RlpTraining,
    body_weights,
    build_network,
    network_scores,
    train_network,
)

__all__ = [
    'ALL_SIZES', 'BINS', 'DRAWN', 'LONGEST', 'PROMPT_TOKENS', 'SIZES', 'LengthSample',
    'ProbeTraining', 'RlpTraining', 'body_weights', 'build_network', 'calibrated',
    'draw_open_requests', 'draw_requests', 'generate_samples', 'network_scores',
    'probe_errors', 'read_samples', 'remaining_lengths', 'rlp_samples', 'target_embedding',
    'train_network', 'train_probe', 'train_rlp', 'write_samples',
]  # fmt: skip
