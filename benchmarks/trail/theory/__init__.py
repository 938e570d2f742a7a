"""The queueing theory of limited preemption."""
