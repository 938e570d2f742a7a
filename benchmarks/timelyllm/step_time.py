"""How long one engine step takes, by batch size, and what of it is scheduling.

    .venv/bin/python -m benchmarks.timelyllm.step_time [--model PATH] [--context 400] [--json FILE]

Runs in this process on one thread, without the worker's socket. Rows are medians, in ms: of the
wall time, and of the CPU time of this thread, which other programs on the machine disturb less.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median

from benchmarks.common import COUNT, arguments, new_file
from timely_llm_ros.engines import GenerationEnded, GenerationRequest, Resume, Submit
from timely_llm_ros.engines.core import CoreOptions, EngineCore
from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model
from timely_llm_ros.engines.torch.compute import TorchBackend, load_model
from timely_llm_ros.skills import Prompt, Scene, SceneObject
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

SKILLS = find_skill_set('tello')
SCENE = Scene(tuple(SceneObject(f'cat_{number}', 'cat') for number in range(20)))
MAX_KV_TOKENS = 16384
COLUMNS = ('step_ms', 'cpu_ms', 'schedule_ms', 'model_ms', 'segment_ms')


def measure(
    path: str, batch: int, context: int, steps: int, *, constrained: bool
) -> dict[str, float]:
    """Decode ``steps`` tokens for ``batch`` generations behind ``context`` prompt tokens each."""
    loaded = load_model(path, max_kv_tokens=MAX_KV_TOKENS)
    backend = TorchBackend(loaded)
    core = EngineCore(
        backend, CoreOptions(mode='stream', max_running=batch, max_kv_tokens=MAX_KV_TOKENS)
    )
    forced = tuple(loaded.texts.encode('move_forward(100);' * steps))[: steps + 20]
    requests = {
        f'g{number}': GenerationRequest(
            f'g{number}',
            Prompt('p', '\n' * (context - 1)),
            SKILLS,
            SCENE,
            NORMAL,
            0.0,
            constrained=constrained,
            forced_token_ids=None if constrained else forced,
        )
        for number in range(batch)
    }
    for request in requests.values():
        core.apply(Submit(request))
    rows: list[tuple[float, ...]] = []
    while len(rows) < steps:
        start_s, cpu_s = time.perf_counter(), time.thread_time()
        plan = core.plan(start_s)
        planned_s = time.perf_counter()
        if plan is None:
            raise RuntimeError('nothing to do: expected generations without end')
        outputs = backend.execute(plan)
        computed_s = time.perf_counter()
        core.complete(plan, outputs, planned_s, computed_s)
        end_s, used_s = time.perf_counter(), time.thread_time() - cpu_s
        for event in core.take_events():
            if isinstance(event, GenerationEnded):
                core.apply(Submit(requests[event.generation_id]))
        for name in requests:
            core.apply(Resume(name, 'true'))
        if plan.decodes_only and len(plan.rows) == batch:
            rows.append(
                (
                    end_s - start_s,
                    used_s,
                    planned_s - start_s,
                    computed_s - planned_s,
                    end_s - computed_s,
                )
            )
    medians = (1e3 * median(column) for column in zip(*rows, strict=True))
    return {
        'batch': batch,
        'context': context,
        'grammar': constrained,
        **dict(zip(COLUMNS, medians, strict=True)),
    }


def main() -> None:
    parser = arguments(__doc__, json=False)
    parser.add_argument('--model', default=SHIPPED_MODEL, help='a folder or a shipped name')
    parser.add_argument('--context', type=COUNT, default=400, help='prompt tokens')
    parser.add_argument('--steps', type=COUNT, default=150, help='decoding steps per row')
    parser.add_argument('--json', type=new_file, help='also write the rows there')
    options = parser.parse_args()
    print(''.join(f'{name:>12}' for name in ('batch', 'context', 'grammar', *COLUMNS)))
    rows = []
    for constrained in (False, True):
        for batch in (1, 4, 8):
            row = measure(
                find_model(options.model),
                batch,
                options.context,
                options.steps,
                constrained=constrained,
            )
            rows.append(row)
            values = ''.join(f'{row[name]:12.3f}' for name in COLUMNS)
            grammar = 'yes' if constrained else 'no'
            print(f'{batch:12}{options.context:12}{grammar:>12}{values}')
    if options.json is not None:
        Path(options.json).write_text(json.dumps(rows, indent=1) + '\n')


if __name__ == '__main__':
    main()
