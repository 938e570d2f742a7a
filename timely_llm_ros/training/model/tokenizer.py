"""The planner model's tokenizer: one token per word of its corpus, bytes for everything else.

It is a byte-level BPE of Hugging Face without merges. Its pre-tokenizer cuts text so that names
(``cat`` ``_3``), signed positions and the plan language's punctuation are short. Any text can be
encoded and is decoded byte for byte.
"""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from timely_llm_ros.sample_tasks import (
    ATTRIBUTES,
    BLOCKS,
    CONTAINERS,
    CORES,
    DRONE_KINDS,
    FRUITS,
    KINDS,
    LITTER,
    MODIFIERS,
    SUPPORTS,
    SURFACES,
    VEGETABLES,
    plural,
    sample_task,
)
from timely_llm_ros.skills import RELATIONS, build_prompt, fixed_part
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

EOS, PAD = '<eos>', '<pad>'
EOS_ID, PAD_ID = 0, 1
PIECES = '|'.join(
    (
        r'#[a-z]+ ',  # an observation, as the runtime writes it
        r'_\d+',  # the number at the end of a name
        r' ?[A-Za-z]+(?:_[A-Za-z]+)*',  # a word or the name of a skill
        r'\d+\.\d|\d+',  # a number
        r' [+\-](?=\d)',  # the sign of a position
        r'[(){};"]+',  # punctuation of plans
        r'\n',
        r'.',
    )
)
"""What one token is where the vocabulary has it; the rest of the text is cut into characters."""

SKILL_SETS = ('tello', 'arm')
"""The skill sets that the model is trained for."""

SYNONYMS = {'below': 'under', 'beneath': 'under'}
"""Words of instructions and the scene's word for the same."""

_CORPUS_SEED = 20_000_003
_CORPUS_TASKS_PER_KIND = 800


def _bytes_to_text() -> dict[int, str]:
    """Return GPT-2's printable stand-in for every byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in kept}
    for position, byte in enumerate(byte for byte in range(256) if byte not in table):
        table[byte] = chr(256 + position)
    return table


def _corpus() -> Iterator[str]:
    """Yield text that together has every piece worth a token of its own."""
    for name in SKILL_SETS:
        yield fixed_part(find_skill_set(name))
    kinds = {*DRONE_KINDS, *LITTER, *BLOCKS, *FRUITS}
    kinds |= {*VEGETABLES, *CONTAINERS, *SURFACES}
    for word in sorted({*kinds, *ATTRIBUTES, *SUPPORTS, *RELATIONS}):
        yield f'{word}\n {word}\n {plural(word)}'
    yield ' '.join(f'a_{index}' for index in range(1, 100))
    yield ''.join(f' +{tenth / 10:.1f} -{tenth / 10:.1f}' for tenth in range(1000))
    yield ''.join(f'({value});' for value in (*range(1, 100), *range(100, 520, 10)))
    yield '#true #false if(!is_visible(a_1)){b;};}else{log("a");};));}};}};repeat(2){b;};'
    for wordings in (CORES, MODIFIERS):
        for theme in wordings.values():
            yield from (re.sub(r'[\[\]|]|\{\w+\}', ' ', core) for core in theme)
    rng = random.Random(_CORPUS_SEED)
    for kind, spec in KINDS.items():
        skill_set = find_skill_set(spec.skill_set)
        for _ in range(_CORPUS_TASKS_PER_KIND):
            task = sample_task(rng, kind, rng.randint(spec.min_objects, 8), scenes='trained')
            yield build_prompt(skill_set, task.scene, task.instruction).body + task.plan


def vocabulary() -> dict[str, int]:
    """Return token -> id: special tokens, 256 bytes, then the corpus' pieces in sorted order."""
    pattern = re.compile(PIECES)
    pieces: set[str] = set()
    for text in _corpus():
        pieces.update(pattern.findall(text))
    table = _bytes_to_text()
    tokens = [EOS, PAD, *(table[byte] for byte in range(256))]
    known = set(tokens)
    for piece in sorted(pieces):
        token = ''.join(table[byte] for byte in piece.encode())
        if token not in known:
            known.add(token)
            tokens.append(token)
    return {token: index for index, token in enumerate(tokens)}


def word_groups(vocab: dict[str, int]) -> list[int]:
    """Return for every token the first token of the same word: spaced, capital or plural or not."""
    space = _bytes_to_text()[ord(' ')]
    first: dict[str, int] = {}
    groups = []
    stems = {token.removeprefix(space).lower() for token in vocab}
    for token, index in sorted(vocab.items(), key=lambda item: item[1]):
        stem = token.removeprefix(space).lower()
        stem = SYNONYMS.get(stem, stem)
        for ending in ('es', 's'):
            if len(stem) > 3 and stem.endswith(ending) and stem[: -len(ending)] in stems:
                stem = stem[: -len(ending)]
                break
        groups.append(first.setdefault(stem, index) if stem.isascii() and stem.isalpha() else index)
    return groups


def word_families(vocab: dict[str, int]) -> dict[str, list[int]]:
    """Return by sort of word (numbers that end names, kinds, places, figures) its tokens."""
    food = {*FRUITS, *VEGETABLES}
    kinds = {*DRONE_KINDS, *LITTER, *BLOCKS, *CONTAINERS}

    def nouns(kinds: Iterable[str]) -> str:
        return '|'.join(f'Ġ?(?:{kind}|{plural(kind)})' for kind in sorted(kinds))

    sorts = {
        'number': r'_\d+',
        'kind': nouns(kinds - food - {*SUPPORTS}),
        'fruit': nouns(FRUITS),
        'vegetable': nouns(VEGETABLES),
        'attribute': '|'.join(f'Ġ?{attribute}' for attribute in ATTRIBUTES),
        'support': '|'.join(f'Ġ?{support}' for support in SUPPORTS),
        'relation': '|'.join(f'Ġ{relation}' for relation in (*RELATIONS, 'below', 'beneath')),
        'position': r'\d+\.\d',
        'figure': r'\d+',
    }
    return {
        sort: sorted(index for token, index in vocab.items() if re.fullmatch(pattern, token))
        for sort, pattern in sorts.items()
    }


def make_tokenizer(vocab: dict[str, int]) -> Tokenizer:
    """Return the tokenizer with that vocabulary."""
    tokenizer = Tokenizer(models.BPE(vocab, [], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), 'isolated'),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([EOS, PAD])
    return tokenizer


def write_tokenizer(folder: Path, *, max_length: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` into an existing folder."""
    make_tokenizer(vocabulary()).save(str(folder / 'tokenizer.json'))
    config = {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'eos_token': EOS,
        'pad_token': PAD,
        'model_max_length': max_length,
        'clean_up_tokenization_spaces': False,
        'add_bos_token': False,
        'add_eos_token': False,
    }
    text = json.dumps(config, indent=2)
    (folder / 'tokenizer_config.json').write_text(text + '\n', encoding='utf-8')
