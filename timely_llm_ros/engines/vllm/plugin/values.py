"""Plans that wait for their robots' values inside vLLM: what is written before one comes, and then.

Where no generation can run, the text until the next segment's end is written behind each value that
may come. Such a branch is a request of vLLM's own, which begins with the plan's tokens and those of
the value; vLLM's prefix cache shares the plan's blocks with it. It ends with its segment, so that
only branches in the making hold KV, which is the first to go. When the value comes, the plan takes
over the tokens of its branch. What of them fills no block is computed by the plan's next step,
together with the value.
"""

from __future__ import annotations

import copy
import itertools
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vllm.v1.request import Request, RequestStatus

from timely_llm_ros.engines.vllm.plugin.control import is_named
from timely_llm_ros.engines.vllm.plugin.core import New
from timely_llm_ros.engines.vllm.plugin.fast_forward import FastForward, is_greedy
from timely_llm_ros.engines.vllm.plugin.kept_grammar import KeptGrammar
from timely_llm_ros.engines.vllm.plugin.outputs import end_reason
from timely_llm_ros.engines.vllm.plugin.warm_scenes import WarmScenes
from timely_llm_ros.errors import InvalidTaskError

if TYPE_CHECKING:
    from timely_llm_ros.engines.core import Generation
    from timely_llm_ros.engines.engine import EngineState


@dataclass(slots=True, eq=False)
class Branch:
    """A plan behind one value.

    Attributes:
        plan: The plan's name.
        generation: What the plan is behind that value.
        request: vLLM's.
        shared: Tokens of its KV that are its plan's.
        steps: How long each step took (s), and what it brought.
        complete: Whether its plan would send a segment or end, or nothing more comes of it.
    """

    plan: str
    generation: Generation
    request: Any
    shared: int
    steps: list[tuple[float, New]] = field(default_factory=list)
    complete: bool = False

    @property
    def token_ids(self) -> list[int]:
        """What was written."""
        return [token for _, new in self.steps for token in new.token_ids]


