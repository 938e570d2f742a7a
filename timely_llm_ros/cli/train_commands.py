"""``timely-llm train-rlp`` and ``train-probe``: predictors of plans' lengths for a model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.progress import Progress

    from timely_llm_ros.engines.length_samples import LengthSample

PLANS = 2400
"""Plans that are learned from by default."""

HELD_OUT_SHARE = 5
"""One plan in so many is not learned from, but judges what was learned."""

_RLP = """\
Train TimeBill's response-length predictor: have the model write plans for tasks of the generator,
and let a small language model learn from the prompts alone how long each plan came out. Writes
rlp.json and rlp.safetensors into the model's folder predictors (or --output).
"""
_PROBE = """\
Train TRAIL's probe: have the model write plans for tasks of the generator, watch the hidden states
of every layer, learn from each layer how many tokens are left, and keep the best layer. Writes
probe.json and probe.safetensors into the model's folder predictors (or --output).
"""
_EXAMPLES = """\
examples:
  timely-llm {0}
  timely-llm {0} --model /models/Qwen2.5-0.5B --plans 5000 --output ~/predictors
  timely-llm {0} --samples plans.npz        # what --keep-samples of either command wrote
"""


def add_parser(commands: Any) -> None:
    """Add the commands to a command line."""
    for name, what, description, run in (
        ('train-rlp', 'train a predictor of response lengths', _RLP, _run_rlp),
        ('train-probe', 'train a probe of remaining lengths', _PROBE, _run_probe),
    ):
        parser = commands.add_parser(
            name,
            help=what,
            description=description,
            epilog=_EXAMPLES.format(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument(
            '--model', default='timely-planner', metavar='NAME_OR_PATH',
            help='a shipped model or a folder (default: timely-planner)',
        )  # fmt: skip
        parser.add_argument(
            '--plans', type=int, default=PLANS, metavar='N',
            help=f'plans to learn from (default: {PLANS})',
        )  # fmt: skip
        parser.add_argument('--seed', type=int, default=0, help='of tasks and weights (default: 0)')
        parser.add_argument(
            '--epochs', type=int, metavar='N', help='passes over the plans (default: as published)'
        )
        parser.add_argument('--device', default='cpu', help='where the model runs (default: cpu)')
        parser.add_argument(
            '--threads', type=int, default=1, metavar='N', help='threads on the CPU (default: 1)'
        )
        parser.add_argument(
            '--samples', type=Path, metavar='FILE', help='plans that were generated before'
        )
        parser.add_argument(
            '--keep-samples', type=Path, metavar='FILE', help='write the plans to a file (.npz)'
        )
        parser.add_argument(
            '-o',
            '--output',
            type=Path,
            metavar='FOLDER',
            help="default: the model's folder predictors",
        )
        parser.set_defaults(run=run)
        if name == 'train-rlp':
            parser.add_argument(
                '--bucket', type=int, default=4, metavar='TOKENS',
                help='lengths per bucket (default: 4)',
            )  # fmt: skip


def _run_rlp(options: argparse.Namespace) -> int:
    from rich.console import Console

    folder, output, screen = _prepare(options)
    if options.bucket < 1:
        raise ConfigurationError(f'--bucket {options.bucket}: expected at least 1')
    from timely_llm_ros.prediction.rlp import RlpSettings, read_rlp, write_rlp
    from timely_llm_ros.prediction.rlp_training import (
        RlpTraining,
        body_weights,
        build_network,
        train_network,
    )

    samples = _samples(options, folder, screen, layers=False)
    from timely_llm_ros.engines.length_samples import LONGEST
    from timely_llm_ros.engines.rlp_samples import PROMPT_TOKENS, rlp_samples, target_embedding

    training = RlpTraining(
        size=options.bucket, longest=LONGEST, seed=options.seed, threads=options.threads
    )
    if options.epochs:
        from dataclasses import replace

        training = replace(training, epochs=options.epochs)
    prompts, lengths = rlp_samples(folder, samples)
    learned = [row for row in range(len(prompts)) if row % HELD_OUT_SHARE]
    vocabulary, embedding = target_embedding(folder)
    network = build_network(training, vocabulary, embedding)
    with _progress(screen) as progress:
        task = progress.add_task('Learning', total=training.steps(len(learned)))
        train_network(
            network,
            training,
            [prompts[row] for row in learned],
            [lengths[row] for row in learned],
            advance=lambda loss: progress.advance(task),
        )
    settings = RlpSettings(options.bucket, training.longest, PROMPT_TOKENS, training.shape)
    about = {'model': folder.name, 'plans': len(learned), 'seed': options.seed}
    files = write_rlp(output, settings, body_weights(network), about)
    if options.output is not None:
        _copy_tokenizer(folder, output)
    model = read_rlp(output)
    held_out = [row for row in range(len(prompts)) if not row % HELD_OUT_SHARE]
    errors = [abs(model.distribution(prompts[row]).mean - lengths[row]) for row in held_out]
    mean = sum(lengths) / len(lengths)
    plain = sum(abs(lengths[row] - mean) for row in held_out) / len(held_out)
    Console(highlight=False).print(
        f'{len(held_out)} plans that it did not learn from: mean error '
        f'{sum(errors) / len(errors):.2f} tokens (their mean as the prediction: {plain:.2f})\n'
        + ', '.join(f'{path} ({path.stat().st_size / 1000:.0f} kB)' for path in files),
        soft_wrap=True,
    )
    return 0


def _run_probe(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from rich.console import Console

    folder, output, screen = _prepare(options)
    from timely_llm_ros.prediction.probe import RemainingLengthProbe, write_probe
    from timely_llm_ros.prediction.probe_training import (
        ProbeTraining,
        calibrated,
        probe_errors,
        train_probe,
    )

    samples = _samples(options, folder, screen, layers=True)
    training = ProbeTraining(seed=options.seed, threads=options.threads)
    if options.epochs:
        training = replace(training, epochs=options.epochs)
    learned = [sample for row, sample in enumerate(samples) if row % HELD_OUT_SHARE]
    held_out = [sample for row, sample in enumerate(samples) if not row % HELD_OUT_SHARE]
    layers = samples[0].states.shape[1]
    console = Console(highlight=False)
    found = {}
    with _progress(screen) as progress:
        task = progress.add_task('Learning', total=layers * training.epochs)
        for layer in range(layers):
            probe = train_probe(
                training,
                layer,
                [sample.states[:, layer] for sample in learned],
                advance=lambda: progress.advance(task),
            )
            states = [sample.states[:, layer] for sample in held_out]
            probe = calibrated(probe, states)
            found[layer] = probe, probe_errors(probe, states)
    console.print('layer  mean error of single answers, smoothed (tokens)')
    for layer, (_, errors) in found.items():
        console.print(f'{layer:5}  {errors.single:26.2f}, {errors.smoothed:.2f}')
    best = min(found, key=lambda layer: found[layer][1].smoothed)
    probe, errors = found[best]
    about = {
        'model': folder.name,
        'plans': len(learned),
        'tokens': sum(sample.length for sample in learned),
        'seed': options.seed,
        'layers': {
            str(layer): {'single': round(it.single, 3), 'smoothed': round(it.smoothed, 3)}
            for layer, (_, it) in found.items()
        },
    }
    files = write_probe(output, RemainingLengthProbe(probe.settings, probe.weights, about))
    console.print(
        f'layer {best} kept\n'
        + ', '.join(f'{path} ({path.stat().st_size / 1000:.0f} kB)' for path in files),
        soft_wrap=True,
    )
    return 0


def _prepare(options: argparse.Namespace) -> tuple[Path, Path, Console]:
    """Check the options; return the model's folder, the output's, and where progress goes."""
    from rich.console import Console

    from timely_llm_ros.engines.model_files import PREDICTORS, find_model, require_model_files

    for name, least in (('plans', 20), ('threads', 1), ('epochs', 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise ConfigurationError(f'--{name} {value}: expected at least {least}')
    folder = find_model(options.model)
    require_model_files(folder)
    output = options.output or Path(folder) / PREDICTORS
    if options.output is None:
        output.mkdir(exist_ok=True)
    if not output.is_dir():
        raise ConfigurationError(f'--output {output}: expected a folder that exists')
    if options.samples is not None and not options.samples.is_file():
        raise ConfigurationError(f'--samples {options.samples}: expected a file')
    return Path(folder), output, Console(highlight=False, stderr=True)


def _samples(
    options: argparse.Namespace, folder: Path, screen: Console, *, layers: bool
) -> Sequence[LengthSample]:
    """Return the plans to learn from."""
    from timely_llm_ros.engines.length_samples import (
        draw_requests,
        generate_samples,
        read_samples,
        write_samples,
    )
    from timely_llm_ros.engines.torch_model import load_model

    if options.samples is not None:
        samples = read_samples(options.samples)
        if layers and not samples[0].states.shape[1]:
            raise ConfigurationError(f'--samples {options.samples}: expected one with states')
        return samples
    with screen.status(f'Loading {folder.name}'):
        loaded = load_model(
            str(folder), max_kv_tokens=65536, device=options.device, threads=options.threads
        )
    with _progress(screen) as progress:
        task = progress.add_task('Generating', total=options.plans)
        samples = generate_samples(
            loaded,
            draw_requests(options.plans, options.seed, 'trained'),
            layers=range(loaded.layers + 1) if layers or options.keep_samples else (),
            advance=lambda: progress.advance(task),
        )
    if options.keep_samples is not None:
        write_samples(samples, options.keep_samples)
    return samples


def _progress(screen: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as RemainingColumn

    columns = (
        TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(), RemainingColumn(),
    )  # fmt: skip
    return Progress(*columns, console=screen, transient=True)


def _copy_tokenizer(folder: Path, output: Path) -> None:
    import shutil

    shutil.copyfile(folder / 'tokenizer.json', output / 'tokenizer.json')
