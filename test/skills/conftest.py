"""Hypothesis measures time unless told not to, and these machines are shared."""

from hypothesis import settings

settings.register_profile('shared_machine', deadline=None)
settings.load_profile('shared_machine')
