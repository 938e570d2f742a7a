"""Fig. 10: chats, cut at sentences, at paragraphs or not at all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks.common import Target
from benchmarks.timelyllm.chat_experiment import chatbot, run_chats
from benchmarks.timelyllm.comparison import (
    GroupSummary,
    Summary,
    lookahead,
    mean,
    paper,
    summarise,
    whole_plan,
)
from benchmarks.timelyllm.figures.experiment import Experiment, Result, Table
from benchmarks.workloads import (
    CHAT_HARDWARE,
    GROUP,
    ChatSpec,
    System,
    check_all_succeeded,
    compose_chats,
)
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from benchmarks.timelyllm.figures.runs import Runs
    from timely_llm_ros.skills import SegmentEnd

CAPS = (8, 16)
WHOLE, PARAGRAPH, SENTENCE, OURS = 'whole (vLLM)', 'paragraphs', 'sentences', 'sentences, lookahead'
WAYS: dict[str, tuple[Callable[[int], System], SegmentEnd, tuple[int, ...]]] = {
    WHOLE: (whole_plan, 'sentence', CAPS),
    PARAGRAPH: (lambda cap: paper('utility', cap), 'paragraph', CAPS),
    SENTENCE: (lambda cap: paper('utility', cap), 'sentence', CAPS),
    OURS: (lookahead, 'sentence', (32,)),
}
COLOURS = {WHOLE: '#8c8c8c', PARAGRAPH: '#8fb3dd', SENTENCE: '#3b6fb6', OURS: '#2a9d6f'}


@dataclass(frozen=True, slots=True)
class Bar:
    """One way to serve chats with one model, at its best batch."""

    model: str
    way: str
    batch: int
    summary: Summary

    @property
    def chats(self) -> GroupSummary:
        """The means over all chats."""
        return self.summary.groups[GROUP]


def run(runs: Runs) -> Result:
    """Serve stories with both models, each way at its best batch."""
    bars = [
        best(runs, model, way, make, segments, caps)
        for model in CHAT_HARDWARE
        for way, (make, segments, caps) in WAYS.items()
    ]
    rows = tuple(
        (
            bar.model,
            bar.way if bar.way == OURS else f'{bar.way}, batch {bar.batch}',
            f'{bar.summary.utility:.3f} ({bar.summary.spread:.3f})',
            f'{bar.chats.response_s:.3f}',
            f'{bar.chats.waiting_s:.3f}',
        )
        for bar in bars
    )
    of = {(bar.model, bar.way): bar for bar in bars}
    targets = []
    for model in CHAT_HARDWARE:
        whole, paragraph, sentence = (of[model, way] for way in (WHOLE, PARAGRAPH, SENTENCE))
        less = 1 - sentence.summary.waiting_s / whole.summary.waiting_s
        gain = sentence.summary.utility - whole.summary.utility
        order = sentence.summary.utility - paragraph.summary.utility
        targets += [
            Target(f'{model}: delay less than whole by', less, '>=', 0.96),
            Target(f'{model}: utility more than whole by', gain, '>=', 0.0),
            Target(f'{model}: sentences ahead of paragraphs by', order, '>=', 0.0),
        ]
    title = f'stories, {len(runs.seeds)} draws, each way at its best batch of {CAPS}'
    headers = ('model', 'segments', 'mean utility (sd)', 'response (s)', 'waiting (s)')
    return Result(
        (Table(title, headers, rows),),
        {'seeds': len(runs.seeds), 'bars': [asdict(bar) for bar in bars]},
        targets,
        lambda figure: draw(figure, bars),
        (10.0, 3.6),
    )


def best(
    runs: Runs,
    model: str,
    way: str,
    make: Callable[[int], System],
    segments: SegmentEnd,
    caps: tuple[int, ...],
) -> Bar:
    """Serve the stories at each largest batch and return the best."""
    skill_set = chatbot(segments)

    def serve(cap: int) -> Summary:
        def one(seed: int) -> Summary:
            chats = compose_chats(ChatSpec(), seed)
            records = run_chats(chats, make(cap), skill_set, CHAT_HARDWARE[model])
            check_all_succeeded(records)
            return summarise(records, {GROUP: NORMAL})

        return mean(runs.each(f'{model}: {way}, batch {cap}', one))

    found = {cap: serve(cap) for cap in caps}
    cap = max(caps, key=lambda cap: found[cap].utility)
    return Bar(model, way, cap, found[cap])


def draw(figure: Figure, bars: list[Bar]) -> None:
    """Draw utility and delay, a group of bars per model."""
    models = list(CHAT_HARDWARE)
    left, right = figure.subplots(1, 2)
    width = 0.8 / len(WAYS)
    for place, way in enumerate(WAYS):
        mine = [bar for bar in bars if bar.way == way]
        at = [n + (place - 1.5) * width for n in range(len(models))]
        values = (
            (left, [bar.summary.utility for bar in mine]),
            (right, [bar.chats.waiting_s for bar in mine]),
        )
        for axis, heights in values:
            drawn = axis.bar(at, heights, width, color=COLOURS[way], label=way)
            axis.bar_label(drawn, fmt='%.2f', fontsize=7)
    for axis, title in ((left, 'mean utility'), (right, 'waiting (s)')):
        axis.set_xticks(range(len(models)), models)
        axis.set_title(title, fontsize=9)
        axis.axhline(0, color='black', linewidth=0.6)
    right.legend(fontsize=7, frameon=False)
    figure.tight_layout()


EXPERIMENT = Experiment(
    'fig10',
    'Chat: stories cut at sentences or paragraphs, read at 300 words per minute',
    (
        'sentences on Phi-3: up to 21.57 more utility and 96 % less delay than whole (vLLM)',
        'sentences ahead of paragraphs ahead of whole on both models',
    ),
    run,
)
