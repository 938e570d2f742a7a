"""Token ids of prompts, for engines whose tokens another program chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import EngineError

if TYPE_CHECKING:
    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.texts.token_codec import TokenCodec

_MOST_FIXED_PARTS = 256
"""Tokenised fixed parts of prompts that are kept."""


class PromptTokens:
    """Tokenises prompts and keeps the tokens of fixed parts, which many requests share."""

    def __init__(self, texts: TokenCodec) -> None:
        self._texts = texts
        self._fixed: dict[str, list[int]] = {}

    def of(self, request: GenerationRequest) -> tuple[list[int], list[int]]:
        """Return the tokens of a prompt's fixed part and of its body.

        Raises:
            EngineError: Only an engine of our own can serve the request, or its prompt has no body.
        """
        if request.background:
            raise EngineError(
                'a background generation: expected an engine that has the background lane '
                '("torch" or "simulated"); another would not let robots go first'
            )
        if request.forced_token_ids is not None:
            raise EngineError('forced_token_ids: expected None, the server chooses tokens itself')
        key = request.prompt.key
        fixed = self._fixed.get(key)
        if fixed is None:
            if len(self._fixed) >= _MOST_FIXED_PARTS:
                del self._fixed[next(iter(self._fixed))]
            fixed = self._fixed[key] = self._texts.fixed_ids(request.prompt)
        return fixed, self._texts.body_ids(request.prompt, beginning=not fixed)
