"""The executor program: the node in a worker process, and a guard that watches over it.

rclpy is imported only after the fork: its libraries start threads.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from timely_llm_ros.execution import run_guarded
from timely_llm_ros.nodes.executor.robot_body import SharedBodies
from timely_llm_ros.processes import end_with_launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.execution import Guard


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the executor until SIGINT or SIGTERM; return the program's exit code.

    ``--no-guard`` leaves out the guard; nobody then stops the robots after a kill -9.
    """
    # Before the fork: the guard hands the signal on.
    end_with_launch()
    given = list(sys.argv if arguments is None else arguments)
    if '--no-guard' in given:
        given.remove('--no-guard')
        return _serve(given, None, SharedBodies())
    bodies = SharedBodies()
    return run_guarded(
        lambda guard: _serve(given, guard, bodies),
        bodies.make_safe,
        prepare=bodies.prepare,
        at_risk=lambda: bodies.count > 0,
    )


def _serve(arguments: Sequence[str], guard: Guard | None, bodies: SharedBodies) -> int:
    from timely_llm_ros.nodes.executor.node import serve

    return serve(arguments, guard, bodies)
