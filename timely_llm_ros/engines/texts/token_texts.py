"""The tokenizer of a model that runs here, and the masks of grammars over its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from timely_llm_ros.engines.texts.plan_keeper import PlanKeepers
from timely_llm_ros.engines.texts.token_codec import TokenCodec
from timely_llm_ros.errors import EngineError, ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from timely_llm_ros.engines.commands import GenerationRequest
    from timely_llm_ros.engines.texts.plan_keeper import PlanKeeper

MAX_CACHED_GRAMMARS = 64
"""Compiled grammars kept for tasks with the same skill set and scene."""


_NEVER = b'\x7f'
"""A control character, which no plan and no other text has."""


class TokenTexts(TokenCodec):
    """A tokenizer that also compiles grammars.

    Args:
        tokenizer: A fast tokenizer of transformers, which is changed.
        vocabulary: Width of the model's logits.
        end_ids: Tokens that end a plan.
        path: Where it was loaded from, for errors.

    Raises:
        ModelLoadError: It is not a fast tokenizer or knows more tokens than the model.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, end_ids: Sequence[int], path: str) -> None:
        import llguidance.hf

        if not getattr(tokenizer, 'is_fast', False):
            raise ModelLoadError(
                f'{path}: tokenizer {type(tokenizer).__name__}: expected a fast one, '
                'which has a tokenizer.json'
            )
        self._guide: Any = llguidance.hf.from_tokenizer(tokenizer, eos_token=list(end_ids))
        size = min(self._guide.vocab_size, vocabulary)
        super().__init__(tokenizer.backend_tokenizer, self._guide, size, end_ids)
        tokens = self._encoder.get_vocab_size(with_added_tokens=False)
        if tokens > vocabulary:
            raise ModelLoadError(
                f'{path}: tokenizer of {tokens} tokens: expected at most {vocabulary}, '
                "the model's vocabulary"
            )
        self.mask_words: int = (self._guide.vocab_size + 31) // 32
        self.unwritable_ids = frozenset((*self.tokens_with(b'#'), *self.tokens_with(_NEVER)))
        """Tokens that only the runtime may write."""
        writable = np.zeros(32 * self.mask_words, np.uint8)
        writable[: self.size] = 1
        writable[list(self.unwritable_ids)] = 0
        self.writable = np.packbits(writable, bitorder='little').view(np.int32)
        """One bit per token: whether a model may choose it at all. Grammars allow observations too,
        which a token like ``;#`` could begin though only the runtime writes them."""
        self._mixed = any(b'#' in self.bytes_of(token)[1:] for token in self.unwritable_ids)
        self._grammars: dict[object, Any] = {}
        self.keepers = PlanKeepers(self)
        """Keep plans such that they can end."""

    def rules(self, grammar: str) -> str:
        """Return a grammar with what llguidance needs for this tokenizer."""
        # With a token ";#" it would be the only one allowed where a statement's end is certain. If
        # something else might follow, which no text has, the statement's end is certain alone.
        return grammar.replace('";#"', r'";" /[#\x7f]/') if self._mixed else grammar

    def matcher(
        self, request: GenerationRequest, grammar: str, *, whole_plan: bool, room: int
    ) -> GrammarState:
        """Return a fresh state of a grammar, which is compiled once.

        Args:
            request: Whose plan it is.
            grammar: Its grammar.
            whole_plan: Whether the plan is one segment.
            room: Tokens that its context has room for behind the prompt.

        Raises:
            EngineError: The grammar cannot be compiled.
        """
        from llguidance import LLMatcher

        compiled = self._grammars.get(grammar)
        if compiled is None:
            compiled = LLMatcher(
                self._guide,
                LLMatcher.grammar_from_lark(self.rules(grammar)),
                log_level=0,
            )
            if compiled.is_error():
                raise EngineError(
                    f'grammar of skill set {request.skill_set.name!r}: {compiled.get_error()}'
                )
            if len(self._grammars) >= MAX_CACHED_GRAMMARS:
                del self._grammars[next(iter(self._grammars))]
            self._grammars[grammar] = compiled
        keeper = self.keepers.of(request, grammar, whole_plan=whole_plan, room=room)
        return GrammarState(compiled.deep_copy(), self.writable, keeper)


class GrammarState:
    """Where one generation stands in its grammar.

    Args:
        matcher: llguidance's state.
        writable: See :attr:`TokenTexts.writable`.
        keeper: Keeps a plan such that it can end; None for none.
    """

    def __init__(
        self, matcher: Any, writable: NDArray[np.int32], keeper: PlanKeeper | None
    ) -> None:
        self._matcher = matcher
        self._writable = writable
        self._keeper = keeper
        self._allowed: NDArray[np.int32] | None = None

    def fork(self) -> GrammarState:
        """Return another state that stands where this one does."""
        keeper = None if self._keeper is None else self._keeper.fork()
        return GrammarState(self._matcher.deep_copy(), self._writable, keeper)

    @property
    def allowed(self) -> NDArray[np.int32]:
        """One bit per token: whether it may come next. Good until tokens are taken."""
        if self._allowed is None:
            mask = np.empty_like(self._writable)
            self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
            mask &= self._writable
            if self._keeper is not None:
                self._keeper.restrict(mask)
            self._allowed = mask
        return self._allowed

    @property
    def only(self) -> int | None:
        """The one token that may come next; None where there are several, or none."""
        words = np.flatnonzero(self.allowed)
        if words.size != 1:
            return None
        bits = int(self.allowed[words[0]]) & 0xFFFFFFFF
        return 32 * int(words[0]) + bits.bit_length() - 1 if bits.bit_count() == 1 else None

    def take(self, tokens: Sequence[int], *, observed: bool = False) -> None:
        """Advance by tokens; ``observed`` are the robot's.

        Raises:
            EngineError: The grammar does not allow them.
        """
        self._allowed = None
        if not self._matcher.consume_tokens(list(tokens)):
            raise EngineError(f'tokens {list(tokens)}: {self._matcher.get_error()}')
        if self._keeper is not None:
            self._keeper.take(tokens, observed=observed)
