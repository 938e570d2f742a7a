"""The planner network's weights before training: random, but for circuits that find objects.

Small transformers learn late to look something up, so the first layers begin with it:

* Each head of the first layer looks back a fixed distance, by position alone, and writes a code of
  the token there into a part of the residual stream of its own. An object's number then knows its
  name, attribute, place, signs of its position, and number and name of the object a line above.
* In the second layer a noun of the instruction finds the object with that name and, if an adjective
  stands before the noun, that attribute; an object's number in a plan finds the object on the line
  below it in the scene, or the scene's head where there is none; a support finds objects at it.
* In the third layer what continues a plan looks back to what it handled last.

What is found is a number, written as its embedding. Training is free to change all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from timely_llm_ros.training.model.tokenizer import word_families, word_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from timely_llm_ros.training.model.network import PlannerNetwork

LOOK_BACK = (1, 4, 6, 7, 8, 10, 12, 13)
"""How far each head of the first layer looks back: from an object's number to its name, the signs
of y and x, its support, relation and attribute, and to number and name on the line above."""

PLAN_LOOK_BACK = (4, 6, 7, 8, 9)
"""How far heads of the third layer look back to the number of the object taken last (sorting,
cleaning): from the end of a plan's step, from the name that comes next and from its number."""

_NAME, _SUPPORT, _ATTRIBUTE, _NUMBER_ABOVE, _NAME_ABOVE = 1, 7, 10, 12, 13
_LOOK_BACK_STRENGTH = 8.0
_LOOK_BACK_FREQUENCIES = 6
_EMBEDDED = 96
"""Width of the residual stream that embeddings use at first; the looks back share the rest."""
_KINSHIP = 0.8
"""How alike the forms of one word (``cup``, `` cup``, ``cups``) are: their embeddings' cosine."""
_FAMILY = {'number': 0.4, 'support': 0.5, 'relation': 0.6}
_OTHER_FAMILY = 0.3
"""How alike the words of one sort are."""
_EMBEDDING_SCALE = 0.5
_WRITE_GAIN = 0.3
"""Makes a code as dense in the residual stream as an embedding is."""
_COPY_GAIN = 0.7
_NUMBER_BIAS = 8.0
"""By how much an object's number is preferred, before the softmax."""
_NOTHING_FOUND = 18.0
"""Score of the token that stands for "nothing": less than a true match, more than half of one."""
_NORMED_LENGTH = 9.8
"""About how long an embedding is after the second layer's norm."""
_LINES = 1
"""The group of heads that finds the object on the line below."""
_BIAS_TURN = 15
"""The slowest rotary frequency: what counts at any distance. Those a little faster are slow enough
to compare by over a whole scene."""


@torch.no_grad()
def initialise(
    network: PlannerNetwork, *, seed: int = 0, vocab: dict[str, int] | None = None
) -> None:
    """Set all matrices, the embeddings and the biases of the first three layers.

    Without ``vocab``, the tokenizer's tokens and their ids, there are no words to look for and the
    embeddings are plain noise.
    """
    generator = torch.Generator().manual_seed(seed)
    for stack, gain in (
        *((stack, 0.5) for stack in (network.q, network.k, network.v, network.gate, network.up)),
        *((stack, 0.25) for stack in (network.o, network.down)),
    ):
        stack.copy_(torch.randn(stack.shape, generator=generator) * gain * stack.shape[-1] ** -0.5)
    circuits = _Circuits(network, generator)
    circuits.embed(vocab)
    circuits.look_back()
    if vocab is not None:
        circuits.find_by_looks_and_lines(vocab)
        circuits.look_back_in_plans()


