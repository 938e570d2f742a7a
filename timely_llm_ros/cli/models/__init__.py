"""Commands about language models, and what several of them have in common."""

from timely_llm_ros.cli.models.length_data import (
    add_data_options,
    check_data_options,
    length_samples,
    longest_of,
    read_requests,
)

__all__ = [
    'add_data_options', 'check_data_options', 'length_samples', 'longest_of', 'read_requests',
]  # fmt: skip
