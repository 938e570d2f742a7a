"""Has a model write plans for an evaluation, as an engine does: segment by segment, with values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines import (
    GenerationEnded,
    GenerationRequest,
    Resume,
    SegmentGenerated,
    Submit,
)
from timely_llm_ros.engines.core import CoreOptions, EngineCore
from timely_llm_ros.evaluation.plans.cases import Written
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import Call
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.evaluation.plans.cases import Case
    from timely_llm_ros.prompts import Prompts


def write_plans(
    loaded: LoadedModel,
    prompts: Prompts,
    cases: Sequence[Case],
    *,
    constrained: bool,
    batch: int,
    max_tokens: int,
) -> Iterator[tuple[Case, Written]]:
    """Yield each case with its plan, as they end.

    Args:
        loaded: The model.
        prompts: Makes its prompts.
        cases: The tasks.
        constrained: Whether the grammar masks the model's choices.
        batch: Most plans at a time.
        max_tokens: Most tokens of a plan.
    """
    from timely_llm_ros.engines.torch.compute import TorchBackend

    backend = TorchBackend(loaded)
    core = EngineCore(
        backend,
        CoreOptions(
            policy='fcfs',
            max_running=batch,
            max_kv_tokens=loaded.pool.capacity,
            context_limit=loaded.context_limit,
            stop_strings=loaded.stop_strings,
            scheduling=SchedulingOptions(admission='fixed'),
        ),
    )
    live: dict[str, Case] = {}
    text: dict[str, str] = {}
    # Those of one skill set share the beginning of their prompts.
    waiting = iter(sorted(cases, key=lambda case: case.skill_set.name))
    while True:
        while len(live) < batch and (case := next(waiting, None)) is not None:
            live[case.name], text[case.name] = case, ''
            core.apply(Submit(_request(case, prompts, max_tokens, constrained=constrained)))
        if not live:
            return
        plan = core.plan(0.0)
        if plan is not None:
            core.complete(plan, backend.execute(plan), 0.0, 0.001)
        for event in core.take_events():
            if isinstance(event, SegmentGenerated):
                segment, name = event.segment, event.generation_id
                text[name] += segment.text
                call = segment.statements[0]
                if segment.awaits_value and isinstance(call, Call):
                    value = live[name].value(call)
                    text[name] += f'#{value} '
                    core.apply(Resume(name, value))
            elif isinstance(event, GenerationEnded):
                name = event.generation_id
                written = Written(text.pop(name), event.reason, event.error, event.tokens)
                yield live.pop(name), written


def _request(
    case: Case, prompts: Prompts, max_tokens: int, *, constrained: bool
) -> GenerationRequest:
    task = case.task
    prompt = prompts.build(case.skill_set, task.scene, task.instruction)
    return GenerationRequest(
        case.name,
        prompt,
        case.skill_set,
        task.scene,
        NORMAL,
        0.0,
        max_tokens=max_tokens,
        constrained=constrained,
    )
