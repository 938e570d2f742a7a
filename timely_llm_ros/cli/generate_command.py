"""``timely-llm generate``: plans for thousands of prompts, offline."""

from __future__ import annotations

import queue
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros.cli.shared import add_fields, read_fields, require_fields
from timely_llm_ros.command_line import require_range
from timely_llm_ros.engines import TorchConfig
from timely_llm_ros.engines.tokens import PREDICTORS, SHIPPED_MODEL, Sampling, find_model
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.offline import BinOptions, RequestMaker, generate
from timely_llm_ros.planner.prompts import Answer, AnswerFile, read_prompts
from timely_llm_ros.prediction.lengths import read_rlp
from timely_llm_ros.prompts import load_prompts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from timely_llm_ros.engines.torch.compute import Generated
    from timely_llm_ros.planner.prompts import OfflinePrompt

_EXAMPLES = """\
examples:
  timely-llm generate prompts.jsonl -o answers.jsonl
  timely-llm generate prompts.jsonl -o answers.jsonl --batching static --bins 4
  timely-llm generate prompts.jsonl -o answers.jsonl --batching static --bins 4 --predictor rlp
  timely-llm generate lengths_known.jsonl -o a.jsonl --batching static --bins 8 --predictor oracle
  make_prompts | timely-llm generate - -o answers.jsonl --batching static --max-wait 5
  timely-llm generate prompts.jsonl -o drawn.jsonl --temperature 0.8 --top-p 0.95 --seed 7

A prompt per line: {"id": "a", "skill_set": "tello", "instruction": "find the cup",
"objects": [{"name": "cup_1", "kind": "cup"}]}; "max_tokens" and "length" may be there too.
What is in the output already is not done again, so an interrupted run goes on where it was.
"""

_POLL_S = {'static': 0.05, 'continuous': 0.002}
"""How long to wait for a prompt (s); between steps of continuous batching only for a moment."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Generate plans for thousands of prompts with the torch engine. Continuous '
        'batching is the fastest here; static batches, with bins of like length, are for what '
        'cannot batch continuously, and to compare.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('prompts', help='a file of JSON lines, or - for the standard input')
    parser.add_argument('-o', '--output', required=True, help='the answers: JSON lines')
    parser.add_argument('--force', action='store_true', help='begin anew, without what is there')
    parser.add_argument(
        '--batching', choices=('continuous', 'static'), default='continuous', help='%(default)s'
    )
    add_fields(parser, BinOptions)
    parser.add_argument('--drop-ended', action='store_true', help='compute no padding in batches')
    parser.add_argument('--max-tokens', type=int, default=512, help='default: %(default)s')
    parser.add_argument('--max-kv-tokens', type=int, default=32768, help='default: %(default)s')
    add_fields(parser, TorchConfig, 'model_path', 'threads')
    add_fields(parser, Sampling)
    parser.set_defaults(run=_generate)


def _generate(options: argparse.Namespace) -> int:
    bins = read_fields(options, BinOptions)
    sampling = read_fields(options, Sampling)
    require_fields(options, TorchConfig, 'threads')
    for name in ('max_tokens', 'max_kv_tokens'):
        require_range(options, name, 1)
    if bins.bins > 1 and options.batching == 'continuous':
        raise ConfigurationError(f'{bins.bins} bins: expected --batching static with them')
    return _run(options, bins, sampling)


def _run(options: argparse.Namespace, bins: BinOptions, sampling: Sampling) -> int:
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    output = Path(options.output)
    known: list[OfflinePrompt] | None = None
    if options.prompts != '-':
        known = list(read_prompts(_lines(options.prompts), options.prompts))
    if options.force:
        # Not before the prompts are known to be good: answers cost hours.
        output.unlink(missing_ok=True)
    answers = AnswerFile(output)
    try:
        left = known and [prompt for prompt in known if prompt.prompt_id not in answers.done]
        if known is not None and not left:
            print(f'{output}: all {len(known)} prompts have their answers')
            return 0
        source = iter(left) if left is not None else _from_stdin(answers.done, options.batching)
        done, failed, tokens = 0, 0, 0
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task('generate', total=None if left is None else len(left))
            for some in _serve(options, bins, sampling, source):
                answers.write(some)
                done += len(some)
                failed += sum(bool(answer.error) for answer in some)
                tokens += sum(answer.tokens for answer in some)
                progress.advance(bar, len(some))
    finally:
        answers.close()
    print(f'{output}: {done} answers, {tokens} tokens, {failed} failed')
    return 0


def _serve(
    options: argparse.Namespace,
    bins: BinOptions,
    sampling: Sampling,
    source: Iterator[OfflinePrompt | None],
) -> Iterator[list[Answer]]:
    """Load the model and generate."""
    from timely_llm_ros.engines.torch.compute import StaticBatches, load_model, serve_continuously

    path = find_model(options.model_path or SHIPPED_MODEL)
    request = RequestMaker(options.max_tokens, load_prompts('auto', path))
    # Read before the model is loaded, because that takes its time.
    read = _reader(path, request) if bins.bins > 1 and bins.predictor == 'rlp' else None
    loaded = load_model(path, max_kv_tokens=options.max_kv_tokens, threads=options.threads)
    if options.batching == 'static':
        server = StaticBatches(loaded, padding=not options.drop_ended, sampling=sampling)

        def serve(batch: Sequence[OfflinePrompt]) -> list[Generated]:
            return server.serve([request(prompt) for prompt in batch])

        yield from generate(source, serve, bins, read=read)
        return
    requests = (None if prompt is None else request(prompt) for prompt in source)
    for got in serve_continuously(loaded, requests, batch=options.batch, sampling=sampling):
        error = got.error or ('' if got.reason == 'stop' else got.reason)
        yield [Answer(got.generation_id, got.text, got.tokens, error)]


def _reader(model_path: str, request: RequestMaker) -> Callable[[OfflinePrompt], float]:
    """Return what reads from a prompt how long the model's plan will be (tokens)."""
    rlp = read_rlp(Path(model_path) / PREDICTORS)

    def read(prompt: OfflinePrompt) -> float:
        made = request(prompt).prompt
        return rlp.predict(made.fixed, made.body).mean

    return read


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding='utf-8').splitlines()
    except OSError as err:
        raise ConfigurationError(f'prompts {path!r}: {err.strerror}: expected a file') from err
    except UnicodeDecodeError as err:
        raise ConfigurationError(f'prompts {path!r}: {err}: expected UTF-8 text') from err


def _from_stdin(done: set[str], batching: str) -> Iterator[OfflinePrompt | None]:
    """Yield prompts as they come, and None whenever none has for a moment."""
    coming: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            coming.put(line)
        coming.put(None)

    threading.Thread(target=read, name='prompts', daemon=True).start()

    seen = set(done)
    while True:
        try:
            waiting = coming.get(timeout=_POLL_S[batching])
        except queue.Empty:
            yield None
            continue
        if waiting is None:
            return
        for prompt in read_prompts([waiting], 'standard input'):
            if prompt.prompt_id not in seen:
                seen.add(prompt.prompt_id)
                yield prompt
