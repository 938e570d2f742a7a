"""``timely-llm profile``: measures how long a model's prompts and steps take on this machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.cli.shared import (
    add_fields,
    add_force,
    add_model,
    progress_bar,
    require_fields,
)
from timely_llm_ros.command_line import require_new, require_range
from timely_llm_ros.engines import TorchConfig
from timely_llm_ros.engines.tokens import find_model, require_model_files
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.times import (
    PrefillPoint,
    Profile,
    ProfilePlan,
    StepPoint,
    fit_profile,
    measure,
    profile_errors,
    write_profile,
)

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from timely_llm_ros.engines.torch.compute import LoadedModel
    from timely_llm_ros.prediction.times import (
        ExecutionTimeModel,
        ProfileErrors,
        RequestOverhead,
        SizeErrors,
        Timings,
    )

PROMPTS = (16, 50, 100, 250, 500, 1000)
"""Sizes of prompts that are fitted by default (tokens): no whole chunks, as most prompts."""

CONTEXTS = (16, 64, 256, 512, 1024)
"""Sizes of contexts that are fitted by default (tokens)."""

BATCHES = (1, 2, 4, 8)
"""Batch sizes that are measured by default."""

STEPS = 24
"""Steps timed one after the other."""

REPEATS = 20
"""Rounds by default: enough held-out prompts for a margin of 99 %."""

BUSY = 0.25
"""Load per core above which the machine has something else to do."""

_DESCRIPTION = """\
Measure how long a model's prompts and decoding steps take on this machine, in rounds of ever new
order, fit TimeBill's execution-time model to the medians, add what whole requests take beside the
model, and write a profile: coefficients, errors on sizes that were not fitted, margins for worst
cases. The simulated engine runs on it.

Leave the machine alone meanwhile. Ctrl-C ends without writing anything.
"""

_EXAMPLES = """\
examples:
  timely-llm profile
  timely-llm profile --model /models/Qwen2.5-7B --device cuda --dtype bfloat16 -o a100_qwen.json
  timely-llm profile --prompts 64 512 4096 --contexts 64 4096 --batches 1 8 32 --repeats 40
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = _DESCRIPTION
    parser.epilog = _EXAMPLES
    add_model(parser)
    add_fields(parser, TorchConfig, 'dtype')
    parser.add_argument(
        '--kv-tokens', type=int, default=65536, metavar='N',
        help='tokens of KV that the engine may hold (default: 65536)',
    )  # fmt: skip
    parser.add_argument(
        '--prefill-chunk', type=int, default=128, metavar='N',
        help='most prompt tokens computed at once (default: 128)',
    )  # fmt: skip
    for option, default, what in (
        ('--prompts', PROMPTS, 'sizes of prompts to fit, three or more'),
        ('--contexts', CONTEXTS, 'sizes of contexts to fit, two or more'),
        ('--batches', BATCHES, 'batch sizes to measure'),
    ):
        sizes = ' '.join(map(str, default))
        parser.add_argument(
            option, type=int, nargs='+', metavar='N', help=f'{what} (default: {sizes}, as they fit)'
        )
    parser.add_argument(
        '--prompts-file', type=Path, metavar='FILE',
        help='your own tasks, as JSON lines, whose prompts have the sizes to fit',
    )  # fmt: skip
    parser.add_argument(
        '--repeats', type=int, default=REPEATS, metavar='N',
        help=f'rounds; a margin of 99 %% takes about {REPEATS} (default: {REPEATS})',
    )  # fmt: skip
    parser.add_argument(
        '-o', '--output', type=Path, metavar='FILE',
        help='where the profile goes (default: ./profile_<model>.json)',
    )  # fmt: skip
    add_force(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from rich.console import Console

    require_fields(options, TorchConfig, 'threads')
    for name in ('kv_tokens', 'prefill_chunk'):
        require_range(options, name, 1)
    path = find_model(options.model)
    require_model_files(path)
    if options.prompts_file is not None:
        options.prompts = _prompt_sizes(options, path)
    # Checked as far as it goes without the model, because loading one takes its time.
    ProfilePlan(
        tuple(options.prompts or PROMPTS),
        tuple(options.contexts or CONTEXTS),
        tuple(options.batches or BATCHES),
        options.repeats,
    )
    output = options.output or Path(f'profile_{Path(path).name}.json')
    if not output.parent.is_dir():
        raise ConfigurationError(f'--output {output}: expected a file in a folder that exists')
    require_new(output, force=options.force)

    console, screen = Console(highlight=False), Console(highlight=False, stderr=True)
    load = os.getloadavg()[0]
    if load > BUSY * (os.cpu_count() or 1):
        screen.print(
            f'The machine is busy (load {load:.1f}): what is measured now will be too long.',
            style='yellow',
            soft_wrap=True,
        )
    loaded, plan, timings = _measure(options, path, screen)
    model = fit_profile(timings)
    errors = profile_errors(model, timings)
    overhead = _requests(options, loaded, model, plan, screen)
    times = overhead.added_to(model)
    about = {
        'date': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()),
        'model': {
            'name': Path(path).name,
            'parameters': loaded.info.parameters,
            'dtype': options.dtype,
            'device': options.device,
            'threads': options.threads,
            'prefill_chunk': options.prefill_chunk,
        },
        'machine': {**_machine(), 'load_before': round(load, 2)},
        'errors': _error_fields(errors),
        'requests': {
            'prompt_s': overhead.prompt_s,
            'step': [{'batch': batch, 'step_s': step_s} for batch, step_s in overhead.steps_s],
        },
        'repeats': plan.repeats,
        'measurements': _measurements(timings),
    }
    profile = Profile(times, options.kv_tokens, about)
    write_profile(profile, output)
    _show(profile, errors, plan, overhead, console)
    console.print(f'{output} written.', soft_wrap=True)
    return 0


