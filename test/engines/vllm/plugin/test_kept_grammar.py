"""What is fast-forwarded is what masks, token by token, would leave as the only way."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip('vllm', reason='vLLM is left out on this machine')

import llguidance
import numpy as np
import torch
from support.engines.random_plans import TOKENIZERS, random_request, tokenizer_of
from vllm.v1.structured_output.backend_guidance import GuidanceGrammar

from timely_llm_ros.engines.vllm.plugin.kept_grammar import KeptGrammar
from timely_llm_ros.skills.grammar import decoding_grammar

if TYPE_CHECKING:
    from timely_llm_ros.engines.texts import TokenTexts


@pytest.fixture(scope='module', params=TOKENIZERS)
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenTexts:
    return tokenizer_of(request.param, tmp_path_factory.mktemp('model') / 'model')


class Walk:
    """A plan of random tokens, in a grammar of vLLM's, on which what follows is seen by masks."""

    def __init__(self, texts: TokenTexts, rng: random.Random) -> None:
        self._texts, self._rng = texts, rng
        request = random_request(rng)
        whole_plan = rng.random() < 0.5
        rules = decoding_grammar(request.skill_set, request.scene, observations=not whole_plan)
        room = rng.choice([10**6, 200, 80])
        keeper = texts.keepers.of(request, rules, whole_plan=whole_plan, room=room)
        assert keeper is not None
        guide = texts._guide  # noqa: SLF001  made of the same tokenizer as vLLM's
        matcher = llguidance.LLMatcher(
            guide, llguidance.LLMatcher.grammar_from_lark(texts.rules(rules))
        )
        inner = GuidanceGrammar(ll_matcher=matcher, ll_tokenizer=guide, vocab_size=guide.vocab_size)
        self.grammar = KeptGrammar(inner, keeper, texts)
        self._row = torch.zeros((1, texts.mask_words), dtype=torch.int32)

    def allowed(self) -> list[int]:
        """Return the tokens that a model may choose from."""
        self.grammar.fill_bitmask(self._row, 0)
        mask = self._row[0].numpy() & self._texts.writable
        return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder='little')).tolist()

    def choose(self) -> int | None:
        """Choose a token; None where the plan waits for a value."""
        allowed = self.allowed()
        return self._rng.choice(allowed) if allowed else None

    def only(self) -> int | None:
        """Return the only token that may come."""
        allowed = self.allowed()
        return allowed[0] if len(allowed) == 1 else None


@pytest.mark.parametrize('seed', range(6))
def test_what_follows_is_what_masks_leave(texts: TokenTexts, seed: int) -> None:
    rng = random.Random(seed)
    forwarded = 0
    for _ in range(4):
        walk = Walk(texts, rng)
        while (token := walk.choose()) is not None:
            before = walk.grammar.fork()
            assert before is not None
            forced = walk.grammar.forward('r', [token], rng.choice([1, 3, 50]))
            assert walk.grammar.accept_tokens('r', [token, *forced])
            walk.grammar, forward = before, walk.grammar
            walk.allowed()
            assert walk.grammar.accept_tokens('r', [token])
            for follower in forced:
                assert walk.only() == follower
                assert walk.grammar.accept_tokens('r', [follower])
            walk.grammar = forward
            forwarded += len(forced)
            if not {token, *forced}.isdisjoint(texts.end_ids):
                break
    assert forwarded > 10
