"""Finds the Python class of a message type."""

from __future__ import annotations

import importlib
from typing import Any

from timely_llm_ros.errors import TraceError


def message_class(kind: str) -> Any:
    """Return the class of ``package/msg/Type`` or ``package/action/Type_FeedbackMessage``.

    Raises:
        TraceError: The name is malformed or its Python package is not installed.
    """
    try:
        package, folder, name = kind.split('/')
        found = vars(importlib.import_module(f'{package}.{folder}'))
        if folder == 'action':
            return found[name.removesuffix('_FeedbackMessage')].Impl.FeedbackMessage
        return found[name]
    except (ImportError, KeyError, ValueError, AttributeError) as err:
        raise TraceError(f'message type {kind!r}: its Python package is not installed') from err
