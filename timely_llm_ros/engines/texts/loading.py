"""Loading a model folder's tokenizer, without its weights."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from timely_llm_ros.engines.texts.token_texts import TokenTexts
from timely_llm_ros.engines.tokens import require_model_files
from timely_llm_ros.errors import ModelLoadError


def load_texts(path: str, vocabulary: int | None = None) -> TokenTexts:
    """Load a model's tokenizer for an engine that computes the model.

    ``vocabulary`` is the width of the model's logits; None for what ``config.json`` says.

    Raises:
        ModelLoadError: The folder is no model's, or has no token that ends a plan.
    """
    require_model_files(path)
    os.environ.setdefault('HF_HUB_OFFLINE', '1')
    import transformers

    transformers.utils.logging.set_verbosity_error()
    try:
        # AutoTokenizer would rebuild the file's tokenizer in its own way for some families.
        tokenizer: Any = transformers.PreTrainedTokenizerFast.from_pretrained(
            path, local_files_only=True, trust_remote_code=False
        )
        if vocabulary is None:
            config = json.loads((Path(path) / 'config.json').read_text(encoding='utf-8'))
            vocabulary = int(config.get('text_config', config)['vocab_size'])
        end_ids = find_end_ids(path, tokenizer.eos_token_id)
    except ModelLoadError:
        raise
    except Exception as err:
        raise ModelLoadError(f'model {path!r}: {type(err).__name__}: {err}') from err
    return TokenTexts(tokenizer, vocabulary, end_ids, path)


def find_end_ids(path: str, tokenizers_own: int | None = None) -> tuple[int, ...]:
    """Return the tokens that end a text by the model's files or the tokenizer.

    ``tokenizers_own`` is the tokenizer's; where it is None, its files are asked.

    Raises:
        ModelLoadError: There is none.
    """
    found: dict[int, None] = {}
    for name in ('generation_config.json', 'config.json'):
        file = Path(path) / name
        if file.is_file():
            value = json.loads(file.read_text(encoding='utf-8')).get('eos_token_id')
            found |= dict.fromkeys([value] if isinstance(value, int) else value or ())
    if tokenizers_own is None:
        tokenizers_own = _end_of_tokenizer(Path(path))
    if tokenizers_own is not None:
        found[tokenizers_own] = None
    if not found:
        raise ModelLoadError(f'model {path!r}: no eos_token_id; expected a token that ends a plan')
    return tuple(found)


def _end_of_tokenizer(folder: Path) -> int | None:
    """Return the token that a tokenizer's files name as its end; None for none."""
    if not (folder / 'tokenizer_config.json').is_file():
        return None
    named = json.loads((folder / 'tokenizer_config.json').read_text(encoding='utf-8'))
    end = named.get('eos_token')
    end = end.get('content') if isinstance(end, dict) else end
    added = json.loads((folder / 'tokenizer.json').read_text(encoding='utf-8'))['added_tokens']
    return next((token['id'] for token in added if token['content'] == end), None)
