"""Stands in for vLLM around the part of its plug-in that needs no vLLM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.commands import GenerationRequest
from timely_llm_ros.engines.core.options import CoreOptions
from timely_llm_ros.engines.engine import GenerationEnded, SegmentGenerated
from timely_llm_ros.engines.texts.token_codec import TokenCodec
from timely_llm_ros.engines.vllm.plugin.core import FreezeCore, New, Step, Work
from timely_llm_ros.scheduling.generation import Phase
from timely_llm_ros.scheduling.options import SchedulingOptions
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from timely_llm_ros.engines.engine import EngineState
    from timely_llm_ros.utility import TimeUtility

TELLO = find_skill_set('tello')
SCENE = Scene((SceneObject('cat_1', 'cat', x_m=1.5), SceneObject('cup_2', 'cup', relation='under')))
END = 256


class Bytes(TokenCodec):
    """A tokenizer with one token per byte."""

    def __init__(self) -> None:
        self.end_ids, self.size = frozenset({END}), END

    def bytes_of(self, token: int) -> bytes:
        return bytes([token])

    def encode(self, text: str, *, beginning: bool = False) -> list[int]:
        return list(text.encode())


INTERRUPTED = SchedulingOptions(admission='feasible', interrupts=True)


def finish(core: FreezeCore, step: Step, news: list[New], now_s: float) -> None:
    """Finish a step, its decisive tokens first."""
    core.end_step(step, now_s)
    decisive = core.decisive(news)
    core.take(decisive, now_s)
    core.finish_step(step, [new for new in news if new not in decisive], now_s)


class Server:
    """Stands in for vLLM: gives everyone chosen its plan's next byte."""

    def __init__(self, **options: Any) -> None:
        self.appended: dict[str, list[int]] = {}
        self.core = FreezeCore(
            Bytes(),
            append=lambda name, ids: self.appended.__setitem__(name, ids),
            kv_tokens=lambda: 0,
            options=CoreOptions(**{'scheduling': INTERRUPTED, **options}),
        )
        self.now_s = 0.0
        self.left: dict[str, list[int]] = {}
        self.computed: dict[str, int] = {}
        self.events: list[Any] = []
        self.ran: list[list[str]] = []
        self.late = 0

    def add(self, name: str, plan: str, utility: TimeUtility = NORMAL, **changes: Any) -> None:
        request = GenerationRequest(name, Prompt('', ''), TELLO, SCENE, utility, self.now_s)
        self.core.add(replace(request, **changes), 10)
        self.left[name] = [*plan.encode(), END]
        self.computed[name] = 0

    def step(self) -> list[str]:
        chosen = self.core.choose(self.now_s)
        rows, news = [], []
        for name in chosen:
            tokens = 1 if self.computed[name] else 10
            self.computed[name] += tokens
            rows.append(Work(name, tokens, self.computed[name]))
            news.append(New(name, [self.left[name].pop(0)]))
        step = self.core.begin_step(rows, self.now_s)
        self.now_s += 0.005
        self.events += self.core.generations.take_events()
        decides = bool(self.core.decisive(news))
        competing = self.core.competing
        finish(self.core, step, news, self.now_s)
        events = self.core.generations.take_events()
        if not decides:
            # So it may come late: all of them may have the next step too. Only a plan that is wrong
            # has it for nothing, and one that ends with a stop string.
            ended = [event for event in events if isinstance(event, GenerationEnded)]
            assert all(event.reason in ('invalid_plan', 'stop') for event in ended)
            assert self.core.competing == competing - len(ended)
            may_run = (Phase.RUNNING, Phase.SUSPENDED, Phase.ENDED)
            assert all(self.core.generations.table.phase(name) in may_run for name in chosen)
        self.late += not decides
        self.events += events
        self.ran.append(chosen)
        return chosen

    def texts(self, name: str) -> list[str]:
        return [
            event.segment.text
            for event in self.events
            if isinstance(event, SegmentGenerated) and event.generation_id == name
        ]

    def state(self) -> EngineState:
        return self.core.generations.state(self.now_s)
