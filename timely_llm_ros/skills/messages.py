"""Messages of a chat, as OpenAI's API has them: who said what before the question that is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from timely_llm_ros.errors import InvalidTaskError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_INSTRUCTION_LENGTH = 65_536
"""Characters that an instruction may have; what a model's context has room for is often less."""

MAX_MESSAGES = 256
"""Earlier messages that a task may have."""

Role = Literal['system', 'user', 'assistant']


@dataclass(frozen=True, slots=True)
class Message:
    """What one side of a chat says."""

    role: Role
    content: str


def instruction_words(instruction: str, *, lines: bool = False) -> str:
    """Return an instruction as one line, as it stands in prompts, or with its ``lines``.

    Raises:
        InvalidTaskError: It is empty, too long or has control characters.
    """
    if lines:
        words = '\n'.join(line.rstrip() for line in _lines(instruction))
    else:
        words = ' '.join(instruction.split())
    shown = words.replace('\n', '') if lines else words
    if not words or len(words) > MAX_INSTRUCTION_LENGTH or not shown.isprintable():
        raise InvalidTaskError(
            f'instruction {instruction[:60]!r}: expected 1 to {MAX_INSTRUCTION_LENGTH} '
            'printable characters'
        )
    return words


def require_turns(history: Sequence[Message]) -> None:
    """Check that earlier messages are a user's and an assistant's in turn, the user's first.

    Raises:
        InvalidTaskError: They are not, or one has no text.
    """
    if len(history) > MAX_MESSAGES or len(history) % 2:
        raise InvalidTaskError(
            f'history of {len(history)} messages: expected an even number up to {MAX_MESSAGES}'
        )
    for number, message in enumerate(history):
        expected = 'assistant' if number % 2 else 'user'
        if message.role != expected:
            raise InvalidTaskError(
                f'history, message {number}: role {message.role!r}: expected {expected!r}'
            )
        instruction_words(message.content, lines=True)


def turns(texts: Iterable[str]) -> tuple[Message, ...]:
    """Return the messages of what a user and an assistant said in turn, the user first."""
    return tuple(
        Message('assistant' if number % 2 else 'user', text) for number, text in enumerate(texts)
    )


def read_messages(messages: Iterable[Mapping[str, Any]]) -> tuple[tuple[Message, ...], str]:
    """Return the history and the instruction of messages, the last of which is the instruction.

    Args:
        messages: Objects with ``role`` and ``content``, as OpenAI's API has them.

    Raises:
        InvalidTaskError: They are not a user's and an assistant's in turn, the user's last. Who
            answers, and how, is the skill set's and the model's template's to say: there is no
            ``system``.
    """
    found = []
    for number, item in enumerate(messages):
        role, content = item.get('role'), item.get('content')
        if role not in ('user', 'assistant') or not isinstance(content, str):
            raise InvalidTaskError(
                f'message {number}: role {role!r}, content {str(content)[:40]!r}: expected role '
                '"user" or "assistant" and a text'
            )
        found.append(Message(role, content))
    if not found or found[-1].role != 'user':
        raise InvalidTaskError(f"{len(found)} messages: expected the last one to be a user's")
    require_turns(found[:-1])
    return tuple(found[:-1]), found[-1].content


def _lines(text: str) -> list[str]:
    return text.strip().replace('\t', '    ').splitlines()
