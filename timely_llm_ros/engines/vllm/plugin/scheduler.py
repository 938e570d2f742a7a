"""A scheduler for vLLM that suspends generations inside the engine core by freezing them.

A frozen generation stays RUNNING for vLLM but is withheld from ``self.running``. So its blocks, its
state in the worker, its random numbers, its grammar's state and a token in flight stay valid, and
it goes on with the next step that it is chosen for. In every step vLLM sees only the generations
that are to run, which the same code chooses as in every other engine.

vLLM's engine core process imports this module by ``scheduler_cls``. Options come in vLLM's
``additional_config['timely']``, see :class:`PluginOptions`, and a request's own part in its
``extra_args['timely']``, see :mod:`timely_llm_ros.engines.vllm.plugin.request`. A request without
that part is served as text that is never cut.

The worker waits from its answer to its next order. In that time the scheduler only decides who runs
next, and takes only tokens that matter for this. It does everything else, and chooses for the step
after, while the worker computes.
"""

from __future__ import annotations

import logging
import pickle
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ClassVar

from vllm.platforms import current_platform
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine.core import EngineCore
from vllm.v1.request import RequestStatus

from timely_llm_ros.engines.commands import Cancel, Resume, Suspend
from timely_llm_ros.engines.core import CoreOptions
from timely_llm_ros.engines.engine import EngineStateChanged
from timely_llm_ros.engines.texts import load_texts
from timely_llm_ros.engines.vllm.plugin.control import PluginOptions, RequestReader, has_seed
from timely_llm_ros.engines.vllm.plugin.core import FreezeCore, New
from timely_llm_ros.engines.vllm.plugin.kept_grammar import keep_plan
from timely_llm_ros.engines.vllm.plugin.outputs import drop_tokens, end_reason, tell_ended, work_of
from timely_llm_ros.engines.vllm.plugin.report import Report
from timely_llm_ros.engines.vllm.plugin.token_budget import PipelineBudget
from timely_llm_ros.engines.vllm.plugin.values import AwaitedValues, drop_in_flight
from timely_llm_ros.scheduling import SchedulingOptions
from timely_llm_ros.skills import SkillSet

if TYPE_CHECKING:
    from collections.abc import Collection

    from timely_llm_ros.engines.vllm.plugin.core import Step

_logger = logging.getLogger(__name__)


