"""Dynamic token budgets and micro-batches of a pipeline; the background lane."""
