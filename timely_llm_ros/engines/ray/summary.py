"""The state of all replicas together, as a planner reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines.engine import EngineState, ServerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.engines.ray.link import Link


def summary(
    links: Mapping[str, Link], counts: Mapping[str, int], losses: Mapping[str, int], waiting: int
) -> EngineState:
    """Return the state of all replicas together.

    Args:
        links: The replicas, by name.
        counts: How many of the planner's generations each has.
        losses: How often each was lost.
        waiting: Generations that wait for a replica.
    """
    states = [link.state for link in links.values() if link.state is not None]
    servers = tuple(_server(link, counts.get(name, 0), losses) for name, link in links.items())
    return EngineState.together(states, servers, waiting=waiting)


def _server(link: Link, generations: int, losses: Mapping[str, int]) -> ServerState:
    state = link.state
    return ServerState(
        link.name,
        link.ready and not link.draining,
        'drains' if link.draining else '' if link.ready else 'starts',
        generations,
        state.running if state else 0,
        state.step_s if state else 0.0,
        losses.get(link.name, 0),
    )
