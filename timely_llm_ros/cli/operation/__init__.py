"""Commands of whoever runs a fleet."""

__all__: list[str] = []
