"""Skill sets, the plan language, and what turns generated text into executable segments."""
