"""``timely-llm train-rlp`` and ``train-probe``: predictors of plans' lengths for a model."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from timely_llm_ros.cli.models import (
    add_data_options,
    check_data_options,
    length_samples,
    longest_of,
)
from timely_llm_ros.cli.shared import add_model, progress_bar, require_fields
from timely_llm_ros.command_line import require_range
from timely_llm_ros.engines import TorchConfig
from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from timely_llm_ros.prediction.lengths import LengthDistribution
    from timely_llm_ros.training import LengthSample

HELD_OUT_SHARE = 5
"""One plan in so many is not learned from: half of them choose, the others judge."""

MOST_BUCKETS = 32
"""Of a predictor of long plans, unless more are asked for."""

_RLP = """\
Train TimeBill's response-length predictor: have the model write plans for tasks of the generator,
and let a small language model learn from the prompts alone how long each plan came out. Writes
rlp.json and rlp.safetensors into the model's folder predictors (or --output).
"""
_PROBE = """\
Train TRAIL's probe: have the model write plans for tasks of the generator, watch the hidden states
of every layer, learn from each layer how many tokens are left, and keep the best layer. Writes
probe.json and probe.safetensors into the model's folder predictors (or --output). Where a
predictor of response lengths is there, what it says of prompts counts when the layer is chosen and
how much the probe's answers are worth; train that one first, or use --calibrate after it.
"""
_CALIBRATE = """\
  timely-llm {0} --calibrate --plans 400 --seed 101 --objects 1 200
"""
_EXAMPLES = """\
examples:
  timely-llm {0}
  timely-llm {0} --model /models/Qwen2.5-0.5B --plans 5000 --output ~/predictors
  timely-llm {0} --samples plans.npz        # what --keep-samples of either command wrote
  timely-llm {0} --model /models/Qwen2.5-0.5B --prompts-file chats.jsonl
  timely-llm {0} --tasks open --temperature 1 --output ~/predictors
