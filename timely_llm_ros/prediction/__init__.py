"""Predictions from arithmetic alone: execution times and lengths."""
