"""Tunes a model by LoRA (Hu et al., 2021) and writes the adapter in the hub's layout.

The adapter's folder also has the model's tokenizer and configuration and the short prompt that it
was tuned on, so that engines take it as any model's folder; the base model stays where it is.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.engines.texts import load_texts
from timely_llm_ros.engines.tokens import ADAPTER_WEIGHTS
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.options import check_options, option
from timely_llm_ros.prompts import load_prompts, tuned_template
from timely_llm_ros.training.tuning.samples import IGNORED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from timely_llm_ros.training.tuning.samples import PlanSample

COPIED = (
    'config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json',
    'special_tokens_map.json', 'chat_template.jinja',
)  # fmt: skip
"""Files of the base model that the adapter's folder has as well."""

CHECKPOINTS = 'checkpoints'

PACKAGES = ('torch', 'transformers', 'peft', 'accelerate')
"""What tuning needs."""

_CARD = """---
base_model: {base}
library_name: peft
tags: [robotics, planning, lora]
---
# Plans of {skill_sets} for {base}

LoRA adapter that teaches {base} the plan language of timely_llm_ros with the skills of
{skill_sets}. Made by `timely-llm tune`: {samples} samples, {steps} steps of {batch}, rank {rank},
learning rate {rate}; loss on {held} other samples {loss:.4f}. The prompt that it was
tuned on is `prompt.jinja`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """How a model is tuned.

    Raises:
        ConfigurationError: A value is out of range.
    """

    steps: int = option(600, 'Most steps.', minimum=1, maximum=10_000_000)
    batch: int = option(8, 'Samples in a step.', minimum=1, maximum=4096)
    rank: int = option(32, 'Rank of the adapter.', minimum=1, maximum=1024)
    rate: float = option(1e-3, 'Greatest learning rate.', minimum=1e-7, maximum=1.0)
    first_layer: float = option(
        0.4, 'Share of the layers, from the bottom, that stay as they are.', minimum=0, maximum=0.99
    )
    every: int = option(50, 'Steps between two looks at other samples.', minimum=1, maximum=10**6)
    patience: int = option(
        4, 'Looks without a gain after which tuning ends.', minimum=1, maximum=1000
    )
    threads: int = option(1, 'Threads that torch computes with.', minimum=1, maximum=256)
    seed: int = option(0, 'Of all chance.', minimum=0, maximum=2**31 - 1)

    def __post_init__(self) -> None:
        check_options(self)


def require_packages() -> None:
    """Check that what tuning needs is installed, without importing it, which takes long.

    Raises:
        ConfigurationError: A package is missing.
    """
    for name in PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise ConfigurationError(
                f'tuning needs the package {name}: expected it to be installed, '
                'pip install "timely_llm_ros[torch,tune]"'
            )


def saved_step(out: Path) -> int:
    """Return the step from which a run into this folder goes on; 0 where none was saved."""
    steps = [
        int(folder.name.rpartition('-')[2])
        for folder in (out / CHECKPOINTS).glob('checkpoint-*')
        # It is written last: a folder without it was broken off.
        if (folder / 'trainer_state.json').is_file()
    ]
    return max(steps, default=0)


def tune(
    base: str,
    out: Path,
    samples: Sequence[PlanSample],
    held: Sequence[PlanSample],
    options: TuneOptions,
    *,
    say: Callable[[str], object] = lambda _: None,
) -> float:
    """Tune a model and write the adapter; a run that was broken off goes on from its last look.

    Args:
        base: The model's folder.
        out: The adapter's folder. An adapter that is there is tuned further, as large as it is.
        samples: What is learned.
        held: What is looked at to choose the best adapter.
        options: How.
        say: Called with what is done next, which may take minutes.

    Returns:
        The mean loss per token of the best adapter on ``held``.

    Raises:
        ConfigurationError: A package is missing, or the folder holds something else.
        ModelLoadError: The model cannot be loaded.
    """
    require_packages()
    say(f'loading {base}')
    import torch
    import transformers

    texts = load_texts(base)
    _prepare_folder(base, out)
    prompts = load_prompts('auto', str(out))
    torch.set_num_threads(options.threads)
    # An engine's model that was loaded before has switched gradients off.
    torch.set_grad_enabled(True)
    transformers.set_seed(options.seed)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.float32, use_safetensors=True, local_files_only=True
    )
    ends = json.loads((out / 'tokenizer_config.json').read_text('utf-8')).get('eos_token')
    ends = ends.get('content') if isinstance(ends, dict) else ends
    end = texts.token(ends) if isinstance(ends, str) else None
    end = min(texts.end_ids) if end is None else end
    adapted = _adapted(model, out, options)
    adapted.peft_config['default'].base_model_name_or_path = base
    trainer = _trainer(adapted, out, options, pad=end)
    say(f'making tokens of {len(samples)} samples and of {len(held)} to look at')
    trainer.train_dataset = [sample.row(prompts, texts, end) for sample in samples]
    trainer.eval_dataset = [sample.row(prompts, texts, end) for sample in held]
    done = saved_step(out)
    say(
        f'tuning from step {done} to {options.steps} at most; every {options.every} steps it looks '
        'at the other samples and saves where it can go on'
    )
    checkpoint = str(out / CHECKPOINTS / f'checkpoint-{done}') if done else None
    trainer.train(resume_from_checkpoint=checkpoint)
    loss = float(trainer.evaluate()['eval_loss'])
    for weight in adapted.parameters():
        if weight.requires_grad:
            weight.data = weight.data.half()
    adapted.save_pretrained(str(out))
    card = _CARD.format(
        base=Path(base).name,
        skill_sets=' and '.join(sorted({sample.skill_set.name for sample in samples})),
        samples=len(samples),
        held=len(held),
        loss=loss,
        **asdict(options),
    )
    (out / 'README.md').write_text(card, encoding='utf-8')
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    return loss


def _adapted(model: Any, out: Path, options: TuneOptions) -> Any:
    import peft

    if (out / ADAPTER_WEIGHTS).is_file():
        return peft.PeftModel.from_pretrained(model, out, is_trainable=True)
    layers = model.config.num_hidden_layers
    config = peft.LoraConfig(
        r=options.rank,
        lora_alpha=2 * options.rank,
        target_modules=_linear(model),
        layers_to_transform=list(range(int(options.first_layer * layers), layers)),
        task_type='CAUSAL_LM',
    )
    return peft.get_peft_model(model, config)


def _computes_bfloat16() -> bool:
    """Return whether the machine multiplies bfloat16 faster than float32."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    found = torch.cpu.get_capabilities()
    return bool(found.get('amx_bf16') or found.get('avx512_bf16'))


