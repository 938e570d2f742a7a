"""Tasks that are not of our drawing: read, written in the plan language, judged by their makers."""

from timely_llm_ros.evaluation.suites.archives import SuiteArchives, suite_folder
from timely_llm_ros.evaluation.suites.behavior import Behavior
from timely_llm_ros.evaluation.suites.journey import Journey, constrained_tokens, travel
from timely_llm_ros.evaluation.suites.suite import Suite, SuiteTask, SuiteVerdict
from timely_llm_ros.evaluation.suites.virtualhome import VirtualHome

SUITES = {suite.name: suite for suite in (VirtualHome, Behavior)}
"""The suites by name; each takes the archives that it is read from."""

__all__ = [
    'SUITES', 'Behavior', 'Journey', 'Suite', 'SuiteArchives', 'SuiteTask', 'SuiteVerdict',
    'VirtualHome', 'constrained_tokens', 'suite_folder', 'travel',
]  # fmt: skip
