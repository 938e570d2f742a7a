"""Prompts: what a model is told of a robot, its skills, its surroundings and its task."""

from timely_llm_ros.prompts.loading import load_prompts, tuned_template, untaught
from timely_llm_ros.prompts.model_prompts import ModelPrompts
from timely_llm_ros.prompts.prompts import Prompts, TersePrompts

__all__ = [
    'ModelPrompts', 'Prompts', 'TersePrompts', 'load_prompts', 'tuned_template', 'untaught',
]  # fmt: skip
