"""Teaches a general model one skill set's plans: LoRA, with peft and transformers' Trainer."""

from timely_llm_ros.training.tuning.samples import PlanSample, drawn_samples, read_samples
from timely_llm_ros.training.tuning.tune import TuneOptions, require_packages, saved_step, tune

__all__ = [
    'PlanSample', 'TuneOptions', 'drawn_samples', 'read_samples', 'require_packages', 'saved_step',
    'tune',
]  # fmt: skip
