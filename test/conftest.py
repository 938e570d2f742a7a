"""Makes the helpers beside this file importable from every test."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A busy machine is no failure: how long an example takes says nothing about it.
settings.register_profile('untimed', deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile('untimed')

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and every program that a test starts
    # would inherit that: Ctrl-C could not be tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)