def _linear(model: Any) -> list[str]:
    """Return the names of the matrices of a model's layers."""
    import torch

    head = model.get_output_embeddings()
    return sorted(
        {
            name.rpartition('.')[2]
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not head
        }
    )


def _prepare_folder(base: str, out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not (out / 'prompt.jinja').is_file():
        raise ConfigurationError(
            f'{out}: expected a new folder, that of an adapter, or one with a '
            'template of yours, prompt.jinja'
        )
    out.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        if (Path(base) / name).is_file():
            shutil.copyfile(Path(base) / name, out / name)
    # A template of the user's own is kept, and the one that an adapter there was tuned on.
    if not (out / 'prompt.jinja').is_file():
        (out / 'prompt.jinja').write_text(tuned_template(), encoding='utf-8')


def _trainer(model: Any, out: Path, options: TuneOptions, *, pad: int) -> Any:
    import torch
    import transformers

    # Plans end together at the right, so that the head, which is a large part of a small model,
    # only computes the columns that hold them, and the token before that the first follows.
    sliced = 'logits_to_keep' in inspect.signature(model.get_base_model().forward).parameters

    def collate(rows: list[dict[str, list[int]]]) -> dict[str, Any]:
        width = max(len(row['input_ids']) for row in rows)

        def padded(name: str, value: int) -> Any:
            return torch.tensor([[value] * (width - len(row[name])) + row[name] for row in rows])

        mask = [[0] * (width - len(row['labels'])) + [1] * len(row['labels']) for row in rows]
        batch = {'input_ids': padded('input_ids', pad), 'attention_mask': torch.tensor(mask)}
        labels = padded('labels', IGNORED)
        if not sliced:
            return batch | {'labels': labels}
        first = int((labels != IGNORED).any(0).int().argmax())
        kept = min(width, width - first + 1)
        return batch | {'labels': labels[:, -kept:], 'logits_to_keep': kept}

    bfloat16 = _computes_bfloat16()
    # It would take any folder called "datasets" beside the program, as ours is, for that package.
    transformers.trainer.is_datasets_available = lambda: False
    return transformers.Trainer(
        model=model,
        data_collator=collate,
        train_dataset=[],
        eval_dataset=[],
        callbacks=[transformers.EarlyStoppingCallback(options.patience)],
        args=transformers.TrainingArguments(
            output_dir=str(out / CHECKPOINTS),
            max_steps=options.steps,
            per_device_train_batch_size=options.batch,
            per_device_eval_batch_size=options.batch,
            learning_rate=options.rate,
            lr_scheduler_type='cosine',
            warmup_steps=max(1, options.steps // 30),
            eval_strategy='steps',
            eval_steps=options.every,
            save_strategy='steps',
            save_steps=options.every,
            save_total_limit=2,
            load_best_model_at_end=True,
            metric_for_best_model='eval_loss',
            logging_steps=max(1, options.every // 5),
            remove_unused_columns=False,
            label_names=['labels'],
            report_to=[],
            train_sampling_strategy='group_by_length',
            seed=options.seed,
            dataloader_pin_memory=False,
            bf16=bfloat16,
            use_cpu=not torch.cuda.is_available(),
        ),
    )
