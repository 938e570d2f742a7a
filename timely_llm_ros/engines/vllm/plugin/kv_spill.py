"""Takes KV and worker slots from frozen generations for those that are to run.

When KV runs out, vLLM preempts running requests, because it does not see the frozen ones. So room
is made here before vLLM schedules.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from vllm.v1.request import RequestStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from vllm.v1.core.sched.scheduler import Scheduler

    from timely_llm_ros.engines.vllm.plugin.core import FreezeCore

    _Vllm = Scheduler
else:
    _Vllm = object


class KvSpill(_Vllm):  # type: ignore[misc, valid-type]
    """The part of the scheduler that spills frozen generations."""

    _core: FreezeCore
    _name_of: dict[str, str]
    _request_of: dict[str, Any]
    _outside: dict[str, Any]

    def _kv_tokens(self) -> int:
        capacity = self.cache_config.num_gpu_blocks * self.block_size
        return round(float(self.kv_cache_manager.usage) * float(capacity))

    def _relieve(self, running: Sequence[Any], entering: Sequence[Any]) -> None:
        """Spill frozen generations until there is room for those that are to run."""
        manager = self.kv_cache_manager
        block, groups = self.block_size, len(self.kv_cache_config.kv_cache_groups)
        needed = manager.watermark_blocks if entering else 0
        needed += new_blocks(running, block)
        for request in entering:
            needed += -(-(request.num_tokens + 1) // block)
        needed *= groups
        pool = manager.block_pool
        slots = self.max_num_running_reqs
        spare = self._spare()
        while spare and (
            pool.get_num_free_blocks() < needed or len(self._request_of) + len(spare) > slots
        ):
            self._give_up(spare.pop())
        if pool.get_num_free_blocks() >= needed and len(self._request_of) <= slots:
            return
        frozen = self._frozen(running)
        slots -= len(running) + len(entering)
        chosen = {self._name_of[request.request_id] for request in (*running, *entering)}
        missing = (needed - pool.get_num_free_blocks()) * block // groups
        for name in self._core.victims(chosen, missing):
            if pool.get_num_free_blocks() >= needed and len(frozen) <= slots:
                return
            request = frozen.pop(name, None)
            if request is not None:
                self._spill(name, request)

    def _spare(self) -> list[Any]:
        """Return those that hold KV and a slot in idle time only, the first to lose them last."""
        return []

    def _frozen(self, running: Collection[Any]) -> dict[str, Any]:
        """Return those that hold KV and a worker's slot and do not run."""
        inside = {request.request_id for request in running}
        return {
            name: request
            for name, request in self._request_of.items()
            if request.request_id not in inside and request.num_computed_tokens
        }

    def _spill(self, name: str, request: Any) -> None:
        """Give up a frozen generation's KV; vLLM finds blocks again that are not overwritten."""
        status, request.status = request.status, RequestStatus.RUNNING
        self._give_up(request)
        if status == RequestStatus.WAITING:
            # The worker does not know its observation yet, so it must enter as a new one.
            request.status = status
        self._outside[request.request_id] = request
        self._core.spill(name)

    def _give_up(self, request: Any) -> None:
        """Give up a request's KV and its slot, and take it out of vLLM's queue."""
        self._preempt_request(request, time.monotonic())
        self.waiting.remove_requests([request])

    def _take_outside(self) -> None:
        """Empty vLLM's queues, because our core orders all that wait."""
        for waiting in (self.waiting, self.kv_holding_waiting):
            while waiting:
                request = waiting.pop_request()
                name = self._name_of.get(request.request_id)
                if name is not None:
                    self._outside[request.request_id] = request
                    if request.status == RequestStatus.PREEMPTED:
                        self._core.spill(name)
        self.deferred_waiting.clear()


def new_blocks(running: Iterable[Any], block_size: int) -> int:
    """Return how many blocks of each group the next step of requests that run takes."""
    return sum(
        -(-(request.num_tokens_with_spec + request.num_output_placeholders) // block_size)
        - -(-request.num_computed_tokens // block_size)
        for request in running
    )
