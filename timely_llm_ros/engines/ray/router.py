"""Serve's side of routing: a call goes to the replica that it names, also while that one drains."""

from __future__ import annotations

import asyncio
from typing import Any

from ray.serve.request_router import RequestRouter

_MOST_LEAVING = 64


class NamedRouter(RequestRouter):  # type: ignore[misc]  # Ray is not typed
    """Routes a call to the replica whose name is its first argument.

    Serve makes one in each process that calls. It takes a replica from the list as soon as that one
    is to stop. But until then its generations need their commands, so the latest ones are kept.
    """

    _leaving: dict[Any, Any]

    def initialize_state(self, **kwargs: Any) -> None:  # noqa: ARG002  Serve's signature
        """Begin without replicas."""
        self._leaving = {}

    def update_replicas(self, replicas: list[Any]) -> None:
        """Take the replicas that run, and keep those that stop until they are gone."""
        running = {one.replica_id: one for one in replicas}
        names = frozenset(one.unique_id for one in running)
        known = self.curr_replicas
        leaving = [(name, one) for name, one in known.items() if name not in running]
        self._leaving = dict(leaving[-_MOST_LEAVING:])
        super().update_replicas([*replicas, *self._leaving.values()])
        # Serve copies this class with the globals of its module. Only an import finds ours.
        from timely_llm_ros.engines.ray.running import tell

        tell(self.app_name, names)

    async def choose_replicas(
        self, candidate_replicas: list[Any], pending_request: Any = None
    ) -> list[list[Any]]:
        """Return the named replica alone; a call of one that is gone ends with an error.

        Serve asks again at once for as long as it is given nothing: no other call of this process,
        and no word of new replicas, would come through. A task that is canceled asks no more.
        """
        if pending_request is None:
            return []
        name = pending_request.args[0]
        named = [one for one in candidate_replicas if one.replica_id.unique_id == name]
        if named:
            return [named]
        # Inside for the reason above: a class that travels with this module is another one there.
        from timely_llm_ros.errors import EngineError

        if not pending_request.future.done():
            pending_request.future.set_exception(EngineError(f'replica {name}: it is gone'))
            self._remove_pending_request_from_indices(pending_request)
        raise asyncio.CancelledError
