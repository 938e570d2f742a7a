"""Tasks, scenes and right plans, drawn from a seed."""

from timely_llm_ros.sample_tasks.generator import (
    ALSO_OF,
    KINDS,
    TaskSample,
    Wordings,
    ask,
    kinds_of,
    sample_scene,
    sample_task,
)
from timely_llm_ros.sample_tasks.scenes import is_held_out
from timely_llm_ros.sample_tasks.wordings import CORES, MODIFIERS
from timely_llm_ros.sample_tasks.words import (
    ANIMALS,
    ATTRIBUTES,
    BLOCKS,
    CONTAINERS,
    DRONE_KINDS,
    FRUITS,
    LITTER,
    OBSTACLES,
    PEOPLE,
    SUPPORTS,
    SURFACES,
    VEGETABLES,
    plural,
)

__all__ = [
    'ALSO_OF', 'ANIMALS', 'ATTRIBUTES', 'BLOCKS', 'CONTAINERS', 'CORES', 'DRONE_KINDS', 'FRUITS',
    'KINDS', 'LITTER', 'MODIFIERS', 'OBSTACLES', 'PEOPLE', 'SUPPORTS', 'SURFACES', 'VEGETABLES',
    'TaskSample', 'Wordings', 'ask', 'is_held_out', 'kinds_of', 'plural', 'sample_scene',
    'sample_task',
]  # fmt: skip