class AwaitedValues(FastForward, WarmScenes):
    """The part of the scheduler for plans that wait for a value."""

    _outside: dict[str, Any]

    def _prepare_values(self, max_running: int) -> None:
        """Begin without branches; a step of theirs has ``max_running`` of them at most."""
        self._expected: dict[str, dict[str, Branch] | None] = {}
        """The branches of plans that wait, by the value's text; None before they are opened."""
        self._branches: dict[str, Branch] = {}
        """The incomplete ones, by their requests."""
        self._unwritten: dict[str, None] = {}
        """Plans that steps would help, in the order in which they began to wait."""
        self._writing: tuple[Any, float] | None = None
        """The order of their step that is under way, and since when (s)."""
        self._most_branches = max_running
        self._most_tokens = self.max_num_scheduled_tokens
        self._numbers = itertools.count()
        self._ahead_tokens = self._ahead_dropped = 0

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule a step of branches if there is nothing else but scenes."""
        due = [] if self._left() else self._chosen_branches()
        if not due:
            return super().schedule(*args, **kwargs)
        begun_s = time.monotonic()
        requests = [branch.request for branch in due]
        self.running = [it for it in requests if it.status == RequestStatus.RUNNING]
        for request in requests:
            if request.status != RequestStatus.RUNNING:
                self._enqueue_waiting_request(request)
        with self._idle_step(self._most_tokens):
            scheduled = super().schedule(*args, **kwargs)
        if scheduled.num_scheduled_tokens:
            self._writing = scheduled, begun_s
        else:
            # There is no room for any of them.
            for branch in due:
                self._complete(branch)
        return scheduled

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take a step's tokens; those of branches are for nobody yet."""
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if self._writing is not None and self._writing[0] is scheduler_output:
            step_s, self._writing = time.monotonic() - self._writing[1], None
            for group in outputs.values():
                told, group.outputs = group.outputs, []
                for out in told:
                    branch = self._branches.get(out.request_id)
                    if branch is None:
                        group.outputs.append(out)
                    else:
                        self._write(branch, out, step_s)
            self._core.generations.changed = True
        return outputs

    # What the scheduler asks ---------------------------------------------------------------------

    def _append_observation(self, name: str, token_ids: list[int]) -> None:
        """Append a robot's value to a plan.

        Raises:
            InvalidTaskError: The plan's grammar does not allow it.
        """
        request = self._request_of[name]
        append_tokens(request, token_ids)
        self._outside[request.request_id] = request
        self._drafts.observe(request.request_id, token_ids)
        structured = request.structured_output_request
        if structured is not None:
            grammar = structured.grammar
            take = grammar.observe if isinstance(grammar, KeptGrammar) else grammar.accept_tokens
            if not take(request.request_id, token_ids):
                raise InvalidTaskError('the grammar does not allow it')

    def _expect(self, name: str) -> None:
        """Note that a plan waits for a value from now on."""
        request = self._request_of[name]
        if self.cache_config.enable_prefix_caching and is_named(request) and is_greedy(request):
            self._expected[name] = None
            self._unwritten[name] = None

    def _settle(self, name: str) -> bool:
        """Let a plan whose value has come take over what is written behind it, if anything is."""
        generation = self._core.generations.get(name)
        if generation is None or generation.awaits_value:
            return False
        branch = (self._expected.get(name) or {}).pop(generation.observed, None)
        self._forget(name)
        if branch is None or not branch.steps:
            if branch is not None:
                self._drop_branch(branch)
            return False
        self._complete(branch)
        request, written, token_ids = self._request_of[name], branch.request, branch.token_ids
        append_tokens(request, token_ids)
        request.max_tokens -= len(token_ids)
        if request.structured_output_request is not None:
            request.structured_output_request.grammar = written.structured_output_request.grammar
        self._drafts.join(request.request_id, written.request_id)
        self._ahead_tokens += len(token_ids)
        self._core.take_ahead(name, branch.steps, time.monotonic())
        return True

    def _forget(self, name: str) -> None:
        """Drop the branches of a plan that does not wait any more."""
        for branch in (self._expected.pop(name, None) or {}).values():
            self._drop_branch(branch)
        self._unwritten.pop(name, None)

    def _ahead_due(self) -> list[str]:
        """Return the plans that a step now would help; to be asked when no generation could run.

        Only a plan that has KV has something to share, and the worker has a place for each branch.
        """
        if self._writing is not None or self._warming is not None:
            return []
        full = len(self._request_of) + len(self._branches) + 2 > self.max_num_running_reqs
        return [
            name
            for name in self._unwritten
            if self._request_of[name].num_computed_tokens
            and not (full and self._expected[name] is None)
        ]

    def _chunk_due(self) -> Any:
        """Return which scene to compute next, once no step of branches is under way."""
        return None if self._writing is not None else super()._chunk_due()

    def _spare(self) -> list[Any]:
        """Return the branches that hold KV and a slot."""
        requests = (branch.request for branch in self._branches.values())
        return [request for request in requests if request.num_computed_tokens]

    def _has_place(self, request: Any, adapters: set[int]) -> bool:
        """Whether a step with these adapters may have a request as well; add its adapter."""
        if self.lora_config is None or request.lora_request is None:
            return True
        adapters_with = adapters | {request.lora_request.lora_int_id}
        # vLLM asserts this of those that run, among which it never meets frozen ones.
        if len(adapters_with) > self.lora_config.max_loras:
            return False
        adapters.update(adapters_with)
        return True

    def _with_branches(self, state: EngineState) -> EngineState:
        """Return a state that also says what is written ahead."""
        branches = self._branches.values()
        held = sum(max(0, it.request.num_computed_tokens - it.shared) for it in branches)
        return replace(
            state,
            ahead_kv_tokens=held,
            ahead_tokens=self._ahead_tokens,
            ahead_dropped_tokens=self._ahead_dropped,
        )

    # The parts -----------------------------------------------------------------------------------

    def _chosen_branches(self) -> list[Branch]:
        """Return whose step is next, those first whose value is expected first."""
        chosen: list[Branch] = []
        adapters: set[int] = set()
        for name in sorted(self._ahead_due(), key=self._core.due_s):
            branches = self._expected[name]
            if branches is None:
                branches = self._open(name)
            chosen += [
                branch
                for branch in branches.values()
                if not branch.complete and self._has_place(branch.request, adapters)
            ]
            if len(chosen) + 2 > self._most_branches:
                break
        return chosen[: self._most_branches]

    def _open(self, name: str) -> dict[str, Branch]:
        """Open a plan's branches."""
        plan = self._request_of[name]
        branches = self._expected[name] = {}
        for text, (generation, token_ids) in self._core.foresee(name).items():
            request = self._branch_request(plan, text, token_ids)
            if request is None:
                # The plan is told why if that value comes.
                self._core.close_branch(generation)
                continue
            shared = plan.num_computed_tokens // self.block_size * self.block_size
            branch = branches[text] = Branch(name, generation, request, shared)
            self._branches[request.request_id] = branch
            super().add_request(request)
            self.waiting.remove_requests([request])
        if not branches:
            del self._unwritten[name]
        return branches

    def _branch_request(self, plan: Any, text: str, token_ids: list[int]) -> Any:
        """Return a request that goes on with a plan's behind a value; None if it must not."""
        structured, grammar = plan.structured_output_request, None
        tokens = [*plan.all_token_ids, *token_ids]
        if len(tokens) >= self.max_model_len:
            return None
        # A step may be under way that a request of the same name had a part in.
        name = f'{plan.request_id} {text}{next(self._numbers)}'
        if structured is not None:
            if isinstance(structured.grammar, KeptGrammar):
                grammar = structured.grammar.fork()
            if grammar is None or not grammar.observe(name, token_ids):
                return None
        request = Request(
            name,
            tokens,
            plan.sampling_params,
            None,
            client_index=plan.client_index,
            lora_request=plan.lora_request,
            cache_salt=plan.cache_salt,
            block_hasher=plan._block_hasher,  # noqa: SLF001  vLLM's, kept in step by the contract
        )
        request.max_tokens = plan.max_tokens - plan.num_output_tokens
        if structured is not None:
            request.structured_output_request = copy.copy(structured)
            request.structured_output_request.grammar = grammar
            request.status = RequestStatus.WAITING
        self._drafts.fork(plan.request_id, name, token_ids)
        return request

    def _write(self, branch: Branch, out: Any, step_s: float) -> None:
        """Take what a step brought a branch."""
        new = New(branch.plan, tuple(out.new_token_ids), end_reason(out.finish_reason))
        branch.steps.append((step_s, new))
        if self._core.read_ahead(branch.generation, new.token_ids) or new.reason is not None:
            self._complete(branch)

    def _complete(self, branch: Branch) -> None:
        """End a branch's request; what it wrote stays."""
        if branch.complete:
            return
        branch.complete = True
        name = branch.request.request_id
        super().finish_requests(name, RequestStatus.FINISHED_STOPPED)
        del self._branches[name]
        self._forwarded.pop(name, None)
        self._core.close_branch(branch.generation)
        if all(it.complete for it in (self._expected.get(branch.plan) or {}).values()):
            self._unwritten.pop(branch.plan, None)

    def _drop_branch(self, branch: Branch) -> None:
        self._complete(branch)
        self._drafts.drop(branch.request.request_id)
        self._ahead_dropped += len(branch.token_ids)


def append_tokens(request: Any, token_ids: list[int]) -> None:
    """Append tokens that a request's worker does not know; all become prompt, as in sessions."""
    request.max_tokens -= request.num_output_tokens
    request._output_token_ids.clear()  # noqa: SLF001  vLLM's, kept in step by the contract
    every = request._all_token_ids  # noqa: SLF001  as above
    every.extend(token_ids)
    request.prompt_token_ids = list(every)
    request.num_prompt_tokens = len(request.prompt_token_ids)
    request.update_block_hashes()
    # The worker takes a new prompt only with a new request; the blocks are kept.
    request.status = RequestStatus.WAITING


def drop_in_flight(request: Any) -> None:
    """Give up the token that is being computed behind a call whose value must come first."""
    request.num_computed_tokens -= request.num_output_placeholders
    request.spec_token_ids = []
    request.drop_stale_output = True
    request.num_stale_output_tokens = request.num_in_flight_tokens
    request.num_output_placeholders = 0