"""


def add_rlp_options(parser: argparse.ArgumentParser) -> None:
    """Say what ``train-rlp`` is for and what it takes."""
    parser.description = _RLP
    parser.epilog = _EXAMPLES.format('train-rlp')
    _add_shared(parser, plans=3000)
    parser.add_argument(
        '--bucket', type=int, metavar='TOKENS',
        help='lengths per bucket (default: 4, or as many as make 32 buckets of long plans)',
    )  # fmt: skip
    parser.set_defaults(run=_run_rlp)


def add_probe_options(parser: argparse.ArgumentParser) -> None:
    """Say what ``train-probe`` is for and what it takes."""
    parser.description = _PROBE
    parser.epilog = (_EXAMPLES + _CALIBRATE).format('train-probe')
    _add_shared(parser, plans=4500)
    parser.add_argument(
        '--bins', type=int, default=10, metavar='N',
        help='of remaining length, between which it tells (default: 10, as TRAIL has)',
    )  # fmt: skip
    parser.add_argument(
        '--calibrate', action='store_true',
        help='learn nothing: only choose on these plans, of another --seed than it learned '
        'from, how much the answers of the probe in --output are worth',
    )  # fmt: skip
    parser.set_defaults(run=_run_probe)


def _add_shared(parser: argparse.ArgumentParser, *, plans: int) -> None:
    """Add the options that both commands have; one generates ``plans`` plans by default."""
    add_model(parser)
    add_data_options(parser, plans=plans)
    parser.add_argument('--seed', type=int, default=0, help='of tasks and weights (default: 0)')
    parser.add_argument(
        '--epochs', type=int, metavar='N', help='passes over the plans (default: as published)'
    )
    parser.add_argument(
        '-o', '--output', type=Path, metavar='FOLDER', help="default: the model's folder predictors"
    )


def _run_rlp(options: argparse.Namespace) -> int:
    from rich.console import Console

    folder, output, screen = _prepare(options)
    if options.bucket is not None:
        require_range(options, 'bucket', 1)
    from timely_llm_ros.prediction.lengths import read_rlp, write_rlp
    from timely_llm_ros.training import LONGEST, RlpTraining, rlp_samples, train_rlp

    samples = length_samples(options, folder, screen, layers=False)
    learned, tuned_on, judged_by = _split(samples)
    longest = longest_of(options, samples, LONGEST)
    size = options.bucket or max(4, -(-longest // MOST_BUCKETS))
    training = RlpTraining(size=size, longest=longest, seed=options.seed, threads=options.threads)
    if options.epochs:
        training = replace(training, epochs=options.epochs)
    scene = options.tasks == 'open'
    with progress_bar(screen) as progress:
        task = progress.add_task('Learning', total=training.steps(len(learned)))
        settings, weights = train_rlp(
            training,
            folder,
            learned,
            tuned_on,
            scene=scene,
            advance=lambda _loss: progress.advance(task),
        )
    about = _about(options, folder, len(learned)) | {'calibrated_on': len(tuned_on)}
    files = write_rlp(output, settings, weights, about)
    if output.resolve().parent != folder.resolve():
        shutil.copyfile(folder / 'tokenizer.json', output / 'tokenizer.json')
    model = read_rlp(output)
    new_prompts, new_lengths = rlp_samples(folder, judged_by, scene=scene)
    found = [
        (model.distribution(it), length)
        for it, length in zip(new_prompts, new_lengths, strict=True)
    ]
    mean = fmean([*(sample.length for sample in learned), *new_lengths])
    Console(highlight=False).print(
        f'{len(judged_by)} plans that it saw nothing of: mean error '
        f'{fmean(abs(it.mean - length) for it, length in found):.2f} tokens (their mean as the '
        f'prediction: {fmean(abs(length - mean) for _, length in found):.2f}); the 95 % quantile '
        f'holds for {fmean(length <= it.quantile(0.95) for it, length in found):.1%}\n'
        + ', '.join(f'{path} ({path.stat().st_size / 1000:.0f} kB)' for path in files),
        soft_wrap=True,
    )
    return 0


def _run_probe(options: argparse.Namespace) -> int:
    from rich.console import Console

    folder, output, screen = _prepare(options)
    from timely_llm_ros.prediction.lengths import (
        LengthBins,
        RemainingLengthProbe,
        read_probe,
        write_probe,
    )
    from timely_llm_ros.training import BINS, ProbeTraining, calibrated, probe_errors, train_probe

    console = Console(highlight=False)
    if options.calibrate:
        probe = read_probe(output)
        drawn = length_samples(options, folder, screen, layers=True)
        samples: Sequence[LengthSample] = [sample for sample in drawn if not sample.censored]
        states = _states(samples, probe.settings.layer)
        forecasts = _forecasts(output, samples)
        probe = calibrated(probe, states, forecasts)
        errors = probe_errors(probe, states, forecasts)
        about = {**probe.about, 'calibrated': _about(options, folder, len(samples))}
        files = write_probe(output, RemainingLengthProbe(probe.settings, probe.weights, about))
        console.print(
            f'sharpness {probe.settings.sharpness:g}, divides: {probe.settings.divides}; mean '
            f'error of single answers {errors.single:.2f}, refined {errors.refined:.2f} tokens\n'
            f'{files[0]}',
            soft_wrap=True,
        )
        return 0
    samples = length_samples(options, folder, screen, layers=True)
    bins = LengthBins(options.bins, longest_of(options, samples, BINS.longest))
    training = ProbeTraining(bins=bins, seed=options.seed, threads=options.threads)
    if options.epochs:
        training = replace(training, epochs=options.epochs)
    learned, tuned_on, judged_by = _split(samples)
    forecasts = _forecasts(output, tuned_on)
    cut = [sample.censored for sample in learned]
    layers = samples[0].states.shape[1]
    found = {}
    with progress_bar(screen) as progress:
        task = progress.add_task('Learning', total=layers * training.epochs)
        for layer in range(layers):
            probe = train_probe(
                training,
                layer,
                _states(learned, layer),
                censored=cut,
                advance=lambda: progress.advance(task),
            )
            states = _states(tuned_on, layer)
            probe = calibrated(probe, states, forecasts)
            found[layer] = probe, probe_errors(probe, states, forecasts)
    console.print('layer  mean error of single answers, refined (tokens)')
    for layer, (_, errors) in found.items():
        console.print(f'{layer:5}  {errors.single:26.2f}, {errors.refined:.2f}')
    best = min(found, key=lambda layer: found[layer][1].refined)
    probe, _ = found[best]
    errors = probe_errors(probe, _states(judged_by, best), _forecasts(output, judged_by))
    about = {
        **_about(options, folder, len(learned)),
        'tokens': sum(sample.length for sample in learned),
        'layers': {
            str(layer): {'single': round(it.single, 3), 'refined': round(it.refined, 3)}
            for layer, (_, it) in found.items()
        },
        'judged': {'single': round(errors.single, 3), 'refined': round(errors.refined, 3)},
    }
    files = write_probe(output, RemainingLengthProbe(probe.settings, probe.weights, about))
    console.print(
        f'layer {best} kept: on {len(judged_by)} plans that no choice saw, mean error of single '
        f'answers {errors.single:.2f}, refined {errors.refined:.2f} tokens\n'
        + ', '.join(f'{path} ({path.stat().st_size / 1000:.0f} kB)' for path in files),
        soft_wrap=True,
    )
    return 0


def _split(
    samples: Sequence[LengthSample],
) -> tuple[list[LengthSample], list[LengthSample], list[LengthSample]]:
    """Return the samples to learn from, those to choose by, and those that judge what came of it.

    How wrong a prediction is can be told only of plans that ended.
    """
    held_out = [sample for sample in samples[::HELD_OUT_SHARE] if not sample.censored]
    learned = [sample for row, sample in enumerate(samples) if row % HELD_OUT_SHARE]
    if len(held_out) < 2 or not learned:
        raise ConfigurationError(
            f'{len(samples)} plans, of which {len(held_out)} could judge: expected at least 2; '
            'give more --plans'
        )
    return learned, held_out[::2], held_out[1::2]


def _states(samples: Sequence[LengthSample], layer: int) -> list[NDArray[np.float16]]:
    return [sample.states[:, layer] for sample in samples]


def _forecasts(output: Path, samples: Sequence[LengthSample]) -> list[LengthDistribution] | None:
    """Return what the predictor of response lengths in the folder says of each; None for none."""
    from timely_llm_ros.prediction.lengths import RLP_NAME, read_rlp

    if not (output / f'{RLP_NAME}.json').is_file():
        return None
    model = read_rlp(output)
    return [model.predict(it.prompt.fixed, it.prompt.body) for it in samples]


def _about(options: argparse.Namespace, folder: Path, plans: int) -> dict[str, Any]:
    return {
        'model': folder.name,
        'tasks': options.tasks if options.prompts_file is None else options.prompts_file.name,
        'temperature': options.temperature,
        'plans': plans,
        'seed': options.seed,
    }


def _prepare(options: argparse.Namespace) -> tuple[Path, Path, Console]:
    """Check the options; return the model's folder, the output's, and where progress goes."""
    from rich.console import Console

    from timely_llm_ros.engines.tokens import PREDICTORS, find_model, require_model_files

    require_fields(options, TorchConfig, 'threads')
    require_range(options, 'epochs', 1)
    check_data_options(options)
    folder = find_model(options.model)
    require_model_files(folder)
    output = options.output or Path(folder) / PREDICTORS
    if options.output is None:
        output.mkdir(exist_ok=True)
    if not output.is_dir():
        raise ConfigurationError(f'--output {output}: expected a folder that exists')
    return Path(folder), output, Console(highlight=False, stderr=True)
