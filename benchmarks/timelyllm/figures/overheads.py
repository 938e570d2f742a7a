"""Tables 4 and 5: what segmentation and scheduling cost, in processor time of this machine.

Segmentation: one plan of each kind through the engine's core with a model that costs nothing,
segmented and whole; the difference is what checking for ends, suspending and resuming cost. KV
stays where it is, so nothing is copied. The share is of the plan's time at the step times of the
preset. Times are the least of many runs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from benchmarks.common import Target
from benchmarks.timelyllm.comparison import PAPER
from benchmarks.timelyllm.figures.experiment import Experiment, Result, Table
from benchmarks.timelyllm.printed import PAPER_MS, PAPER_PERCENT, PAPER_US
from benchmarks.timelyllm.scheduling import ours_us
from benchmarks.workloads import PROFILES, TIMED, plan_tokens
from timely_llm_ros.engines import GenerationRequest, Submit
from timely_llm_ros.engines.core import CoreOptions, EngineCore, Output
from timely_llm_ros.engines.simulated import find_hardware
from timely_llm_ros.evaluation import SegmentShape, WorkloadTask
from timely_llm_ros.scheduling import SchedulingOptions, ServingMode
from timely_llm_ros.skills import Prompt, Scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.timelyllm.figures.runs import Runs

KINDS = tuple(range(1, 9))
REPEATS = 40


class Given:
    """A model that costs nothing: it has its tokens already."""

    evicts = False

    def open(self, _request: GenerationRequest) -> tuple[str, int, int]:
        return '', 0, 1

    def observe(self, _generation_id: str, _text: str) -> int:
        return 0

    def evict(self, generation_id: str, tokens: int) -> None: ...

    def drop(self, generation_id: str) -> None: ...

    def drop_prefix(self, key: str) -> None: ...

    def fast_forward(self, generation_id: str) -> None: ...

    def close(self, _generation_id: str) -> tuple[int, ...]:
        return ()


def run(runs: Runs) -> Result:
    """Measure both; seeds do not matter."""
    step_time = find_hardware(runs.hardware).step_time
    rows: list[tuple[str, ...]] = []
    figures: list[dict[str, Any]] = []
    for kind, paper_ms, paper_percent in zip(KINDS, PAPER_MS, PAPER_PERCENT, strict=True):
        profile = PROFILES[kind]
        cost_ms = {mode: plan_ms(kind, mode) for mode in ('segmented', 'whole_plan')}
        extra_ms = cost_ms['segmented'] - cost_ms['whole_plan']
        plan_s = step_time.prefill_s + step_time.decode_s * profile.tokens
        percent = 0.1 * extra_ms / plan_s
        figures.append({'kind': kind, 'cost_ms': cost_ms, 'percent': percent})
        cells = (
            str(kind),
            profile.name,
            str(len(profile.segment_tokens)),
            f'{extra_ms:.3f}',
            f'{percent:.3f}',
            f'{paper_ms}',
            f'{paper_percent}',
        )
        rows.append(cells)
    headers = (
        'kind', 'name', 'segments', 'ms', '% of the plan', 'paper (ms)', 'paper (%)',
    )  # fmt: skip
    table_4 = Table('Table 4: segmentation, per plan', headers, tuple(rows))
    ours = {
        count: {
            'utility': ours_us(
                count, 'utility', SchedulingOptions(admission='feasible', interrupts=True)
            ),
            'lookahead': ours_us(count, 'least_loss', SchedulingOptions(interrupts=True)),
        }
        for count in PAPER_US
    }
    table_5 = Table(
        'Table 5: choosing one step, by generations waiting (us)',
        ('waiting', 'utility', 'lookahead', 'paper'),
        tuple(
            (str(count), f'{us["utility"]:.1f}', f'{us["lookahead"]:.1f}', f'{PAPER_US[count]:.0f}')
            for count, us in ours.items()
        ),
    )
    return Result(
        (table_4, table_5),
        {'hardware': runs.hardware, 'segmentation': figures, 'scheduling_us': ours},
        [
            Target(
                'segmentation, largest share of a plan (%)',
                max(item['percent'] for item in figures),
                '<=',
                2.0,
            ),
            Target('scheduling at 8 waiting (us)', ours[8]['utility'], '<=', 2030.0),
        ],
        lambda figure: draw(figure, figures, ours),
        (9.0, 3.4),
    )


def plan_ms(kind: int, mode: ServingMode) -> float:
    """Return the processor time of one plan through the engine's core (ms), least of many."""
    profile = PROFILES[kind]
    shapes = tuple(SegmentShape(tokens, 1.0) for tokens in profile.segment_tokens)
    task = WorkloadTask(0.0, profile.name, profile.group, shapes)
    least_s = float('inf')
    for _ in range(REPEATS):
        tokens = plan_tokens(task)
        core = EngineCore(Given(), CoreOptions(mode=mode, scheduling=PAPER))
        request = GenerationRequest(
            'plan', Prompt('', 'x'), TIMED, Scene(()), profile.utility, 0.0, max_tokens=512
        )
        started_s = time.process_time()
        core.apply(Submit(request))
        now_s = 0.0
        for number, text in enumerate(tokens):
            plan = core.plan(now_s)
            if plan is None:
                raise RuntimeError(f'kind {kind}: expected a step for each token')
            output = Output(text, ended=number + 1 == len(tokens))
            core.complete(plan, [output], now_s, now_s + 0.02)
            core.take_events()
            now_s += 0.02
        least_s = min(least_s, time.process_time() - started_s)
    return 1000.0 * least_s


def draw(figure: Figure, figures: list[dict[str, Any]], ours: dict[int, dict[str, float]]) -> None:
    """Draw both against the paper's, on logarithmic scales."""
    left, right = figure.subplots(1, 2)
    left.bar([kind - 0.2 for kind in KINDS], PAPER_PERCENT, 0.4, color='#8c8c8c', label='paper')
    shares = [item['percent'] for item in figures]
    left.bar([kind + 0.2 for kind in KINDS], shares, 0.4, color='#3b6fb6', label='here')
    left.set_title('segmentation, % of the plan', fontsize=9)
    left.set_xlabel('kind of task', fontsize=8)
    right.plot(list(PAPER_US), list(PAPER_US.values()), 'o-', color='#8c8c8c', label='paper')
    for name, colour in (('utility', '#3b6fb6'), ('lookahead', '#2a9d6f')):
        right.plot(list(ours), [us[name] for us in ours.values()], 'o-', color=colour, label=name)
    right.set_title('choosing one step (us)', fontsize=9)
    right.set_xlabel('generations waiting', fontsize=8)
    for axis in (left, right):
        axis.set_yscale('log')
        axis.legend(fontsize=8, frameon=False)
    figure.tight_layout()


EXPERIMENT = Experiment(
    'tables45',
    'Overheads of segmentation and scheduling',
    ('segmentation below 6 % of a plan; scheduling 0.58 to 2.03 ms for 1 to 8 tasks',),
    run,
)
