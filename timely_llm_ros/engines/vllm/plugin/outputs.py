"""The outputs of the scheduler inside vLLM: for vLLM's own clients, and for our core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason

from timely_llm_ros.engines.vllm.plugin.core import Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from timely_llm_ros.engines.engine import EndReason

_REASONS: dict[FinishReason, EndReason] = {
    FinishReason.STOP: 'stop',
    FinishReason.LENGTH: 'length',
    FinishReason.ABORT: 'canceled',
}


def end_reason(reason: FinishReason | None) -> EndReason | None:
    """Return why vLLM ended a generation; None where it goes on."""
    return None if reason is None else _REASONS.get(reason, 'error')


def tell_ended(outputs: dict[int, Any], requests: Iterable[Any]) -> None:
    """Tell clients of requests that ended in our core and not in vLLM."""
    for request in requests:
        group = outputs.setdefault(request.client_index, EngineCoreOutputs())
        found = [out for out in group.outputs if out.request_id == request.request_id]
        if not found:
            found = [EngineCoreOutput(request_id=request.request_id, new_token_ids=[])]
            group.outputs += found
        found[0].finish_reason = FinishReason.STOP


def drop_tokens(outputs: dict[int, Any], name_of: Mapping[str, str]) -> None:
    """Leave only the ends of the engine's own requests, whose segments go another way.

    Args:
        outputs: By client.
        name_of: Generations by their request's id; the name is that id where a request has none.
    """
    for client, group in tuple(outputs.items()):
        group.outputs = [
            out
            for out in group.outputs
            if out.finish_reason is not None
            or name_of.get(out.request_id, out.request_id) == out.request_id
        ]
        if not (group.outputs or group.finished_requests or group.scheduler_stats):
            del outputs[client]


def work_of(scheduled: Any, requests: Mapping[str, Any], name_of: Mapping[str, str]) -> list[Work]:
    """Return the parts that the engine's own generations have in a step of vLLM.

    Args:
        scheduled: What vLLM scheduled.
        requests: vLLM's requests by their ids.
        name_of: Generations by their request's id.
    """
    found = []
    for request_id, tokens in scheduled.num_scheduled_tokens.items():
        if request_id in name_of:
            drafted = len(scheduled.scheduled_spec_decode_tokens.get(request_id, ()))
            computed = requests[request_id].num_computed_tokens - drafted
            found.append(Work(name_of[request_id], tokens - drafted, computed, drafted))
    return found
