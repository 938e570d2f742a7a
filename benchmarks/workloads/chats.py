"""Chats for the simulated engine: stories of plausible shape, composed from a seed.

TimelyLLM (section 7.4.2, fig. 10) asks for stories of the WritingPrompts data set. How many, how
often and how long is not printed, so everything in a spec's defaults is assumed: about 330 words
or 440 tokens a story, and as many askers at a time as an engine at a batch of 8 can just serve.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timely_llm_ros.engines.simulated import HARDWARE, Hardware, StepTimeModel
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation import SegmentShape, WorkloadTask
from timely_llm_ros.skills import Scene, expected_execution_s, segmenter_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.skills import SkillSet

GROUP = 'chat'
"""The group of a chat's task; its time utility is that of a normal one (section 7.1)."""

_PHI3_SHARE = 3.8 / 8.0
_LLAMA3 = HARDWARE['toy']

CHAT_HARDWARE: Mapping[str, Hardware] = {
    'llama3': _LLAMA3,
    'phi3': Hardware(
        StepTimeModel(
            decode_s=_LLAMA3.step_time.decode_s * _PHI3_SHARE,
            batch_factor=_LLAMA3.step_time.batch_factor,
            prefill_token_s=0.0,
            prefill_s=_LLAMA3.step_time.prefill_s * _PHI3_SHARE,
            resume_s=_LLAMA3.step_time.resume_s,
            schedule_s=_LLAMA3.step_time.schedule_s,
            schedule_waiting_s=_LLAMA3.step_time.schedule_waiting_s,
        ),
        _LLAMA3.kv_capacity_tokens,
        "assumed: Llama3-8B's times by the share of parameters, 3.8 of 8 billion",
    ),
}
"""The two models of fig. 10 on its card, by name."""

_TEXT = """
a an the old young king fox river stone night house letter door garden shadow light winter
road voice ship island candle forest mountain window child stranger soldier
walked waited opened whispered carried remembered followed found lost built promised
slowly never again behind before under across without another morning and but because
"""
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class ChatSpec:
    """From what chats are drawn; each number range is drawn from evenly.

    Attributes:
        name: What tables call it.
        events_per_s: Rate of the Poisson process of events.
        most_chats_per_event: An event brings 1 to this many chats, evenly.
        duration_s: Events come within this time (s).
        words: Least and most words of a sentence.
        sentences: Least and most sentences of a paragraph.
        paragraphs: Least and most paragraphs of a story.
        second_token: How likely a word has two tokens instead of one.

    Raises:
        ConfigurationError: A value is out of range.
    """

    name: str = 'stories'
    events_per_s: float = 0.25
    most_chats_per_event: int = 4
    duration_s: float = 120.0
    words: tuple[int, int] = (6, 24)
    sentences: tuple[int, int] = (2, 6)
    paragraphs: tuple[int, int] = (3, 8)
    second_token: float = 0.25

    def __post_init__(self) -> None:
        for label in ('events_per_s', 'most_chats_per_event', 'duration_s'):
            value = getattr(self, label)
            if not 0 < value < float('inf'):
                raise ConfigurationError(f'{label} {value!r}: expected a finite number > 0')
        for label in ('words', 'sentences', 'paragraphs'):
            least, most = getattr(self, label)
            if not 1 <= least <= most:
                raise ConfigurationError(
                    f'{label} {(least, most)!r}: expected two numbers, 1 <= least <= most'
                )
        if not 0 <= self.second_token <= 1:
            raise ConfigurationError(f'second_token {self.second_token!r}: expected 0 to 1')


@dataclass(frozen=True, slots=True)
class Chat:
    """One chat: a person asks and reads the answer.

    Attributes:
        at_s: When it comes, after the workload's begin (s).
        tokens: The answer, token by token.
    """

    at_s: float
    tokens: tuple[str, ...]

    @property
    def text(self) -> str:
        """The answer."""
        return ''.join(self.tokens)


def compose_chats(spec: ChatSpec, seed: int) -> tuple[Chat, ...]:
    """Draw chats in the order in which they come; the same seed gives the same ones everywhere."""
    rng = random.Random(f'{spec.name}:{seed}')
    chats: list[Chat] = []
    at_s = rng.expovariate(spec.events_per_s)
    while at_s <= spec.duration_s:
        chats += [
            Chat(round(at_s, 6), tuple(_story(spec, rng)))
            for _ in range(rng.randint(1, spec.most_chats_per_event))
        ]
        at_s += rng.expovariate(spec.events_per_s)
    return tuple(chats)


def _story(spec: ChatSpec, rng: random.Random) -> list[str]:
    tokens: list[str] = []
    for _ in range(rng.randint(*spec.paragraphs)):
        if tokens:
            tokens.append('\n\n')
        begins = True
        for _ in range(rng.randint(*spec.sentences)):
            for place in range(rng.randint(*spec.words)):
                word = rng.choice(_WORDS)
                word = word.capitalize() if place == 0 else word
                word = word if begins else f' {word}'
                begins = False
                if rng.random() < spec.second_token and len(word.strip()) > 3:
                    tokens += [word[:-2], word[-2:]]
                else:
                    tokens.append(word)
            tokens.append('.')
    return tokens


def chat_task(chat: Chat, skill_set: SkillSet) -> WorkloadTask:
    """Return a chat's shape: tokens and reading time of each segment its skill set cuts it into.

    A segment's last token is the one with which it is known to be complete, which already
    belongs to the text of the next one.
    """
    segmenter = segmenter_for(skill_set, ())
    segments = [segment for token in chat.tokens for segment in segmenter.push(token)]
    segments += segmenter.finish()
    return WorkloadTask(
        chat.at_s,
        GROUP,
        GROUP,
        tuple(
            SegmentShape(
                segment.tokens, expected_execution_s(segment.statements, skill_set, Scene())
            )
            for segment in segments
        ),
    )
