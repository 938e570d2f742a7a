"""Tasks that are not of our drawing: read, written in the plan language, judged by their makers."""

from timely_llm_ros.evaluation.suites.archives import SuiteArchives, suite_folder
from timely_llm_ros.evaluation.suites.behavior import Behavior
from timely_llm_ros.evaluation.suites.journey import Journey, constrained_tokens, travel
from timely_llm_ros.evaluation.suites.libero import Libero
from timely_llm_ros.evaluation.suites.suite import Suite, SuiteTask, SuiteVerdict
from timely_llm_ros.evaluation.suites.virtualhome import VirtualHome
from timely_llm_ros.evaluation.suites.written import Scored, mean_score, score, suite_cases

SUITES = {suite.name: suite for suite in (VirtualHome, Behavior, Libero)}
"""The suites by name; each takes the archives that it is read from."""

__all__ = [
    'SUITES', 'Behavior', 'Journey', 'Libero', 'Scored', 'Suite', 'SuiteArchives', 'SuiteTask',
    'SuiteVerdict', 'VirtualHome', 'constrained_tokens', 'mean_score', 'score', 'suite_cases',
    'suite_folder', 'travel',
]  # fmt: skip
