"""The decoding grammar of a skill set's plans, whole or from any point on."""

from timely_llm_ros.skills.grammar.grammar import decoding_grammar
from timely_llm_ros.skills.grammar.open_plan import OpenPlan, PlanRules
from timely_llm_ros.skills.grammar.remaining_grammar import RemainingGrammar

__all__ = [
    'OpenPlan',
    'PlanRules',
    'RemainingGrammar',
    'decoding_grammar',
]
