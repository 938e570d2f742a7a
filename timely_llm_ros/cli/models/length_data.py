"""The plans that predictors of lengths learn from: a model's, for drawn tasks or a file's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.cli.shared import progress_bar
from timely_llm_ros.command_line import require_range
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from timely_llm_ros.engines import GenerationRequest
    from timely_llm_ros.prompts import Prompts
    from timely_llm_ros.training import LengthSample

TASKS = ('said', 'open')

FEWEST = 10
"""Plans that must have ended, so that there is something to learn from and to judge by."""

FEWEST_PLANS = 20
"""Plans that are generated at least."""


def add_data_options(parser: argparse.ArgumentParser, *, plans: int) -> None:
    """Add the options that say which plans are generated, ``plans`` by default."""
    parser.add_argument(
        '--plans', type=int, default=plans, metavar='N',
        help=f'plans to generate (default: {plans}; of --prompts-file at most as many as it has)',
    )  # fmt: skip
    parser.add_argument(
        '--prompts-file', type=Path, metavar='FILE',
        help='your own tasks, as JSON lines; see docs/reference/batching.md (default: drawn ones)',
    )  # fmt: skip
    parser.add_argument(
        '--max-tokens', type=int, default=0, metavar='N',
        help='where a plan is cut off (default: 128, with --prompts-file 512)',
    )  # fmt: skip
    parser.add_argument(
        '--objects', type=int, nargs=2, metavar=('FEWEST', 'MOST'),
        help='in the scenes that are drawn (default: 1 200; open tasks: 16 48)',
    )  # fmt: skip
    parser.add_argument(
        '--tasks', choices=TASKS, default=TASKS[0],
        help='all kinds of task in many wordings, or open ones like "tidy up", '
        'which leave to the model what is done (default: said)',
    )  # fmt: skip
    parser.add_argument(
        '--temperature', type=float, default=0.0,
        help='0 for the likeliest token always (default), above to draw tokens',
    )  # fmt: skip
    parser.add_argument(
        '--samples', type=Path, metavar='FILE', help='plans that were generated before'
    )
    parser.add_argument(
        '--keep-samples', type=Path, metavar='FILE', help='write the plans to a file (.npz)'
    )


def check_data_options(options: argparse.Namespace) -> None:
    """Check them.

    Raises:
        ConfigurationError: One cannot be used.
    """
    for name, least in (('plans', FEWEST_PLANS), ('temperature', 0), ('max_tokens', 0)):
        require_range(options, name, least)
    fewest, most = options.objects or (1, 1)
    if not 1 <= fewest <= most:
        raise ConfigurationError(f'--objects {fewest} {most}: expected 1 or more, the fewest first')
    for name in ('samples', 'prompts_file'):
        file = getattr(options, name)
        if file is not None and not file.is_file():
            raise ConfigurationError(f'--{name.replace("_", "-")} {file}: expected a file')


def length_samples(
    options: argparse.Namespace, folder: Path, screen: Console, *, layers: bool
) -> Sequence[LengthSample]:
    """Return the plans to learn from, those that were cut off too.

    Raises:
        ConfigurationError: The file of samples or prompts cannot be used, or too few plans end.
    """
    from timely_llm_ros.training import read_samples

    if options.samples is not None:
        samples: Sequence[LengthSample] = read_samples(options.samples)
        _require_enough(samples, f'--samples {options.samples}')
        if layers and not samples[0].states.shape[1]:
            raise ConfigurationError(f'--samples {options.samples}: expected one with states')
        return samples
    return _generate(options, folder, screen, layers=layers)


def longest_of(options: argparse.Namespace, samples: Sequence[LengthSample], usual: int) -> int:
    """Return the greatest length (tokens) that a predictor is to know.

    It is that of the plans, and ``usual`` for drawn tasks, whose plans it was found for.
    """
    if options.prompts_file is None and not options.max_tokens:
        return usual
    return max(sample.length for sample in samples)


def _generate(
    options: argparse.Namespace, folder: Path, screen: Console, *, layers: bool
) -> list[LengthSample]:
    from timely_llm_ros.engines.tokens import Sampling
    from timely_llm_ros.engines.torch.compute import load_model
    from timely_llm_ros.prompts import load_prompts
    from timely_llm_ros.training import generate_samples, write_samples

    # What is wrong with prompts is said before the model is loaded, which takes its time.
    requests = _requests(options, load_prompts('auto', str(folder)))
    with screen.status(f'Loading {folder.name}'):
        loaded = load_model(
            str(folder), max_kv_tokens=65536, device=options.device, threads=options.threads
        )
    with progress_bar(screen) as progress:
        task = progress.add_task('Generating', total=len(requests))
        found = generate_samples(
            loaded,
            iter(requests),
            sampling=Sampling(options.temperature, seed=options.seed),
            layers=range(loaded.layers + 1) if layers or options.keep_samples else (),
            advance=lambda: progress.advance(task),
            censored=True,
        )
    samples = list(found.values())
    _require_enough(samples, f'{len(requests)} plans of {folder.name}')
    if options.keep_samples is not None:
        write_samples(samples, options.keep_samples)
    cut = sum(sample.censored for sample in samples)
    if cut:
        limit = max(request.max_tokens for request in requests)
        screen.print(
            f'{cut} of {len(samples)} plans were cut off after {limit} tokens: they count as '
            'longer than that.',
            soft_wrap=True,
        )
    return samples


def _requests(options: argparse.Namespace, prompts: Prompts) -> list[GenerationRequest]:
    if options.prompts_file is not None:
        return list(read_requests(options.prompts_file, prompts, options.max_tokens or 512))[
            : options.plans
        ]
    from timely_llm_ros.training import ALL_SIZES, SIZES, draw_open_requests, draw_requests

    if options.tasks == 'open':
        sizes = tuple(options.objects or SIZES)
        drawn = draw_open_requests(
            options.plans, options.seed, 'trained', sizes=sizes, prompts=prompts
        )
    else:
        sizes = tuple(options.objects or ALL_SIZES)
        drawn = draw_requests(options.plans, options.seed, 'trained', sizes=sizes, prompts=prompts)
    if not options.max_tokens:
        return list(drawn)
    return [replace(request, max_tokens=options.max_tokens) for request in drawn]


def read_requests(path: Path, prompts: Prompts, max_tokens: int) -> Iterator[GenerationRequest]:
    """Yield the requests of a file of prompts.

    Raises:
        TimelyError: The file or one of its prompts cannot be used.
    """
    from timely_llm_ros.offline import RequestMaker
    from timely_llm_ros.planner.prompts import read_prompts

    try:
        lines = path.read_text(encoding='utf-8').splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigurationError(f'prompts {str(path)!r}: {err}') from err
    make = RequestMaker(max_tokens, prompts)
    for prompt in read_prompts(lines, str(path)):
        # Robots' plans are served with the values that they ask for.
        yield replace(make(prompt), background=False)


def _require_enough(samples: Sequence[LengthSample], what: str) -> None:
    """Require that there is something to learn from.

    Raises:
        ConfigurationError: Too few plans ended.
    """
    ended = sum(not sample.censored for sample in samples)
    if ended < FEWEST:
        raise ConfigurationError(
            f'{what}: {ended} of {len(samples)} ended by themselves: expected at least {FEWEST}; '
            'give more --plans or higher --max-tokens, or look at what the model writes with '
            '`timely-llm evaluate`'
        )
