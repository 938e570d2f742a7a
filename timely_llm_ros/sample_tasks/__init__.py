"""Tasks, scenes and right plans, drawn from a seed."""

from timely_llm_ros.sample_tasks.generator import (
    KINDS,
    TaskSample,
    Wordings,
    ask,
    sample_scene,
    sample_task,
)
from timely_llm_ros.sample_tasks.scenes import is_held_out
from timely_llm_ros.sample_tasks.wordings import CORES, MODIFIERS
from timely_llm_ros.sample_tasks.words import (
    ATTRIBUTES,
    BLOCKS,
    CONTAINERS,
    DRONE_KINDS,
    FRUITS,
    LITTER,
    SUPPORTS,
    SURFACES,
    VEGETABLES,
    plural,
)

__all__ = [
    'ATTRIBUTES', 'BLOCKS', 'CONTAINERS', 'CORES', 'DRONE_KINDS', 'FRUITS', 'KINDS', 'LITTER',
    'MODIFIERS', 'SUPPORTS', 'SURFACES', 'VEGETABLES', 'TaskSample', 'Wordings', 'ask',
    'is_held_out', 'plural', 'sample_scene', 'sample_task',
]  # fmt: skip
