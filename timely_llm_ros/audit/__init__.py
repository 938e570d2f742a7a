"""A log of what was asked of a fleet and what came of it, in which changes show."""

from timely_llm_ros.audit.log import AuditLog
from timely_llm_ros.audit.verify import Verdict, verify_log

__all__ = ['AuditLog', 'Verdict', 'verify_log']