class _Circuits:
    """Writes circuits into a network, the first layer first."""

    def __init__(self, network: PlannerNetwork, generator: torch.Generator) -> None:
        shape = network.shape
        self._network, self._generator = network, generator
        self._heads, self._head = shape.num_attention_heads, shape.head_dim
        self._group = self._heads // shape.num_key_value_heads
        self._width = shape.hidden_size
        self._code_width = (shape.hidden_size - _EMBEDDED) // len(LOOK_BACK)
        self._seen = self._frame(self._head, _EMBEDDED)
        self._narrow = self._frame(self._code_width, self._head)
        self._code = self._narrow @ self._seen
        self._sort: dict[str, Tensor] = {}

    def embed(self, vocab: dict[str, int] | None) -> None:
        """Set the embeddings: alike for the forms of a word and for words of one sort."""
        network = self._network
        size = network.embedding.shape[0]
        values = torch.randn(size, _EMBEDDED, generator=self._generator)
        if vocab is not None:
            own = torch.randn(size, _EMBEDDED, generator=self._generator)
            values = _KINSHIP**0.5 * values[word_groups(vocab)] + (1 - _KINSHIP) ** 0.5 * own
            families = word_families(vocab)
            shared = self._frame(len(families), _EMBEDDED)
            for (sort, tokens), direction in zip(families.items(), shared, strict=True):
                alike = _FAMILY.get(sort, _OTHER_FAMILY)
                kept = (1 - alike) ** 0.5 * values[tokens]
                values[tokens] = (alike * _EMBEDDED) ** 0.5 * direction + kept
                self._sort[sort] = direction
        network.embedding.zero_()
        network.embedding[:, :_EMBEDDED] = _EMBEDDING_SCALE * values

    def look_back(self) -> None:
        """Make head h of the first layer write a code of the token LOOK_BACK[h] before."""
        network = self._network
        for stack in (network.q, network.k, network.v, network.o):
            stack[0] = 0.0
        # Noise of the layer's other half would blur the codes.
        network.down[0] = 0.0
        self._attend_back(0, LOOK_BACK)
        network.v[0, :, :_EMBEDDED] = self._seen.repeat(self._heads // self._group, 1)
        for number, distance in enumerate(LOOK_BACK):
            columns = slice(number * self._head, (number + 1) * self._head)
            network.o[0, self._part(distance), columns] = _WRITE_GAIN * self._narrow

    def find_by_looks_and_lines(self, vocab: dict[str, int]) -> None:
        """Let three heads of the second layer find an object: by its looks, the line above, place.

        Two codes of a number are compared with the token that asks and with the code of the token
        before it. A support asks for itself alone, so that training is free to prefer one object.
        """
        first, second = self._rows(14, 12, 10, 9, 7, 5), self._rows(13, 11, 8, 6)
        self._network.down[1] *= 0.3
        for kv_head, own_part, before_part, asks_before in (
            (0, _NAME, _ATTRIBUTE, True),
            (_LINES, _NUMBER_ABOVE, _NAME_ABOVE, True),
            (2, _SUPPORT, _NUMBER_ABOVE, False),
        ):
            keys, queries = self._clear(kv_head)
            match = 3.0 * self._frame(len(first), self._code_width)
            self._put(keys, first, self._part(own_part), match)
            self._put(queries, first, slice(_EMBEDDED), match @ self._code)
            match = 2.1 * self._frame(len(second), self._code_width)
            self._put(keys, second, self._part(before_part), match)
            if asks_before:
                self._put(queries, second, self._part(_NAME), match)
            self._find_numbers(kv_head, keys)
        # Below the last line of a place there is nothing: the scene's head stands for it.
        head = self._network.embedding[vocab['scene'], :_EMBEDDED]
        self._network.k[1].view(-1, self._head, self._width)[_LINES, _BIAS_TURN, :_EMBEDDED] += (
            head / head.norm() * _NOTHING_FOUND / _NUMBER_BIAS / _NORMED_LENGTH
        )

    def look_back_in_plans(self) -> None:
        """Let heads of the third layer look back from what continues a plan to what it took last.

        There its number has found the next one, a layer before.
        """
        network, heads = self._network, len(PLAN_LOOK_BACK)
        network.q[2].view(self._heads, self._head, self._width)[:heads] = 0.0
        network.k[2].view(-1, self._head, self._width)[: -(-heads // self._group)] = 0.0
        self._attend_back(2, PLAN_LOOK_BACK)

    # The pieces ----------------------------------------------------------------------------------

    def _attend_back(self, layer: int, distances: Sequence[int]) -> None:
        """Make head h attend to the token distances[h] before, by biases alone.

        With key bias k and query bias R(-d) k the score of a pair at distance r is the sum of
        cos((r - d) w) over the frequencies w: largest at r = d, whatever the tokens are.
        """
        network, used, half = self._network, _LOOK_BACK_FREQUENCIES, self._head // 2
        groups = -(-len(distances) // self._group)
        network.k_bias[layer].view(-1, self._head)[:groups, :used] = _LOOK_BACK_STRENGTH
        queries = network.q_bias[layer].view(self._heads, self._head)
        for number, distance in enumerate(distances):
            turned = distance * network.frequencies[:used].float()
            queries[number, :used] = _LOOK_BACK_STRENGTH * turned.cos()
            queries[number, half : half + used] = -_LOOK_BACK_STRENGTH * turned.sin()

    def _frame(self, rows: int, columns: int) -> Tensor:
        """Return orthonormal rows (rows <= columns) or columns."""
        long, short = max(rows, columns), min(rows, columns)
        noise = torch.randn(long, short, generator=self._generator)
        square: Tensor = torch.linalg.qr(noise)[0]
        return square if rows == long else square.T

    def _part(self, distance: int) -> slice:
        """Where in the residual stream the code of the token so far back is."""
        start = _EMBEDDED + LOOK_BACK.index(distance) * self._code_width
        return slice(start, start + self._code_width)

    def _rows(self, *turns: int) -> list[int]:
        """Return the rows of a head that turn with those frequencies."""
        return [*turns, *(turn + self._head // 2 for turn in turns)]

    def _clear(self, kv_head: int) -> tuple[Tensor, Tensor]:
        """Return the second layer's cleared keys of a group and queries of its first head."""
        keys = self._network.k[1].view(-1, self._head, self._width)[kv_head]
        queries = self._network.q[1].view(self._heads, self._head, self._width)
        keys.zero_()
        queries[kv_head * self._group] = 0.0
        return keys, queries[kv_head * self._group]

    def _find_numbers(self, kv_head: int, keys: Tensor) -> None:
        """Let the first head of a group prefer numbers and copy what it finds."""
        network, number = self._network, kv_head * self._group
        alike = _FAMILY['number'] ** 0.5
        keys[_BIAS_TURN, :_EMBEDDED] = self._sort['number'] / (alike * _NORMED_LENGTH)
        bias = _NUMBER_BIAS * self._head**0.5
        network.q_bias[1, number * self._head + _BIAS_TURN] = bias
        read = self._frame(self._head, _EMBEDDED)
        values = network.v[1].view(-1, self._head, self._width)[kv_head]
        values.zero_()
        values[:, :_EMBEDDED] = read
        columns = slice(number * self._head, (number + 1) * self._head)
        network.o[1, :, columns] = 0.0
        network.o[1, :_EMBEDDED, columns] = _COPY_GAIN * read.T

    @staticmethod
    def _put(matrix: Tensor, rows: list[int], columns: slice, values: Tensor) -> None:
        for row, value in zip(rows, values, strict=True):
            matrix[row, columns] = value
