"""An engine core with known plans, stepped by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from timely_llm_ros.engines import GenerationEnded, GenerationRequest, SegmentGenerated
from timely_llm_ros.engines.core.core import EngineCore
from timely_llm_ros.engines.core.lanes import LanedCore
from timely_llm_ros.engines.core.options import CoreOptions
from timely_llm_ros.engines.simulated.engine import PlanTexts
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.prompt import Prompt
from timely_llm_ros.skills.scene import Scene, SceneObject
from timely_llm_ros.utility import NORMAL, URGENT

if TYPE_CHECKING:
    from timely_llm_ros.engines import EngineEvent
    from timely_llm_ros.engines.core.kv_ledger import KvLedger
    from timely_llm_ros.engines.core.step import StepPlan
    from timely_llm_ros.scheduling import Phase

SKILLS = find_skill_set('tello')
SCENE = Scene((SceneObject('cat_3', 'cat'),))

Core = TypeVar('Core', EngineCore, LanedCore)


def request(
    name: str = 'g', *, urgent: bool = False, fixed: str = 'x' * 40, body: str = 'y' * 40,
    max_tokens: int = 512, arrival_s: float = 0.0, background: bool = False,
) -> GenerationRequest:  # fmt: skip
    utility = URGENT if urgent else NORMAL
    return GenerationRequest(
        name, Prompt(fixed, body), SKILLS, SCENE, utility, arrival_s, max_tokens=max_tokens,
        background=background,
    )  # fmt: skip


class Bench(Generic[Core]):
    """A core whose generations all have one plan, 10 ms per step."""

    def __init__(self, kind: type[Core], plan: str, **options: Any) -> None:
        texts: type[PlanTexts] = options.pop('texts', PlanTexts)
        self.texts = texts(lambda _: plan)
        kv: KvLedger | None = options.pop('kv', None)
        self.core: Core = kind(self.texts, CoreOptions(**options), kv=kv)
        self.now_s = 0.0
        self.events: list[EngineEvent] = []

    def step(self) -> StepPlan | None:
        plan = self.core.plan(self.now_s)
        while plan is None and isinstance(self.core, LanedCore) and self.core.prepare():
            plan = self.core.plan(self.now_s)
        if plan is not None:
            outputs = [
                self.texts.next(row.generation.generation_id) for row in plan.rows if row.samples
            ]
            self.core.complete(plan, outputs, self.now_s, self.now_s + 0.01)
        self.now_s += 0.01
        self.events += self.core.take_events()
        return plan

    def run(self) -> None:
        while self.step() is not None:
            pass

    def segments(self, name: str = 'g') -> list[str]:
        return [
            event.segment.text
            for event in self.events
            if isinstance(event, SegmentGenerated) and event.generation_id == name
        ]

    def all_ended(self) -> dict[str, GenerationEnded]:
        found = [event for event in self.events if isinstance(event, GenerationEnded)]
        assert len({event.generation_id for event in found}) == len(found)
        return {event.generation_id: event for event in found}

    def ended(self, name: str = 'g') -> GenerationEnded:
        (event,) = (
            e for e in self.events if isinstance(e, GenerationEnded) and e.generation_id == name
        )
        return event

    def phase(self, name: str = 'g') -> Phase:
        (state,) = (g for g in self.core.state(self.now_s).generations if g.generation_id == name)
        return state.phase
