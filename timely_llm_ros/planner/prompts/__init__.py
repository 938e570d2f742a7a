"""Files of prompts that no robot waits for: read, worked off in the background, and answered."""

from timely_llm_ros.planner.prompts.background_file import BackgroundFile
from timely_llm_ros.planner.prompts.prompt_file import (
    Answer,
    AnswerFile,
    OfflinePrompt,
    read_prompts,
)

__all__ = [
    'Answer', 'AnswerFile', 'BackgroundFile', 'OfflinePrompt', 'read_prompts',
]  # fmt: skip