def _prompt_sizes(options: argparse.Namespace, path: str) -> list[int]:
    """Return sizes (tokens) between the shortest and the longest prompt of a file.

    Raises:
        TimelyError: The file cannot be used, or all its prompts are about as long.
    """
    from timely_llm_ros.cli.models import read_requests
    from timely_llm_ros.engines import EngineInfo
    from timely_llm_ros.engines.tokens import PromptSize
    from timely_llm_ros.prompts import load_prompts

    if options.prompts:
        raise ConfigurationError('--prompts and --prompts-file: expected one of them')
    size = PromptSize(EngineInfo('torch', path, 0, '', 0, 0, 0.0))
    requests = read_requests(options.prompts_file, load_prompts('auto', path), 1)
    found = sorted(size(request.prompt) for request in requests)
    spread = {found[round(place * (len(found) - 1) / 5)] for place in range(6)} if found else set()
    if len(spread) < 3:
        raise ConfigurationError(
            f'--prompts-file {options.prompts_file}: prompts of {sorted(spread)} tokens: expected '
            'at least 3 sizes, or give --prompts'
        )
    return sorted(spread)


def _measure(
    options: argparse.Namespace, path: str, screen: Console
) -> tuple[LoadedModel, ProfilePlan, Timings]:
    """Load the model and time it."""
    with screen.status(f'Loading {Path(path).name}'):
        from timely_llm_ros.engines.torch.compute import TorchStopwatch, load_model

        loaded = load_model(
            path,
            max_kv_tokens=options.kv_tokens,
            device=options.device,
            dtype=options.dtype,
            threads=options.threads,
        )
        stopwatch = TorchStopwatch(loaded, prefill_chunk=options.prefill_chunk, steps=STEPS)
    # Defaults shrink to what fits; what was asked for does not.
    batches = tuple(options.batches or BATCHES)
    context_limit = min(stopwatch.longest, options.kv_tokens // max(batches))
    plan = ProfilePlan(
        tuple(options.prompts or (n for n in PROMPTS if n <= stopwatch.longest)),
        tuple(options.contexts or (n for n in CONTEXTS if n < context_limit)),
        batches,
        options.repeats,
    )
    for point in plan.points:
        if isinstance(point, StepPoint):
            stopwatch.check(point.batch, point.kv_tokens + 1)
        else:
            stopwatch.check(1, point.tokens)
    with progress_bar(screen) as progress:
        task = progress.add_task('Measuring', total=plan.visits)
        timings = measure(plan, stopwatch, advance=lambda: progress.advance(task))
    return loaded, plan, timings


def _requests(
    options: argparse.Namespace,
    loaded: LoadedModel,
    times: ExecutionTimeModel,
    plan: ProfilePlan,
    screen: Console,
) -> RequestOverhead:
    """Serve whole requests, for what they take beside the model."""
    from timely_llm_ros.engines.torch.compute import find_method, measure_requests

    with screen.status('Serving requests'):
        return measure_requests(
            loaded,
            times,
            prefill_chunk=options.prefill_chunk,
            rounds=plan.repeats,
            batches=plan.batches,
            eviction=None if loaded.sliding else find_method('snapkv'),
        )


def _machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
        cpu = next(line.split(':', 1)[1].strip() for line in lines if line.startswith('model name'))
    except (OSError, StopIteration):
        pass
    return {
        'cpu': cpu,
        'cores': os.cpu_count(),
        'system': f'{platform.system()} {platform.machine()}',
        'python': platform.python_version(),
        'torch': metadata.version('torch'),
    }


def _error_fields(errors: ProfileErrors) -> dict[str, Any]:
    """Return the errors as they go into the file; None where nothing was held out."""
    return {
        'prefill': asdict(errors.prefill),
        'step': [{'batch': batch, **asdict(size)} for batch, size in errors.steps.items()],
    }


def _measurements(timings: Timings) -> dict[str, list[dict[str, Any]]]:
    """Return medians by size, so that a fit can be judged or made anew."""
    rows: dict[str, list[dict[str, Any]]] = {'prefill': [], 'step': []}
    for point, times_s in timings.items():
        kind = 'prefill' if isinstance(point, PrefillPoint) else 'step'
        median_s = statistics.median(times_s)
        rows[kind].append({**asdict(point), 'median_s': median_s, 'times': len(times_s)})
    for kind in rows:
        rows[kind].sort(key=lambda row: list(row.values()))
    return rows


def _show(
    profile: Profile,
    errors: ProfileErrors,
    plan: ProfilePlan,
    overhead: RequestOverhead,
    console: Console,
) -> None:
    """Print what was found."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    model, machine, times = profile.about['model'], profile.about['machine'], profile.times
    title = f'{model["name"]}, {model["dtype"]}, {model["device"]}: {machine["cpu"]}'
    table = Table(box=box.SIMPLE_HEAD, title=escape(title), title_justify='left')
    table.add_column('over N tokens', no_wrap=True)
    for name in ('ns N²', 'µs N', '+ ms', 'error', 'held out', 'worst'):
        table.add_column(name, justify='right', no_wrap=True)
    table.add_row(
        'prompt',
        f'{times.prefill_square_s * 1e9:.4g}',
        f'{times.prefill_token_s * 1e6:.4g}',
        f'{times.prefill_s * 1e3:.4g}',
        *_percentages(errors.prefill),
    )
    for entry in times.decode:
        table.add_row(
            f'step of {entry.batch}',
            '',
            f'{entry.kv_token_s * 1e6:.4g}',
            f'{entry.step_s * 1e3:.4g}',
            *_percentages(errors.steps[entry.batch]),
        )
    console.print(table)
    steps = ', '.join(f'{1e3 * it:.2f} ms to a step of {batch}' for batch, it in overhead.steps_s)
    console.print(
        "Of that, text, grammar and the engine's account add "
        f'{1e3 * overhead.prompt_s:.2f} ms to a prompt, {steps}.'
    )
    for margin in times.margins:
        console.print(
            f'{margin.coverage:.0%} of single times are below {margin.prefill:.2f} (prompt), '
            f'{margin.step:.2f} (step) times the prediction.'
        )
    if not times.margins:
        console.print('Too few measurements for a margin: raise --repeats.')
    one, longest = times.at(1), max(plan.kv_tokens)
    share = one.kv_token_s * longest * 0.95 / one.step_time_s(longest)
    console.print(
        f'Without 95 % of {longest} tokens of context a step would be {share:.1%} shorter.'
    )


def _percentages(errors: SizeErrors) -> tuple[str, str, str]:
    """Return mean errors of fitted and other sizes, and the worst of all."""
    held_out = '' if errors.held_out_mape_pct is None else f'{errors.held_out_mape_pct:.1f} %'
    return f'{errors.fitted_mape_pct:.1f} %', held_out, f'{errors.worst_pct:+.0f} %'
