"""Time budgets: how much KV to give up for them."""

from timely_llm_ros.budget.budgeter import MAX_EVICTED, choose_eviction
from timely_llm_ros.budget.eviction_rule import EvictionRule, FixedEviction
from timely_llm_ros.budget.score_rule import ENDED, likely_lengths
from timely_llm_ros.budget.task_budget import BudgetOptions, EvictionChoice, TaskBudget, plan_budget

__all__ = [
    'ENDED', 'MAX_EVICTED', 'BudgetOptions', 'EvictionChoice', 'EvictionRule', 'FixedEviction',
    'TaskBudget', 'choose_eviction', 'likely_lengths', 'plan_budget',
]  # fmt: skip
