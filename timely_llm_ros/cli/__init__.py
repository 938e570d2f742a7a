"""The command line ``timely-llm``; ``timely_llm_ros.cli.main`` starts it."""

__all__: list[str] = []
