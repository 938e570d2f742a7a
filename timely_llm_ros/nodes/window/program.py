"""The window's program."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NEEDED = "window: expected websockets to be installed (pip install 'timely_llm_ros[window]')"


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the fleet until SIGINT or SIGTERM; return the exit code."""
    if importlib.util.find_spec('websockets') is None:
        print(NEEDED, file=sys.stderr)
        return 2
    from timely_llm_ros.nodes.window.node import serve_window

    return serve_window(arguments)


if __name__ == '__main__':
    sys.exit(main())
