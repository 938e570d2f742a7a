"""Skill sets, the plan language, and what turns text into executable segments."""

from timely_llm_ros.skills.durations import (
    MAX_VARIATION,
    SPREAD,
    ConstantDuration,
    DurationModel,
    EmpiricalDuration,
    LinearDuration,
    ReadingDuration,
)
from timely_llm_ros.skills.expected_times import expected_execution_s
from timely_llm_ros.skills.language import parse
from timely_llm_ros.skills.limits import PlanLimits
from timely_llm_ros.skills.messages import (
    Message,
    Role,
    instruction_words,
    read_messages,
    require_turns,
    turns,
)
from timely_llm_ros.skills.motions import (
    Amount,
    Approach,
    Climb,
    Land,
    Motion,
    Move,
    Still,
    Turn,
)
from timely_llm_ros.skills.plan_meter import PlanMeter
from timely_llm_ros.skills.prompt import (
    Prompt,
    build_prompt,
    common_start,
    fixed_part,
    require_own_names,
    scene_line,
    skill_usage,
)
from timely_llm_ros.skills.scene import (
    RELATIONS,
    Scene,
    SceneObject,
    is_word,
    spoken_of_m,
    trim_scene,
)
from timely_llm_ros.skills.segments import (
    Segment,
    TextSegmenter,
    fallback_segments,
    read_statements,
    segmenter_for,
)
from timely_llm_ros.skills.skill_types import (
    RISKS,
    UNITS,
    ArgumentSpec,
    FreeText,
    PlanExample,
    Risk,
    SegmentEnd,
    Skill,
    SkillSet,
)
from timely_llm_ros.skills.statements import Argument, Call, If, Repeat, Statement, calls_of

__all__ = [
    'MAX_VARIATION', 'RELATIONS', 'RISKS', 'SPREAD', 'UNITS', 'Amount', 'Approach', 'Argument',
    'ArgumentSpec', 'Call', 'Climb', 'ConstantDuration', 'DurationModel', 'EmpiricalDuration',
    'FreeText', 'If', 'Land', 'LinearDuration', 'Message', 'Motion', 'Move', 'PlanExample',
    'PlanLimits', 'PlanMeter', 'Prompt', 'ReadingDuration', 'Repeat', 'Risk', 'Role', 'Scene',
    'SceneObject', 'Segment', 'SegmentEnd', 'Skill', 'SkillSet', 'Statement', 'Still',
    'TextSegmenter', 'Turn', 'build_prompt', 'calls_of', 'common_start', 'expected_execution_s',
    'fallback_segments', 'fixed_part', 'instruction_words', 'is_word', 'parse', 'read_messages',
    'read_statements', 'require_own_names', 'require_turns', 'scene_line', 'segmenter_for',
    'skill_usage', 'spoken_of_m', 'trim_scene', 'turns',
]  # fmt: skip
