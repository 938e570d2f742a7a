"""A scheduler for vLLM that knows robots: suspension inside the engine core, by freezing.

A suspended generation stays RUNNING for vLLM but is withheld from ``self.running``. So its blocks,
its state in the worker, its random numbers, its grammar's state and a token in flight all stay
valid, and it goes on with the very next step that it is chosen for. vLLM sees in every step only
those who are to run in it; who that is says the same code as in every other engine.

Named in ``scheduler_cls`` and imported in vLLM's engine core process. Options come in vLLM's
``additional_config['timely']``, see :class:`PluginOptions`, and a request's own part in its
``extra_args['timely']``, see :mod:`timely_llm_ros.engines.vllm_request`. Requests without one are
served too, as ordinary text that is never cut.
"""

from __future__ import annotations

import logging
import pickle
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.engine.core import EngineCore
from vllm.v1.request import RequestStatus

from timely_llm_ros.engines.engine import GenerationRequest
from timely_llm_ros.engines.vllm_core import UNCUT, FreezeCore, New, Work
from timely_llm_ros.engines.vllm_report import Report
from timely_llm_ros.engines.vllm_request import KEY, decode_request
from timely_llm_ros.engines.vllm_text import load_texts
from timely_llm_ros.engines.vllm_token_budget import PipelineBudget
from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.scheduling.options import SchedulingOptions
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene
from timely_llm_ros.skills.skillset import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from timely_llm_ros.engines.engine import EndReason
    from timely_llm_ros.engines.vllm_core import Step
    from timely_llm_ros.scheduling.scheduler import ServingMode
    from timely_llm_ros.skills.skillset import SkillSet

    _Vllm = Scheduler
else:
    _Vllm = object

_logger = logging.getLogger(__name__)

_REASONS: dict[FinishReason, EndReason] = {
    FinishReason.STOP: 'stop',
    FinishReason.LENGTH: 'length',
    FinishReason.ABORT: 'canceled',
}


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """``additional_config['timely']``.

    Attributes:
        mode: The serving mode.
        policy: Name of the policy.
        max_running: Most generations in one step.
        scheduling: Keyword arguments of :class:`SchedulingOptions`.
        skill_sets: Names and files of skill sets that requests may name.
        report: Socket to which events go; empty where nobody listens.
        micro_batches: Between how many steps in a pipeline of stages tokens are shared at most,
            see :mod:`timely_llm_ros.engines.vllm_token_budget`; 0 for as many as there are
            stages, 1 to let vLLM fill every step.
    """

    mode: ServingMode = 'segmented'
    policy: str = 'utility'
    max_running: int = 8
    scheduling: dict[str, Any] = field(default_factory=dict)
    skill_sets: tuple[str, ...] = ()
    report: str = ''
    micro_batches: int = 0


