"""Trains the planner model from a seed and writes it as a Hugging Face folder.

Two processes of one thread each compute a batch apiece (one of the drone's, one of the arm's) and
share their gradients: on two cores that is faster than one process of two threads. The number of
steps is fixed, so that a seed gives the same model on the same machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

os.environ.setdefault('TOKENIZERS_PARALLELISM', 'false')

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tokenizers import Tokenizer
from torch import distributed as dist
from torch import multiprocessing

from timely_llm_ros.training.model.batches import BatchSource
from timely_llm_ros.training.model.export import export
from timely_llm_ros.training.model.initial_weights import initialise
from timely_llm_ros.training.model.muon import Muon, adamw, share_sum
from timely_llm_ros.training.model.network import NetworkShape, PlannerNetwork
from timely_llm_ros.training.model.tokenizer import write_tokenizer

PROCESSES = 2
STEPS = 3700
EXAMPLES = """examples:
  python -m timely_llm_ros.training.model.train --out models/timely-planner --seed 0
  python -m timely_llm_ros.training.model.train --out /tmp/quick --steps 50  # does it run at all?
  nice -n 5 python -m timely_llm_ros.training.model.train --checkpoints /tmp/ck  # one per 500 steps
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides which model comes out.

    Attributes:
        seed: Seed of weights and data.
        steps: How many updates.
        matrix_rate: Muon's learning rate.
        other_rate: AdamW's learning rate, for embeddings, biases and norms.
        warmup: Share of the steps in which the rates rise.
        decay_from: Share of the steps after which they fall linearly to nearly zero.
        hints: Weight of the hints at first.
        hints_until: Share of the steps after which hints count no more.
    """

    seed: int = 0
    steps: int = STEPS
    matrix_rate: float = 5e-3
    other_rate: float = 4e-3
    warmup: float = 0.015
    decay_from: float = 0.4
    hints: float = 0.5
    hints_until: float = 0.7

    def skill_set(self, rank: int, step: int) -> str:
        """Return whose tasks a process computes at that step."""
        return ('tello', 'arm')[(rank + step) % 2]

    def hint_weight(self, step: int) -> float:
        """Return how much the hints count at that step."""
        return self.hints * max(0.0, 1 - step / self.steps / self.hints_until)

    def rate_factor(self, step: int) -> float:
        """Return the factor on both learning rates at that step."""
        progress = step / self.steps
        if progress < self.warmup:
            return progress / self.warmup
        return min(1.0, 0.02 + 0.98 * (1 - progress) / (1 - self.decay_from))


def build_parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    parser = argparse.ArgumentParser(
        prog='python -m timely_llm_ros.training.model.train',
        description='Train the planner model from a seed and write it as a Hugging Face folder.',
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--out', type=Path, default=Path('models/timely-planner'), metavar='FOLDER')
    parser.add_argument('--seed', type=int, default=0, help='seed of weights and data (default 0)')
    parser.add_argument('--steps', type=int, default=STEPS, help=f'updates (default {STEPS})')
    parser.add_argument(
        '--checkpoints', type=Path, metavar='FOLDER', help='write the model there every 500 steps'
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Train; returns the exit status. Ctrl-C leaves an existing model as it was."""
    options = build_parser().parse_args(arguments)
    if options.steps < 1:
        print(f'--steps {options.steps}: expected at least 1', file=sys.stderr)
        return 2
    recipe = Recipe(seed=options.seed, steps=options.steps)
    with tempfile.TemporaryDirectory(prefix='timely-train-') as scratch:
        meeting = Path(scratch)
        write_tokenizer(meeting, max_length=8192)
        context = multiprocessing.get_context('spawn')
        others = [
            context.Process(target=_work, args=(rank, recipe, meeting, None, None), daemon=True)
            for rank in range(1, PROCESSES)
        ]
        for process in others:
            process.start()
        try:
            _work(0, recipe, meeting, options.out, options.checkpoints)
        except KeyboardInterrupt:
            print('stopped; nothing was written', file=sys.stderr)
            return 130
        finally:
            for process in others:
                process.join(timeout=5)
                if process.is_alive():
                    process.kill()
    return 0


def _work(
    rank: int, recipe: Recipe, meeting: Path, out: Path | None, checkpoints: Path | None
) -> None:
    """Run one of the processes; the first one reports and writes."""
    torch.set_num_threads(1)
    dist.init_process_group(
        'gloo', init_method=f'file://{meeting}/store', rank=rank, world_size=PROCESSES
    )
    try:
        _train(rank, recipe, meeting, out, checkpoints)
    except KeyboardInterrupt:
        if rank == 0:
            raise
    finally:
        dist.destroy_process_group()


def _train(
    rank: int, recipe: Recipe, meeting: Path, out: Path | None, checkpoints: Path | None
) -> None:
    tokenizer = Tokenizer.from_file(str(meeting / 'tokenizer.json'))
    network = PlannerNetwork(NetworkShape(tokenizer.get_vocab_size()))
    initialise(network, seed=recipe.seed, vocab=tokenizer.get_vocab())
    parameters = list(network.parameters())
    muon = Muon(network.matrix_parameters())
    adam = adamw(network.other_parameters(), recipe.other_rate)
    source = BatchSource(tokenizer, seed=recipe.seed * PROCESSES + rank)
    started_s, tokens, loss_mean = time.monotonic(), 0, 0.0
    console = Console(stderr=True)
    columns = (
        TextColumn('training'),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn('loss {task.fields[loss]:.4f}'),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=rank != 0) as progress:
        bar = progress.add_task('training', total=recipe.steps, loss=0.0)
        for step in range(recipe.steps):
            batch = source.draw(recipe.skill_set(rank, step), step, recipe.steps)
            loss = network.loss(batch, hint_weight=recipe.hint_weight(step))
            loss.backward()  # type: ignore[no-untyped-call]
            tokens += batch.tokens
            gradients = []
            for parameter in parameters:
                if parameter.grad is None:
                    raise RuntimeError('a parameter without a gradient: expected one for each')
                parameter.grad /= PROCESSES
                gradients.append(parameter.grad)
            share_sum(gradients)
            factor = recipe.rate_factor(step)
            muon.step(recipe.matrix_rate * factor)
            for group in adam.param_groups:
                group['lr'] = recipe.other_rate * factor
            adam.step()
            network.zero_grad()
            loss_mean += (loss.item() - loss_mean) * max(0.02, 1 / (step + 1))
            progress.update(bar, advance=1, loss=loss_mean)
            if rank == 0 and not console.is_terminal and (step + 1) % 50 == 0:
                spent_s = time.monotonic() - started_s
                print(f'step {step + 1} loss {loss_mean:.4f} {spent_s:.0f} s', file=sys.stderr)
            if checkpoints is not None and (step + 1) % 500 == 0:
                export(network, checkpoints / f'step-{step + 1}', {'step': step + 1})
    spent = torch.tensor([time.process_time(), float(tokens)], dtype=torch.float64)
    dist.all_reduce(spent)
    if out is not None:
        export(
            network,
            out,
            {
                **asdict(recipe),
                'processes': PROCESSES,
                'tokens': int(spent[1]),
                'wall_s': round(time.monotonic() - started_s),
                'cpu_s': round(float(spent[0])),
                'machine': f'{os.cpu_count()} cores, {platform.machine()}, {platform.system()}',
                'torch': torch.__version__,
                'date': datetime.now(UTC).date().isoformat(),
                'command': f'python -m timely_llm_ros.training.model.train --seed {recipe.seed}',
            },
        )
        console.print(f'wrote {out}')


if __name__ == '__main__':
    raise SystemExit(main())
