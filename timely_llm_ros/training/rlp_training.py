"""Trains response-length predictors on a target model's own lengths (TimeBill, section 4.1).

The body is a small language model of transformers. Its embedding begins as a projection of the
target model's, so that it knows from the start which words are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch.nn import functional

from timely_llm_ros.prediction.lengths import BodyShape, bucket_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Body = Literal['qwen2', 'bert']
"""A causal language model read at its last token, or an encoder read at its first."""


SHAPE = BodyShape()
"""Of the predictor that comes with the embedded planner."""


@dataclass(frozen=True, slots=True)
class RlpTraining:
    """How a predictor is trained.

    Attributes:
        size: Lengths per bucket; None for regression instead of classes.
        longest: The longest response (tokens).
        shape: The network's sizes.
        body: What it is.
        epochs: Passes over all prompts.
        batch: Prompts per step.
        rate: Highest learning rate; it falls along a cosine.
        seed: Of weights and order.
        threads: On the CPU.
    """

    size: int | None = 4
    longest: int = 128
    shape: BodyShape = SHAPE
    body: Body = 'qwen2'
    epochs: int = 30
    batch: int = 32
    rate: float = 3e-3
    seed: int = 0
    threads: int = 1

    @property
    def classes(self) -> int:
        """How many numbers the head gives."""
        return 1 if self.size is None else bucket_of(self.longest, self.size)

    def steps(self, prompts: int) -> int:
        """Return how many steps so many prompts take."""
        return self.epochs * -(-prompts // self.batch)


def build_network(
    training: RlpTraining, vocabulary: int, embedding: NDArray[np.float32] | None = None
) -> Any:
    """Return an untrained network of transformers; id ``vocabulary`` is padding.

    Its embedding begins as that of the target model, ``[vocabulary, width]``, where one is given.
    """
    import transformers

    torch.manual_seed(training.seed)
    shape = training.shape
    common = {
        'vocab_size': vocabulary + 1,
        'hidden_size': shape.hidden_size,
        'intermediate_size': shape.intermediate_size,
        'num_hidden_layers': shape.num_hidden_layers,
        'num_attention_heads': shape.num_attention_heads,
        'num_labels': training.classes,
        'pad_token_id': vocabulary,
    }
    if training.body == 'bert':
        # Two matrices per block instead of three: half as wide again for the same size.
        common['intermediate_size'] = shape.intermediate_size * 3 // 2
        config = transformers.BertConfig(
            **common, max_position_embeddings=1024, type_vocab_size=1,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        network = transformers.BertForSequenceClassification(config)
        table = network.bert.embeddings.word_embeddings.weight
    else:
        config = transformers.Qwen2Config(
            **common,
            num_key_value_heads=shape.num_key_value_heads,
            rms_norm_eps=shape.rms_norm_eps,
            rope_parameters={'rope_type': 'default', 'rope_theta': shape.rope_theta},
        )
        network = transformers.Qwen2ForSequenceClassification(config)
        table = network.model.embed_tokens.weight
    if embedding is not None:
        centred = torch.tensor(embedding) - torch.tensor(embedding).mean(dim=0)
        left, size, _ = torch.linalg.svd(centred, full_matrices=False)
        width = min(shape.hidden_size, size.shape[0])
        projected = left[:, :width] * size[:width]
        with torch.no_grad():
            table[:vocabulary, :width] = projected * (0.02 / projected.std())
    return network


@torch.enable_grad()
def train_network(
    network: Any,
    training: RlpTraining,
    prompts: Sequence[Sequence[int]],
    lengths: Sequence[int],
    *,
    censored: Sequence[bool] = (),
    advance: Callable[[float], None] = lambda _loss: None,
) -> None:
    """Train it, deterministically; ``advance`` is called with each step's loss.

    Of lengths that are ``censored`` it learns only that they are at least so long, where it has
    classes to tell that by.
    """
    torch.set_num_threads(training.threads)
    targets = _targets(training, lengths)
    cut = torch.tensor([*censored] or [False] * len(prompts))
    optimiser = torch.optim.AdamW(network.parameters(), lr=training.rate, weight_decay=0.01)
    total = training.steps(len(prompts))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=training.rate, total_steps=total, pct_start=0.1
    )
    order = np.random.default_rng(training.seed)
    network.train()
    for _ in range(training.epochs):
        for rows in _batches(prompts, training.batch, order):
            scores = _scores(network, [prompts[row] for row in rows])
            wanted = targets[torch.tensor(rows)]
            if training.size is None:
                loss = functional.mse_loss(scores[:, 0], wanted)
            else:
                loss = least_class_loss(scores, wanted, cut[torch.tensor(rows)])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            advance(float(loss.detach()))
    network.eval()


def least_class_loss(
    scores: torch.Tensor, classes: torch.Tensor, censored: torch.Tensor
) -> torch.Tensor:
    """Return the mean negative logarithm of what scores give the right classes.

    Right is the class alone, and where that is ``censored`` every one from it on.

    Args:
        scores: ``[rows, classes]``.
        classes: ``[rows]``.
        censored: ``[rows]``.
    """
    if not bool(censored.any()):
        return functional.cross_entropy(scores, classes)
    every = torch.arange(scores.shape[1])
    right = (every == classes[:, None]) | (censored[:, None] & (every > classes[:, None]))
    found = scores.masked_fill(~right, -torch.inf).logsumexp(1)
    return (scores.logsumexp(1) - found).mean()


@torch.inference_mode()
def network_scores(network: Any, prompts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return the head's numbers for every prompt, ``[prompts, classes]``."""
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    scores = np.zeros((len(prompts), network.config.num_labels))
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        scores[rows] = _scores(network, [prompts[row] for row in rows]).double().numpy()
    return scores


def body_weights(network: Any) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a ``qwen2`` network, as :class:`SmallBody` takes them."""
    return {name: it.detach().float().numpy() for name, it in network.state_dict().items()}


def _targets(training: RlpTraining, lengths: Sequence[int]) -> torch.Tensor:
    if training.size is None:
        return torch.tensor([length / training.longest for length in lengths])
    return torch.tensor([bucket_of(it, training.size, training.longest) - 1 for it in lengths])


def _batches(
    prompts: Sequence[Sequence[int]], batch: int, rng: np.random.Generator
) -> list[list[int]]:
    """Return all rows in batches of about one length, in random order."""
    rows = rng.permutation(len(prompts))
    lengths = np.array([len(prompts[row]) for row in rows])
    rows = rows[np.argsort(lengths + rng.uniform(0, 8, len(rows)))]
    found = [rows[start : start + batch].tolist() for start in range(0, len(rows), batch)]
    return [found[place] for place in rng.permutation(len(found))]


def _scores(network: Any, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
    width = max(map(len, prompts))
    padding = network.config.pad_token_id
    ids = torch.tensor([[*prompt, *[padding] * (width - len(prompt))] for prompt in prompts])
    scores: torch.Tensor = network(input_ids=ids, attention_mask=(ids != padding).long()).logits
    return scores
