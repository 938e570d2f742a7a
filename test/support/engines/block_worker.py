"""A worker of vLLM without a model, which remembers what each block holds.

For every token it checks that the context it would attend to is the right one, block by block.
"""

from __future__ import annotations

from typing import Any

BLOCK = 32
"""Tokens of a block."""

JUNK = 7
"""The token that a model would write where none is known."""

BRANCH = ' #'
"""What stands between a plan's name and its value in the name of a branch."""


class Worker:
    """What a model runner keeps, and a check of every block it would read.

    Behind a value that its robot does not report, a plan goes on with ``otherwise``.
    """

    def __init__(
        self, whole: dict[str, list[int]], sampled: dict[str, set[int]], otherwise: list[int]
    ) -> None:
        self._whole, self._sampled, self._otherwise = whole, sampled, otherwise
        self._tokens: dict[str, list[int]] = {}
        self._blocks: dict[str, list[int]] = {}
        self._written: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        self._prompts: dict[str, int] = {}
        self._adapters: dict[str, int] = {}
        self.checked = self.guessed = self.came_true = 0

    def execute(self, output: Any) -> Any:
        """Run a step and return what vLLM's runner would."""
        from vllm.v1.outputs import ModelRunnerOutput

        for request_id, tokens in getattr(output, 'forwarded', {}).items():
            self._tokens[request_id] += tokens
        for request_id in output.finished_req_ids:
            self._tokens.pop(request_id, None)
        for new in output.scheduled_new_reqs:
            self._tokens[new.req_id] = list(new.prompt_token_ids)
            self._prompts[new.req_id] = len(new.prompt_token_ids)
            self._blocks[new.req_id] = list(new.block_ids[0])
            self._adapters[new.req_id] = new.lora_request.lora_int_id if new.lora_request else 0
        cached = output.scheduled_cached_reqs
        starts = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        for place, request_id in enumerate(cached.req_ids):
            starts[request_id] = cached.num_computed_tokens[place]
            blocks = cached.new_block_ids[place]
            if request_id in cached.resumed_req_ids:
                self._blocks[request_id] = list(blocks[0])
            elif blocks is not None:
                self._blocks[request_id] += blocks[0]
            known = cached.all_token_ids.get(request_id)
            if known is not None:
                # Not in the step before: the worker takes the tokens from the scheduler, so none
                # may still be on its way there.
                assert known == self._tokens[request_id]
        if output.scheduled_spec_decode_tokens:
            # Beside a prompt nothing is guessed.
            assert not output.scheduled_new_reqs
            assert not cached.resumed_req_ids
        ids = list(output.num_scheduled_tokens)
        # The worker has a place for one.
        assert len({self._adapters[request_id] for request_id in ids} - {0}) <= 1
        sampled = [self._compute(request_id, starts[request_id], output) for request_id in ids]
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: place for place, request_id in enumerate(ids)},
            sampled_token_ids=sampled,
        )

    def _compute(self, request_id: str, start: int, output: Any) -> list[int]:
        tokens, blocks = self._tokens[request_id], self._blocks[request_id]
        adapter = self._adapters[request_id]
        end = start + output.num_scheduled_tokens[request_id]
        guesses = output.scheduled_spec_decode_tokens.get(request_id, [])
        known, laid = len(tokens), [*tokens, *guesses]
        assert end <= len(laid), 'a token that nobody has sampled'
        assert len(blocks) * BLOCK >= end, 'a place without a block'
        for position in range(start):
            where = blocks[position // BLOCK], position % BLOCK
            written = adapter, tuple(tokens[: position + 1])
            assert self._written[where] == written, 'KV of something else'
            self.checked += 1
        for position in range(start, end):
            where = blocks[position // BLOCK], position % BLOCK
            self._written[where] = adapter, tuple(laid[: position + 1])
        if end < len(laid):
            assert not guesses
            return []
        for guess in (*guesses, None):
            tokens.append(self._chosen(request_id))
            if tokens[-1] != guess:
                break
        self.guessed += len(guesses)
        self.came_true += len(tokens) - known - 1
        return tokens[known:]

    def _chosen(self, request_id: str) -> int:
        tokens, plan = self._tokens[request_id], request_id.partition(BRANCH)[0]
        whole = self._whole[plan]
        if plan != request_id and tokens[: (prompt := self._prompts[request_id])] != whole[:prompt]:
            return self._otherwise[len(tokens) - prompt]
        if len(tokens) not in self._sampled[plan]:
            return JUNK
        assert tokens == whole[: len(tokens)]
        return whole[len(tokens)]
