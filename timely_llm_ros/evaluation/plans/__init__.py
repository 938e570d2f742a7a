"""How good a model's plans are: written for held-out tasks, judged, and counted."""

from timely_llm_ros.evaluation.plans.cases import Case, Written, draw_cases
from timely_llm_ros.evaluation.plans.counting import Cell, cells, report, summary
from timely_llm_ros.evaluation.plans.judging import Verdict, judge
from timely_llm_ros.evaluation.plans.symbolic_world import Outcome, outcome_of
from timely_llm_ros.evaluation.plans.writing import write_plans

__all__ = [
    'Case', 'Cell', 'Outcome', 'Verdict', 'Written', 'cells', 'draw_cases', 'judge', 'outcome_of',
    'report', 'summary', 'write_plans',
]  # fmt: skip
