"""Between ROS messages and our own records."""

from timely_llm_ros.ros.conversions.scenes import (
    detections_of,
    detections_of_vision,
    marker_array,
)
from timely_llm_ros.ros.conversions.segments import (
    ROBOT_PHASES,
    outcome_message,
    outcome_record,
    progress_message,
    progress_record,
    robot_state_message,
    scheduler_state_message,
    segment_message,
    segment_record,
)
from timely_llm_ros.ros.conversions.task_json import REASONS, feedback_json, goal_of, result_json
from timely_llm_ros.ros.conversions.tasks import (
    GOAL_STATUS,
    duration,
    expectation_fields,
    prediction_fields,
    result_fields,
    scene_messages,
    seconds,
    task_feedback_message,
    task_record,
    task_result_message,
    utility_message,
    uuid_message,
    uuid_text,
)

__all__ = [
    'GOAL_STATUS', 'REASONS', 'ROBOT_PHASES', 'detections_of', 'detections_of_vision', 'duration',
    'expectation_fields', 'feedback_json', 'goal_of', 'marker_array', 'outcome_message',
    'outcome_record', 'prediction_fields', 'progress_message', 'progress_record', 'result_fields',
    'result_json', 'robot_state_message', 'scene_messages', 'scheduler_state_message', 'seconds',
    'segment_message', 'segment_record', 'task_feedback_message', 'task_record',
    'task_result_message', 'utility_message', 'uuid_message', 'uuid_text',
]  # fmt: skip