class FreezeMixin(_Vllm):  # type: ignore[misc, valid-type]
    """What the two schedulers share; comes before vLLM's own in the order of inheritance."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config: Any = self.vllm_config
        try:
            options = PluginOptions(**config.additional_config.get(KEY, {}))
        except TypeError as err:
            raise ConfigurationError(f'additional_config {KEY!r}: {err}') from err
        if self.scheduler_config.policy != 'fcfs':
            raise ConfigurationError(
                f'scheduling policy {self.scheduler_config.policy!r} of vLLM: expected "fcfs", '
                'the order is made here'
            )
        model = config.model_config
        self._core = FreezeCore(
            load_texts(model.tokenizer or model.model),
            append=self._append_observation,
            kv_tokens=self._kv_tokens,
            mode=options.mode,
            policy=options.policy,
            max_running=options.max_running,
            max_kv_tokens=config.cache_config.num_gpu_blocks * self.block_size,
            context_limit=self.max_model_len,
            scheduling=SchedulingOptions(**options.scheduling),
        )
        self._skill_sets: dict[str, SkillSet] = {UNCUT.name: UNCUT}
        for name in options.skill_sets:
            skill_set = find_skill_set(name)
            self._skill_sets[skill_set.name] = skill_set
        self._report = Report(options.report) if options.report else None
        self._name_of: dict[str, str] = {}
        self._request_of: dict[str, Any] = {}
        self._outside: dict[str, Any] = {}
        self._compiling: dict[str, bool] = {}
        self._in_flight: list[tuple[Any, Step]] = []
        self._last: frozenset[str] = frozenset()
        stages = config.parallel_config.pipeline_parallel_size
        micro_batches = options.micro_batches or stages
        self._pipeline: PipelineBudget | None = None
        if micro_batches > 1:
            self._pipeline = PipelineBudget(
                max(2, stages),
                most_micro_batches=micro_batches,
                most_tokens=self.max_num_scheduled_tokens,
                due_s=lambda request: self._core.due_s(self._name_of[request.request_id]),
            )

    # vLLM's interface ----------------------------------------------------------------------------

    def add_request(self, request: Any) -> None:
        """Take a new request out of vLLM's queue into our own order."""
        known = request.request_id in self.requests
        super().add_request(request)
        if known:  # Another input of a streaming session, which is not ours to order.
            return
        now_s = time.monotonic()
        generation = self._generation(request, now_s)
        name = generation.generation_id
        self._name_of[request.request_id] = name
        self._request_of[name] = request
        self._core.add(generation, request.num_prompt_tokens, now_s)
        self._take_outside()
        if request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
            self._compiling[name] = False
            self._core.suspend(name, now_s)
        if name not in self._core:
            self.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Let vLLM schedule those who are to run, and nobody else."""
        now_s = time.monotonic()
        core = self._core
        if self._compiling:
            self._release_compiled(now_s)
        running, entering = [], []
        for name in core.choose(now_s):
            request = self._request_of[name]
            if request.status != RequestStatus.RUNNING:
                entering.append(request)
            elif not request.num_output_placeholders or request.request_id in self._last:
                # Else its latest token is still on its way, and the worker has dropped its place.
                running.append(request)
        self.running = running
        if entering or len(running) != len(core):
            self._relieve(running, entering)
        if self._pipeline is not None:
            running, entering, most_tokens = self._pipeline.compose(running, entering, now_s)
            self.running, self.max_num_scheduled_tokens = running, most_tokens
        for request in entering:
            self._outside.pop(request.request_id, None)
            self._enqueue_waiting_request(request)
        output = super().schedule(*args, **kwargs)
        if self.waiting or self.kv_holding_waiting:
            self._take_outside()
        if self._pipeline is not None:
            self._pipeline.entered(output.total_num_scheduled_tokens, now_s)
        scheduled = output.num_scheduled_tokens
        self._last = frozenset(scheduled)
        requests, name_of = self.requests, self._name_of
        rows = [
            Work(name_of[request_id], tokens, requests[request_id].num_computed_tokens)
            for request_id, tokens in scheduled.items()
        ]
        self._in_flight.append((output, core.begin_step(rows, now_s)))
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take the tokens; who is at the end of a segment competes anew in the next step."""
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        now_s = time.monotonic()
        step = self._step_of(scheduler_output)
        if self._pipeline is not None:
            self._pipeline.left(scheduler_output.total_num_scheduled_tokens, now_s)
        name_of = self._name_of
        news = [
            New(name_of[out.request_id], out.new_token_ids, _reason(out.finish_reason))
            for group in outputs.values()
            for out in group.outputs
            if out.request_id in name_of
        ]
        self._core.finish_step(step, news, now_s)
        for new in news:
            request = self._request_of[new.name]
            if new.name not in self._core:
                self._forget(request, outputs)
            elif request.num_in_flight_tokens and self._core.awaits_value(new.name):
                _drop_in_flight(request)
        self._tell(now_s)
        return outputs

    def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
        """End requests, frozen ones too."""
        finished = super().finish_requests(request_ids, finished_status)
        now_s = time.monotonic()
        for request in finished:
            name = self._name_of.pop(request.request_id, None)
            if name is not None:
                self._drop(request, name)
                self._core.cancel(name, now_s)
        self._tell(now_s)
        return finished

    def get_num_unfinished_requests(self) -> int:
        """Count those who could run: held ones let the engine core sleep."""
        if self._pause_state.name == 'PAUSED_ALL':
            return 0
        return self._core.competing + len(self._compiling)

    # The control channel -------------------------------------------------------------------------

    def control(self, command: str, name: str, value: Any) -> None:
        """Do what the engine asks for; unknown names are no error.

        Raises:
            ValueError: There is no such command.
        """
        now_s = time.monotonic()
        match command:
            case 'skill_set':
                skill_set = pickle.loads(value)
                self._skill_sets[skill_set.name] = skill_set
            case 'suspend' | 'resume' if name in self._compiling:
                self._compiling[name] = command == 'suspend'
            case 'suspend':
                self._core.suspend(name, now_s)
            case 'resume':
                self._core.resume(name, value, now_s)
            case 'idle_at':
                self._core.robot_idle_at(name, value)
            case _:
                raise ValueError(f'command {command!r}: expected one that the plug-in knows')
        request = self._request_of.get(name)
        if request is not None and name not in self._core:
            self.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)
        self._tell(now_s)

    # The parts -----------------------------------------------------------------------------------

    def _generation(self, request: Any, now_s: float) -> GenerationRequest:
        """Return what our core knows of a request."""
        request_id, max_tokens = request.request_id, request.max_tokens
        parameters = request.sampling_params
        extra = getattr(parameters, 'extra_args', None) or {}
        if KEY in extra:
            try:
                found = decode_request(
                    extra[KEY],
                    name=request_id,
                    max_tokens=max_tokens,
                    skill_sets=self._skill_sets,
                    now_s=now_s,
                )
                if found.generation_id not in self._core:
                    return found
                err: Exception = InvalidTaskError(f'id {found.generation_id!r} is in use')
            except InvalidTaskError as problem:
                err = problem
            # An exception would end the engine core, and everybody's generations with it.
            _logger.warning('request %s is served uncut: %s', request_id, err)
        return GenerationRequest(
            request_id, Prompt('', ''), UNCUT, Scene(), NORMAL, now_s, max_tokens=max_tokens
        )

    def _release_compiled(self, now_s: float) -> None:
        """Let those compete whose grammar is ready, or could not be compiled."""
        for name, held in list(self._compiling.items()):
            if self._request_of[name].structured_output_request.is_grammar_ready:
                del self._compiling[name]
                if not held:
                    self._core.resume(name, None, now_s)

    def _take_outside(self) -> None:
        """Take out of vLLM's queues what it left there: all who wait are ordered by us."""
        for waiting in (self.waiting, self.kv_holding_waiting):
            while waiting:
                request = waiting.pop_request()
                name = self._name_of.get(request.request_id)
                if name is not None:
                    self._outside[request.request_id] = request
                    if request.status == RequestStatus.PREEMPTED:
                        self._core.spill(name)
        self.deferred_waiting.clear()

    def _relieve(self, running: Sequence[Any], entering: Sequence[Any]) -> None:
        """Spill frozen generations until there is room for those who are to run.

        Otherwise vLLM, which does not see the frozen ones, would preempt running ones.
        """
        manager = self.kv_cache_manager
        block = self.block_size
        needed = manager.watermark_blocks if entering else 0
        for request in running:
            tokens = request.num_tokens_with_spec + request.num_output_placeholders
            needed += -(-tokens // block) - -(-request.num_computed_tokens // block)
        for request in entering:
            needed += -(-(request.num_tokens + 1) // block)
        needed *= len(self.kv_cache_config.kv_cache_groups)
        pool = manager.block_pool
        slots = self.max_num_running_reqs
        if pool.get_num_free_blocks() >= needed and len(self._request_of) <= slots:
            return
        frozen = self._frozen(running)
        slots -= len(running) + len(entering)
        chosen = {self._name_of[request.request_id] for request in (*running, *entering)}
        for name in self._core.victims(chosen):
            if pool.get_num_free_blocks() >= needed and len(frozen) <= slots:
                return
            request = frozen.pop(name, None)
            if request is not None:
                self._spill(name, request)

    def _frozen(self, running: Collection[Any]) -> dict[str, Any]:
        """Return those who hold KV and a worker's slot and do not run."""
        inside = {request.request_id for request in running}
        return {
            name: request
            for name, request in self._request_of.items()
            if request.request_id not in inside and request.num_computed_tokens
        }

    def _spill(self, name: str, request: Any) -> None:
        """Give up a frozen generation's KV; what others do not overwrite is found again."""
        status, request.status = request.status, RequestStatus.RUNNING
        self._preempt_request(request, time.monotonic())
        self.waiting.remove_requests([request])
        if status == RequestStatus.WAITING:
            # The worker does not know of its observation yet: it must enter as a new one.
            request.status = status
        self._outside[request.request_id] = request
        self._core.spill(name)

    def _append_observation(self, name: str, token_ids: list[int]) -> None:
        """Append what the robot answered: all before it becomes prompt, as in vLLM's sessions."""
        request = self._request_of[name]
        request.max_tokens -= request.num_output_tokens
        request._output_token_ids.clear()
        request._all_token_ids.extend(token_ids)
        request.prompt_token_ids = list(request._all_token_ids)
        request.num_prompt_tokens = len(request.prompt_token_ids)
        request.update_block_hashes()
        # The worker takes a new prompt only with a new request; the blocks are kept.
        request.status = RequestStatus.WAITING
        self._outside[request.request_id] = request
        if request.structured_output_request is not None:
            grammar = request.structured_output_request.grammar
            if not grammar.accept_tokens(request.request_id, token_ids):
                raise InvalidTaskError('the grammar does not allow it')

    def _forget(self, request: Any, outputs: dict[int, Any]) -> None:
        """Drop a generation that has ended here, and end it in vLLM where it goes on."""
        request_id = request.request_id
        name = self._name_of.pop(request_id)
        self._drop(request, name)
        if request.is_finished():
            return
        super().finish_requests(request_id, RequestStatus.FINISHED_STOPPED)
        group = outputs.setdefault(request.client_index, EngineCoreOutputs())
        for out in group.outputs:
            if out.request_id == request_id:
                out.finish_reason = FinishReason.STOP
                return
        group.outputs.append(
            EngineCoreOutput(
                request_id=request_id, new_token_ids=[], finish_reason=FinishReason.STOP
            )
        )

    def _drop(self, request: Any, name: str) -> None:
        self._outside.pop(request.request_id, None)
        self._request_of.pop(name, None)
        self._compiling.pop(name, None)

    def _step_of(self, scheduler_output: Any) -> Step:
        """Return the step that an output belongs to; steps without one are forgotten."""
        while True:
            output, step = self._in_flight.pop(0)
            if output is scheduler_output:
                return step

    def _kv_tokens(self) -> int:
        capacity = self.cache_config.num_gpu_blocks * self.block_size
        return round(float(self.kv_cache_manager.usage) * float(capacity))

    def _tell(self, now_s: float) -> None:
        """Send what happened to the engine, and the state at times or before a sleep."""
        events: list[Any] = self._core.take_events()
        if self._report is None:
            return
        state = self._core.take_state(now_s, at_once=not self._core.competing)
        if state is not None:
            events.append(state)
        if events:
            self._report.send(events)


def _reason(reason: FinishReason | None) -> EndReason | None:
    return None if reason is None else _REASONS.get(reason, 'error')


def _drop_in_flight(request: Any) -> None:
    """Give up a token that is being computed behind a call whose value must come first."""
    request.num_computed_tokens -= request.num_output_placeholders
    request.spec_token_ids = []
    request.drop_stale_output = True
    request.num_stale_output_tokens = request.num_in_flight_tokens
    request.num_output_placeholders = 0


class TimelyScheduler(FreezeMixin, Scheduler):  # type: ignore[misc]
    """Freezing, for synchronous scheduling."""


class TimelyAsyncScheduler(FreezeMixin, AsyncScheduler):  # type: ignore[misc]
    """Freezing, for asynchronous scheduling."""


def _control(self: Any, command: str, name: str, value: Any = None) -> None:
    """The utility call ``timely`` of the engine core."""
    if not isinstance(self.scheduler, FreezeMixin):
        raise TypeError(f'scheduler {type(self.scheduler).__name__}: expected the timely plug-in')
    self.scheduler.control(command, name, value)


EngineCore.timely = _control
