"""What the scheduler inside vLLM is told: its options, and what each request says of itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.vllm.plugin.request import KEY, decode_request
from timely_llm_ros.engines.vllm.plugin.uncut import UNCUT
from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.skills import Prompt, Scene
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from timely_llm_ros.scheduling import ServingMode
    from timely_llm_ros.skills import SkillSet

_logger = logging.getLogger(__name__)


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
            see :mod:`timely_llm_ros.engines.vllm.plugin.token_budget`; 0 for as many as there are
            stages, 1 to let vLLM fill every step.
        tokens: Whether vLLM's own client gets the tokens of requests that are named in them;
            without, it hears of their endings only.
    """

    mode: ServingMode = 'segmented'
    policy: str = 'utility'
    max_running: int = 8
    scheduling: dict[str, Any] = field(default_factory=dict)
    skill_sets: tuple[str, ...] = ()
    report: str = ''
    micro_batches: int = 0
    tokens: bool = True

    @classmethod
    def of(cls, config: Any) -> PluginOptions:
        """Read them from vLLM's configuration.

        Raises:
            ConfigurationError: There is no such option, or vLLM would make an order of its own.
        """
        try:
            options = cls(**config.additional_config.get(KEY, {}))
        except TypeError as err:
            raise ConfigurationError(f'additional_config {KEY!r}: {err}') from err
        policy = config.scheduler_config.policy
        if policy != 'fcfs':
            raise ConfigurationError(
                f'scheduling policy {policy!r} of vLLM: expected "fcfs", the order is made here'
            )
        return options


def has_seed(request: Any) -> bool:
    """Whether a request of vLLM draws its tokens from a seed of its own."""
    return getattr(request.sampling_params, 'seed', None) is not None


class RequestReader:
    """Reads what vLLM's requests say of themselves.

    Args:
        skill_sets: Names and files of skill sets that requests may name.
    """

    def __init__(self, skill_sets: Iterable[str]) -> None:
        self._skill_sets: dict[str, SkillSet] = {UNCUT.name: UNCUT}
        for name in skill_sets:
            self.learn(find_skill_set(name))

    def learn(self, skill_set: SkillSet) -> None:
        """Let requests name one more skill set."""
        self._skill_sets[skill_set.name] = skill_set

    def read(self, request: Any, taken: Container[str], now_s: float) -> GenerationRequest:
        """Return what our core is to know of a request of vLLM.

        Args:
            request: The request.
            taken: Ids of generations that are in use.
            now_s: The present time (s).
        """
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
                if found.generation_id not in taken:
                    return found
                err: Exception = InvalidTaskError(f'id {found.generation_id!r} is in use')
            except InvalidTaskError as problem:
                err = problem
            # An exception would end the engine core, and everybody's generations with it.
            _logger.warning('request %s is served uncut: %s', request_id, err)
        return GenerationRequest(
            request_id, Prompt('', ''), UNCUT, Scene(), NORMAL, now_s, max_tokens=max_tokens
        )
