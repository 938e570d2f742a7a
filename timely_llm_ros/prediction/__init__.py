"""Predictions from arithmetic alone: execution times, lengths, queueing."""

__all__: list[str] = []
