"""Tasks that are not of our drawing: read, written in the plan language, judged by their makers."""

from timely_llm_ros.evaluation.suites.archives import SuiteArchives, suite_folder
from timely_llm_ros.evaluation.suites.behavior import Behavior
from timely_llm_ros.evaluation.suites.suite import Suite, SuiteTask, SuiteVerdict
from timely_llm_ros.evaluation.suites.virtualhome import VirtualHome

__all__ = ['Behavior', 'Suite', 'SuiteArchives', 'SuiteTask', 'SuiteVerdict', 'VirtualHome', 'suite_folder']
