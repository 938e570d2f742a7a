"""Turns generation requests into vLLM's: token ids and sampling parameters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.texts import PromptTokens
from timely_llm_ros.engines.vllm.plugin import KEY, encode_request, encode_scene
from timely_llm_ros.errors import EngineError
from timely_llm_ros.skills import Prompt
from timely_llm_ros.skills.grammar import decoding_grammar
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import Warm
    from timely_llm_ros.engines.texts import TokenTexts
    from timely_llm_ros.engines.tokens import Sampling

_UNWRITABLE = -100.0
"""Logit bias of tokens that only the runtime may write, the lowest that vLLM takes."""


def check_seed(seed: int | None, tokens: int, most: int | None) -> None:
    """Refuse a seed that would end vLLM's worker.

    On a CPU the worker fails where a prompt with a seed is computed in several steps, because it
    cannot take back what a step has drawn in vain (``CPU Generator does not use offset``).

    Args:
        seed: The request's seed, if any.
        tokens: Most tokens of prompt and plan together, which are all prompt once KV was spilled.
        most: Tokens that certainly go into one step; None where every request may have a seed.

    Raises:
        EngineError: The request has a seed and does not fit.
    """
    if seed is None or most is None or tokens <= most:
        return
    bound = f'at most {most} tokens of prompt and plan, not {tokens}' if most else 'none'
    raise EngineError(
        f'seed {seed}: expected {bound}, on a CPU vLLM fails where a prompt with one is computed '
        'in several steps, as it is beyond prefill_chunk and over stages'
    )


class RequestWriter:
    """Writes requests for one model.

    Args:
        texts: The tokenizer.
        context_limit: Most tokens that one context may have.
        sampling: How tokens are chosen.
        observations: Whether grammars leave room for robots' answers.
    """

    def __init__(
        self, texts: TokenTexts, *, context_limit: int, sampling: Sampling, observations: bool
    ) -> None:
        self._texts, self._context_limit = texts, context_limit
        self._sampling, self._observations = sampling, observations
        self._unwritable = dict.fromkeys(texts.unwritable_ids, _UNWRITABLE)
        self._ends = sorted(texts.end_ids)
        self._prompts = PromptTokens(texts)

    def token_ids(self, request: GenerationRequest) -> list[int]:
        """Return a prompt's tokens.

        Raises:
            EngineError: The request cannot be served.
        """
        fixed, body = self._tokens(request)
        return fixed + body

    def scene(self, command: Warm) -> tuple[list[int], Any]:
        """Return the tokens of a robot's scene and vLLM's sampling parameters for it.

        Raises:
            EngineError: It is too long, or there is none.
        """
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        prompt = command.prompt or Prompt('', '')
        fixed, body = self._tokens(
            GenerationRequest(
                command.generation_id, prompt, command.skill_set, command.scene, NORMAL, 0.0
            )
        )
        parameters = SamplingParams(
            max_tokens=1,
            output_kind=RequestOutputKind.FINAL_ONLY,
            detokenize=False,
            extra_args={KEY: encode_scene(command.scene_of, len(fixed))},
        )
        return fixed + body, parameters

    def parameters(self, request: GenerationRequest) -> Any:
        """Return vLLM's sampling parameters of a request."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

        grammar = bias = None
        if request.constrained:
            rules = decoding_grammar(
                request.skill_set, request.scene, observations=self._observations
            )
            grammar = StructuredOutputsParams(grammar=self._texts.rules(rules))
            bias = self._unwritable or None
        return SamplingParams(
            max_tokens=request.max_tokens,
            stop_token_ids=self._ends,
            structured_outputs=grammar,
            logit_bias=bias,
            # Tokens are not read here, because segments come from the engine core.
            output_kind=RequestOutputKind.FINAL_ONLY,
            detokenize=False,
            extra_args={KEY: encode_request(request, time.monotonic(), named=True)},
            **self._sampling(request),
        )

    def _tokens(self, request: GenerationRequest) -> tuple[list[int], list[int]]:
        """Return the tokens of a prompt's fixed part and of its body."""
        fixed, body = self._prompts.of(request)
        if len(fixed) + len(body) >= self._context_limit:
            raise EngineError(
                f'prompt of {len(fixed) + len(body)} tokens: expected fewer than '
                f'{self._context_limit}, the limit of the model and of max_kv_tokens'
            )
        return fixed, body
