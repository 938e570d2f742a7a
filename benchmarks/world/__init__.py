"""Drones in a world with physics: how fast it is, and what succeeds in it."""