class FreezeMixin(AwaitedValues):
    """What the two schedulers share; comes before vLLM's scheduler in the order of inheritance."""

    pipeline_budget: ClassVar[type[PipelineBudget]] = PipelineBudget
    """Composes steps where there are stages; tests put one here that writes them down."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config: Any = self.vllm_config
        options = PluginOptions.of(config)
        scheduling = SchedulingOptions(**options.scheduling)
        self._texts = load_texts(config.model_config.tokenizer or config.model_config.model)
        self._core = FreezeCore(
            self._texts,
            append=self._append_observation,
            kv_tokens=self._kv_tokens,
            options=CoreOptions(
                mode=options.mode,
                policy=options.policy,
                max_running=options.max_running,
                max_kv_tokens=config.cache_config.num_gpu_blocks * self.block_size,
                context_limit=self.max_model_len,
                stop_strings=tuple(options.stop_strings),
                scheduling=scheduling,
            ),
        )
        self._reader = RequestReader(options.skill_sets)
        self._report = Report(options.report) if options.report else None
        self._tokens = options.tokens
        self._name_of: dict[str, str] = {}
        self._request_of: dict[str, Any] = {}
        self._outside: dict[str, Any] = {}
        self._compiling: dict[str, bool] = {}
        self._chosen: list[str] | None = None
        self._scheduled: tuple[Any, float] | None = None
        self._in_flight: list[tuple[Any, Step]] = []
        self._unread: tuple[Step, list[New], float] | None = None
        self._unsaid: list[Any] = []
        self._answers: list[Future[None]] = []
        self._competing: int | None = None
        self._last: Collection[str] = ()
        # vLLM's CPU worker fails where a prompt that has a seed is computed in several steps.
        self._whole_seeds = current_platform.is_cpu()
        self._seed_tokens = self.max_num_scheduled_tokens - options.max_running
        stages = config.parallel_config.pipeline_parallel_size
        micro_batches = options.micro_batches or stages
        self._prepare_forwarding(options.max_running, micro_batches)
        self._prepare_scenes(scheduling.background_step_s)
        self._prepare_values(options.max_running)
        self._pipeline: PipelineBudget | None = None
        if micro_batches > 1:
            self._core.pipeline = True
            self._pipeline = self.pipeline_budget(
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
        if self._take_scene(request):
            self._tell(time.monotonic())
            return
        generation = self._reader.read(request, self._core, time.monotonic())
        name = generation.generation_id
        self._name_of[request.request_id] = name
        self._request_of[name] = request
        self._disturb()
        self._core.add(generation, request.num_prompt_tokens)
        self._take_outside()
        if self._whole_seeds and has_seed(request):
            most = request.num_prompt_tokens + request.max_tokens
            if most > self._seed_tokens:
                text = 'request %s is ended: seed with %d tokens, expected at most %d on a CPU'
                _logger.warning(text, request.request_id, most, self._seed_tokens)
                self._core.generations.apply(Cancel(name))
        if request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
            self._compiling[name] = False
            self._core.generations.apply(Suspend(name))
        if name not in self._core:
            self.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Let vLLM schedule those that are to run, and no others."""
        now_s = time.monotonic()
        core, request_of = self._core, self._request_of
        self._free_chunk()
        if self._compiling:
            self._release_compiled()
        chosen, self._chosen = self._chosen, None
        if chosen is None:
            if self._scheduled is not None:
                self._catch_up()
            chosen = self._choose(now_s)
        running, entering = [], []
        adapters: set[int] = set()
        for name in chosen:
            request = request_of[name]
            if not self._has_place(request, adapters):
                continue
            if request.status != RequestStatus.RUNNING:
                entering.append(request)
            elif not request.num_output_placeholders or request.request_id in self._last:
                # Otherwise its latest token is on its way and the worker has dropped its place.
                running.append(request)
        self.running = running
        if entering and self._whole_seeds:
            entering = self._keep_whole(entering)
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
        self._last = output.num_scheduled_tokens
        if self._pipeline is not None:
            new = output.total_num_scheduled_tokens
            known = sum(self.requests[name].num_computed_tokens for name in self._last)
            self._pipeline.entered(new, now_s, known - new)
        self._scheduled = output, now_s
        return output

    def get_grammar_bitmask(self, scheduler_output: Any) -> Any:
        """Take the step's tokens and choose the next step while the worker computes."""
        self._catch_up()
        # Whoever waits for what has just ended is told first: its next request fills the place.
        self._tell(time.monotonic())
        bitmask = super().get_grammar_bitmask(scheduler_output)
        self._chosen = self._choose(time.monotonic())
        return bitmask

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take the tokens; a generation at the end of a segment competes anew in the next step."""
        self._catch_up()
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        now_s = time.monotonic()
        step = self._step_of(scheduler_output)
        if self._pipeline is not None:
            self._pipeline.left(scheduler_output.total_num_scheduled_tokens, now_s)
        name_of, core = self._name_of, self._core
        news = [
            New(name_of[out.request_id], out.new_token_ids, end_reason(out.finish_reason))
            for group in outputs.values()
            for out in group.outputs
            if out.request_id in name_of
        ]
        core.end_step(step, now_s)
        decisive = core.decisive(news)
        core.take(decisive, now_s)
        self._unread = step, [new for new in news if new not in decisive], now_s
        for new in decisive:
            self._disturb()
            self._follow(new.name)
            request = self._request_of.get(new.name)
            if request and request.num_in_flight_tokens and core.awaits_value(new.name):
                drop_in_flight(request)
        tell_ended(outputs, self._unsaid)
        self._unsaid.clear()
        if not self._tokens:
            drop_tokens(outputs, name_of)
        if not self._left() or not self._last:
            # No step follows at once that would leave time for this, or only one of a scene.
            self._catch_up()
            self._tell(now_s)
        return outputs

    def finish_requests(self, request_ids: Any, finished_status: Any) -> Any:
        """End requests, frozen ones too."""
        self._catch_up()
        self._disturb()
        finished = super().finish_requests(request_ids, finished_status)
        for request in finished:
            name = self._name_of.pop(request.request_id, None)
            if name is not None:
                self._drop(request, name)
                self._core.generations.apply(Cancel(name))
        self._tell(time.monotonic())
        return finished

    def get_num_unfinished_requests(self) -> int:
        """Count what could run, so that held ones let the engine core sleep."""
        if self._pause_state is PauseState.PAUSED_ALL:
            return 0
        return self._left() or int(bool(self._ahead_due()) or self._chunk_due() is not None)

    # The control channel -------------------------------------------------------------------------

    def control(self, message: Suspend | Resume | SkillSet) -> Future[None] | None:
        """Obey a command, or learn a skill set; unknown generations are no error.

        Returns:
            A future that is done once the answer may go; None if it may go at once.
        """
        self._catch_up()
        self._disturb()
        written = False
        if isinstance(message, SkillSet):
            self._reader.learn(message)
        elif message.generation_id in self._compiling:
            self._compiling[message.generation_id] = isinstance(message, Suspend)
        else:
            self._core.generations.apply(message)
            request = self._request_of.get(message.generation_id)
            if request is not None and message.generation_id not in self._core:
                self.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)
            elif message.generation_id in self._expected:
                written = self._settle(message.generation_id)
                self._follow(message.generation_id)
        if written or not self.get_num_unfinished_requests():
            self._tell(time.monotonic())
            return None
        answer: Future[None] = Future()
        self._answers.append(answer)
        return answer

    # The parts -----------------------------------------------------------------------------------

    def _choose(self, now_s: float) -> list[str]:
        """Choose who is to run, after the latest corrections of when robots are idle."""
        if self._report is not None:
            for message in self._report.heard():
                self._core.generations.apply(message)
        return self._core.choose(now_s)

    def _release_compiled(self) -> None:
        """Let those compete whose grammar is ready or could not be compiled."""
        for name, held in list(self._compiling.items()):
            if self._request_of[name].structured_output_request.is_grammar_ready:
                del self._compiling[name]
                self._disturb()
                self._keep_plan(name)
                if not held:
                    self._core.generations.apply(Resume(name))

    def _keep_plan(self, name: str) -> None:
        """Let a generation's grammar keep its plan such that it can end."""
        generation, request = self._core.generations.get(name), self._request_of[name]
        if generation is not None:
            room = self.max_model_len - request.num_prompt_tokens
            whole_plan = self._core.generations.mode == 'whole_plan'
            keep_plan(request, generation.request, self._texts, whole_plan=whole_plan, room=room)
            self._drafts.begin(request.request_id, generation.request.skill_set.name)

    def _keep_whole(self, entering: list[Any]) -> list[Any]:
        """Return who may enter this step so that no prompt with a seed is cut."""
        seeded = has_seed(entering[0])
        self.scheduler_config.enable_chunked_prefill = not seeded
        return [request for request in entering if has_seed(request) == seeded]

    def _disturb(self) -> None:
        """Note that something happens that the next step's choice has not seen."""
        self._chosen = self._competing = None

    def _catch_up(self) -> None:
        """Take the rest of a step's tokens, then note the step that was scheduled behind it."""
        unread, self._unread = self._unread, None
        if unread is not None:
            step, news, taken_s = unread
            self._core.finish_step(step, news, taken_s)
            for new in news:
                self._follow(new.name)
        scheduled, self._scheduled = self._scheduled, None
        if scheduled is not None:
            output, scheduled_s = scheduled
            rows = work_of(output, self.requests, self._name_of)
            self._in_flight.append((output, self._core.begin_step(rows, scheduled_s)))
            if unread is not None:
                self._core.compete_anew(unread[0])

    def _follow(self, name: str) -> None:
        """See whether a generation has ended with its new tokens, or waits for a value now."""
        if name not in self._core:
            if name in self._request_of:
                self._end(name)
        elif self._core.awaits_value(name) and name not in self._expected:
            self._expect(name)

    def _end(self, name: str) -> None:
        """Drop a generation that has ended here, and end it in vLLM if it goes on there."""
        request = self._request_of[name]
        del self._name_of[request.request_id]
        self._drop(request, name)
        self._chosen = self._competing = None
        if not request.is_finished():
            super().finish_requests(request.request_id, RequestStatus.FINISHED_STOPPED)
            self._unsaid.append(request)

    def _drop(self, request: Any, name: str) -> None:
        self._forget(name)
        self._outside.pop(request.request_id, None)
        self._forwarded.pop(request.request_id, None)
        self._drafts.end(request.request_id)
        self._request_of.pop(name, None)
        self._compiling.pop(name, None)

    def _step_of(self, scheduler_output: Any) -> Step:
        """Return the step that an output belongs to; steps without one are forgotten."""
        while True:
            output, step = self._in_flight.pop(0)
            if output is scheduler_output:
                return step

    def _tell(self, now_s: float) -> None:
        """Send events to the engine, and the state from time to time and before a sleep."""
        answers, self._answers = self._answers, []
        for answer in answers:
            answer.set_result(None)
        events: list[Any] = self._core.generations.take_events()
        if self._report is None:
            return
        at_once = not self.get_num_unfinished_requests()
        changed = self._core.generations.take_state(now_s, at_once=at_once)
        if changed is not None:
            events.append(EngineStateChanged(self._with_branches(self._with_scenes(changed.state))))
        if events:
            self._report.send(events)


class TimelyScheduler(FreezeMixin, Scheduler):  # type: ignore[misc]
    """Freezes generations where vLLM schedules synchronously."""


class TimelyAsyncScheduler(FreezeMixin, AsyncScheduler):  # type: ignore[misc]
    """Freezes generations where vLLM schedules asynchronously."""


def _control(self: Any, message: bytes) -> Future[None] | None:
    """Pass the utility call ``timely`` of the engine core on."""
    if not isinstance(self.scheduler, FreezeMixin):
        raise TypeError(f'scheduler {type(self.scheduler).__name__}: expected the timely plug-in')
    return self.scheduler.control(pickle.loads(message))  # noqa: S301  of the engine's process


EngineCore.timely = _control
