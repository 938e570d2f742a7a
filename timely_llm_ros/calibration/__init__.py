"""Skills' duration models, learned from traces."""

from timely_llm_ros.calibration.overlay_file import overlay_text
from timely_llm_ros.calibration.profile_table import profile_table
from timely_llm_ros.calibration.skill_fit import LEAST_CALLS, SkillFit, fit_skill
from timely_llm_ros.calibration.skill_profile import profile_skills

__all__ = [
    'LEAST_CALLS', 'SkillFit', 'fit_skill', 'overlay_text', 'profile_skills', 'profile_table',
]  # fmt: skip
