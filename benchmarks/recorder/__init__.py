"""The recorder, replays and the report."""
