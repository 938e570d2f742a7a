"""Robots that are not there, speaking the protocols of the real ones over loopback."""
