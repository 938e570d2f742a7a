"""The command line ``timely-llm``."""

from timely_llm_ros.cli.generate_command import RequestMaker

__all__ = [
    'RequestMaker',
]
