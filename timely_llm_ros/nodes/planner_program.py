"""The planner program: a thread listens for another of its name while the node is made.

It is apart from the node's package, whose front door imports most of what a node needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from std_msgs.msg import Header

from timely_llm_ros.ros import HEARTBEAT_QOS, HEARTBEAT_TOPIC, EarlyClaim, SoleTopic, run

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Sequence

    from timely_llm_ros.ros import RosThread


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the planner node until SIGINT or SIGTERM; return the program's exit code."""
    return run('planner', arguments, _serve)


def _serve(ros: RosThread, stop: asyncio.Event) -> Awaitable[int]:
    service = 'plan_task/_action/send_goal'
    claim = EarlyClaim(SoleTopic(Header, HEARTBEAT_TOPIC, HEARTBEAT_QOS, service))
    try:
        from timely_llm_ros.nodes.planner import PlannerNode

        return PlannerNode(ros, stop, claim).serve()
    except BaseException:
        claim.give_up()
        raise
