"""Skill sets out of YAML: whole ones, and overlays of measured durations."""

from timely_llm_ros.skills.loading.load import find_skill_set, load_skill_set, parse_skill_set
from timely_llm_ros.skills.loading.overlay_yaml import (
    MAX_PATH_LENGTH,
    MAX_RATIO,
    MAX_TRACES,
    QUANTILES,
    quantile_key,
)
from timely_llm_ros.skills.loading.skill_files import (
    find_skill_file,
    is_skill_path,
    read_skill_file,
    shipped_skill_files,
)
from timely_llm_ros.skills.loading.skill_set_schema import skill_set_schema
from timely_llm_ros.skills.loading.yaml_nodes import YamlValue, compose

__all__ = [
    'MAX_PATH_LENGTH', 'MAX_RATIO', 'MAX_TRACES', 'QUANTILES', 'YamlValue', 'compose',
    'find_skill_file', 'find_skill_set', 'is_skill_path', 'load_skill_set', 'parse_skill_set',
    'quantile_key', 'read_skill_file', 'shipped_skill_files', 'skill_set_schema',
]  # fmt: skip
