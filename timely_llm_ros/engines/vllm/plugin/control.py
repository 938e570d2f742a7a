"""Reads the options of the scheduler inside vLLM and what each request says of its generation."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.vllm.plugin.request import KEY, decode_request
from timely_llm_ros.engines.vllm.uncut_text import UNCUT_TEXT
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
        scheduling: Keyword arguments of :class:`SchedulingOptions`.
        skill_sets: Names and files of skill sets that requests may name.
        report: Socket to which events go; empty where nobody listens.
        micro_batches: See :class:`VllmConfig`.
        stop_strings: Where one of them comes in a text that is cut, the text ends before it.
        tokens: Whether vLLM's own client gets the tokens of generations that have an id of their
            own; otherwise it hears only of their ends.
    """

    mode: ServingMode = 'segmented'
    policy: str = 'utility'
    max_running: int = 8
    scheduling: dict[str, Any] = field(default_factory=dict)
    skill_sets: tuple[str, ...] = ()
    report: str = ''
    micro_batches: int = 0
    stop_strings: tuple[str, ...] = ()
    tokens: bool = True

    @classmethod
    def of(cls, config: Any) -> PluginOptions:
        """Read them from vLLM's configuration.

        Raises:
            ConfigurationError: An option is unknown, or vLLM would order requests itself.
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
    """Whether a request of vLLM has a seed of its own."""
    return getattr(request.sampling_params, 'seed', None) is not None


def is_named(request: Any) -> bool:
    """Whether a request of vLLM is a whole generation of the client that made the engine core."""
    return 'id' in _payload(request)


def warm_scene(request: Any) -> tuple[str, int] | None:
    """Return whose scene a request of vLLM is, and its fixed tokens; None if it is none."""
    payload = _payload(request)
    return (payload['warm'], payload['fixed_tokens']) if 'warm' in payload else None


def _payload(request: Any) -> dict[str, Any]:
    """Return what the client that made the engine core says of a request: others send text."""
    extra = getattr(request.sampling_params, 'extra_args', None) or {}
    payload = extra.get(KEY)
    return payload if isinstance(payload, dict) else {}


class RequestReader:
    """Reads vLLM's requests, which may name skill sets given by names and files."""

    def __init__(self, skill_sets: Iterable[str]) -> None:
        self._skill_sets: dict[str, SkillSet] = {UNCUT_TEXT.name: UNCUT_TEXT}
        for name in skill_sets:
            self.learn(find_skill_set(name))

    def learn(self, skill_set: SkillSet) -> None:
        """Let requests name one more skill set."""
        self._skill_sets[skill_set.name] = skill_set

    def read(self, request: Any, taken: Container[str], now_s: float) -> GenerationRequest:
        """Return a request of vLLM as our core takes it; ids in ``taken`` are in use."""
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
            request_id, Prompt('', ''), UNCUT_TEXT, Scene(), NORMAL, now_s, max_tokens=max_tokens
        )
