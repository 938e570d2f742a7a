"""Files of prompts that no robot waits for, and of their answers: JSON lines.

A prompt: ``{"id": "a", "skill_set": "tello", "instruction": "find the cup", "objects": [{"name":
"cup_1", "kind": "cup"}]}``; ``objects``, ``max_tokens`` and ``length`` (its plan's tokens, where
they are known) may be left out. A chat may have ``messages`` in place of the instruction, as
OpenAI's API has them. An answer repeats the id.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TextIO

from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.skills import Message, Scene, SceneObject, read_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_REQUIRED = ('id', 'skill_set', 'instruction')
_OPTIONAL = ('objects', 'max_tokens', 'length', 'messages')


@dataclass(frozen=True, slots=True)
class OfflinePrompt:
    """A prompt that no robot waits for.

    Attributes:
        prompt_id: Unique in its file.
        skill_set: Name or path of the skill set.
        instruction: What to plan, in words.
        scene: The objects that the plan may name.
        max_tokens: Length limit; None for the program's.
        length: How many tokens the plan will have, where that is known.
        history: What was said in a chat before.
    """

    prompt_id: str
    skill_set: str
    instruction: str
    scene: Scene
    max_tokens: int | None = None
    length: int | None = None
    history: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a prompt.

    Attributes:
        id: The prompt's.
        text: The plan, as far as it was generated.
        tokens: Tokens generated.
        error: What went wrong; empty on success.
        batch: Number of its static batch; -1 for none.
        predicted: Length by which its bin was chosen; None where there was no bin.
    """

    id: str
    text: str
    tokens: int
    error: str = ''
    batch: int = -1
    predicted: float | None = None


def read_prompts(lines: Iterable[str], name: str) -> Iterator[OfflinePrompt]:
    """Read prompts, one per line; blank lines do not count. Errors call the file ``name``.

    Raises:
        ConfigurationError: A line is not a prompt, or an id comes twice.
    """
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            prompt = _prompt(json.loads(line))
        except json.JSONDecodeError as err:
            raise ConfigurationError(
                f'{name}, line {number}: {line.strip()[:60]!r}: expected a JSON object: {err.msg}'
            ) from err
        except (ValueError, TypeError, InvalidTaskError) as err:
            raise ConfigurationError(f'{name}, line {number}: {err}') from err
        if prompt.prompt_id in seen:
            raise ConfigurationError(
                f'{name}, line {number}: id {prompt.prompt_id!r} a second time: expected unique ids'
            )
        seen.add(prompt.prompt_id)
        yield prompt


def _prompt(value: Any) -> OfflinePrompt:
    if not isinstance(value, dict):
        raise TypeError(f'{value!r}: expected a JSON object')
    unknown = sorted(set(value) - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        raise ValueError(f'key {unknown[0]!r}: expected one of {[*_REQUIRED, *_OPTIONAL]}')
    history: tuple[Message, ...] = ()
    if 'messages' in value:
        if 'instruction' in value or not isinstance(value['messages'], list):
            raise ValueError('messages: expected a list, and no instruction beside it')
        if not all(isinstance(item, dict) for item in value['messages']):
            raise ValueError(f'messages {value["messages"]!r}: expected a list of objects')
        history, instruction = read_messages(value['messages'])
        value = {**value, 'instruction': instruction}
    for key in _REQUIRED:
        if not isinstance(value.get(key), str) or not value[key]:
            raise ValueError(f'{key} {value.get(key)!r}: expected some text')
    for key in ('max_tokens', 'length'):
        number = value.get(key)
        if number is not None and (type(number) is not int or number < 1):
            raise ValueError(f'{key} {number!r}: expected a whole number of at least 1')
    objects = value.get('objects', [])
    if not isinstance(objects, list) or not all(isinstance(item, dict) for item in objects):
        raise ValueError(f'objects {objects!r}: expected a list of objects')
    return OfflinePrompt(
        value['id'],
        value['skill_set'],
        value['instruction'],
        Scene(tuple(SceneObject(**item) for item in objects)),
        value.get('max_tokens'),
        value.get('length'),
        history,
    )


class AnswerFile:
    """Appends answers to a file, which is made where there is none.

    A run that was killed may have left half a line at its end, which is cut off.

    Raises:
        ConfigurationError: The file cannot be written, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.done: set[str] = set()
        """Ids of the prompts that have an answer."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._resume()
            self._file: TextIO = path.open('a', encoding='utf-8')
        except OSError as err:
            raise ConfigurationError(f'answers {str(path)!r}: {err.strerror}') from err

    def _resume(self) -> None:
        data = self._path.read_bytes()
        whole = data[: data.rfind(b'\n') + 1]
        for number, line in enumerate(whole.decode('utf-8', 'replace').splitlines(), 1):
            try:
                self.done.add(json.loads(line)['id'])
            except (ValueError, TypeError, KeyError) as err:
                raise ConfigurationError(
                    f'{self._path}, line {number}: {line[:60]!r}: expected an answer'
                ) from err
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))

    def write(self, answers: Iterable[Answer]) -> None:
        """Append answers and bring them to the disk's cache."""
        for answer in answers:
            self._file.write(json.dumps(asdict(answer), ensure_ascii=False) + '\n')
            self.done.add(answer.id)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
