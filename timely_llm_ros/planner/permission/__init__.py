"""Who may command which robot, and what needs somebody's approval before a robot does it."""

from timely_llm_ros.planner.permission.allow_list import AllowList, Grant, read_allow_list
from timely_llm_ros.planner.permission.approvals import Approval, Approvals

__all__ = ['AllowList', 'Approval', 'Approvals', 'Grant', 'read_allow_list']
