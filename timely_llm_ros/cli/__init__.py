"""The command line ``timely-llm``."""

__all__: list[str] = []
