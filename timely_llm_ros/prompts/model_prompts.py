"""Prompts by a model's own template: messages of a chat, with the model's special tokens.

A template is rendered once for a skill set, with marks where a task's own text is to come, so what
a user says never meets jinja2 and can neither close a role nor become a special token.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError, InvalidTaskError
from timely_llm_ros.prompts.pieces import Field, Literal, fill, read_pieces
from timely_llm_ros.prompts.prompts import Prompts, require_chat
from timely_llm_ros.skills import (
    Message,
    Prompt,
    instruction_words,
    require_own_names,
    require_turns,
    skill_usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from timely_llm_ros.prompts.pieces import Piece
    from timely_llm_ros.skills import Role, Scene, SceneObject, SkillSet

DEFAULT_TEMPLATE = 'planner.jinja'
"""The template of general models, which others may extend."""

TUNED_TEMPLATE = 'tuned.jinja'
"""The short one of models that were tuned to a skill set."""

PLAIN_CHAT = (
    '{{ bos_token }}{% for message in messages %}{{ message.content }}'
    "{{ '\\n' if message.role == 'user' else '\\n\\n' }}{% endfor %}"
)
"""The chat template of models that have none: messages under each other."""

MOST_WAIT_S = 60.0
"""How long rendering may take on the clock; its CPU time is bounded much more narrowly."""

_HERE = Path(__file__).resolve().parent
_WORDS = ('name', 'kind', 'attribute', 'relation', 'support')
_OBJECT_FIELDS = (*_WORDS, 'x', 'y', 'z', 'along', 'across')


@dataclass(frozen=True, slots=True)
class Template:
    """A model's templates and the special tokens that they may write.

    Attributes:
        name: What errors call it, a path.
        text: The planner's template; empty for the one that ships.
        chat: The chat template; empty where the model has none.
        tokens: Variables of the chat template, such as ``bos_token``.
        special: Texts of the model's special tokens.
    """

    name: str
    text: str = ''
    chat: str = ''
    tokens: Mapping[str, str] | None = None
    special: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A template for one skill set.

    ``fixed`` and its ``spans`` are what all tasks share, ``body`` is what comes after it, ``bare``
    the same without objects, ``item`` an object's line, and ``marks`` what no instruction may hold.
    ``lines`` where an instruction may have several. ``turn`` and ``back`` come behind a user's and
    behind an assistant's earlier message; None where none can come. ``said`` are the messages of
    ``fixed``, and ``asked`` and ``asked_bare`` what the task's message holds.
    """

    fixed: str
    spans: tuple[tuple[int, int], ...]
    body: tuple[Piece, ...]
    bare: tuple[Piece, ...]
    item: tuple[Piece, ...]
    marks: tuple[str, ...]
    lines: bool
    turn: tuple[Piece, ...] | None
    back: tuple[Piece, ...]
    said: tuple[Message, ...]
    asked: tuple[Piece, ...]
    asked_bare: tuple[Piece, ...]


class ModelPrompts(Prompts):
    """Prompts by a template.

    Args:
        template: The template.
        messages: Whether prompts are given to a server as messages, for which it has a chat
            template itself. Then no text of a user can close one.
    """

    def __init__(self, template: Template, *, messages: bool = False) -> None:
        self._template, self._messages = template, messages
        tokens = sorted(template.special, key=len, reverse=True)
        self._special = re.compile(f'({"|".join(map(re.escape, tokens))})') if tokens else None
        self._compiled: dict[str, _Compiled] = {}

    def prepare(self, skill_set: SkillSet) -> None:
        """Render the template for a skill set.

        Raises:
            ConfigurationError: It cannot be used; names its file and the reason.
        """
        self._of(skill_set)

    def build(
        self,
        skill_set: SkillSet,
        scene: Scene,
        instruction: str,
        history: Sequence[Message] = (),
    ) -> Prompt:
        """Return the prompt of one task.

        Raises:
            InvalidTaskError: See :meth:`Prompts.build`.
            ConfigurationError: The template cannot be used.
        """
        require_own_names(skill_set, scene)
        require_chat(skill_set, history)
        require_turns(history)
        compiled = self._of(skill_set)
        words = self._words(compiled, instruction)
        earlier = [Message(it.role, self._words(compiled, it.content)) for it in history]
        lines = (fill(compiled.item, _object_values(item))[0] for item in scene.objects)
        values = {'scene': '\n'.join(lines), 'instruction': words}
        if self._messages:
            asked, _ = fill(compiled.asked if scene.objects else compiled.asked_bare, values)
            said = (*compiled.said, *earlier, Message('user', asked))
            return Prompt(compiled.fixed, asked, (), said)
        pieces: list[Piece] = []
        for number, message in enumerate(earlier):
            if compiled.turn is None:
                raise InvalidTaskError(
                    f'history: expected none, the chat template of {self._template.name} does not '
                    'write each message like the one before'
                )
            values[f'said {number}'] = message.content
            pieces += [Field(f'said {number}'), *(compiled.back if number % 2 else compiled.turn)]
        pieces += compiled.body if scene.objects else compiled.bare
        body, spans = fill(pieces, values, start=len(compiled.fixed))
        return Prompt(compiled.fixed, body, (*compiled.spans, *spans))

    def _words(self, compiled: _Compiled, text: str) -> str:
        """Return a user's text as it stands in the prompt."""
        words = instruction_words(text, lines=compiled.lines)
        for mark in compiled.marks:
            if mark in words:
                raise InvalidTaskError(
                    f"instruction {words[:60]!r}: it holds {mark!r}, a mark of the model's chat "
                    'template: expected other words'
                )
        return words

    def _of(self, skill_set: SkillSet) -> _Compiled:
        # Examples are no part of a fingerprint, and a prompt consists of them.
        key = f'{skill_set.fingerprint()} {hash(skill_set.examples)}'
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(skill_set)
        return found

    def _compile(self, skill_set: SkillSet) -> _Compiled:
        nonce = secrets.token_hex(8)
        fields = {name: f'f{nonce}{name}e' for name in ('scene', 'instruction', *_OBJECT_FIELDS)}
        request = {
            'templates': {
                name: (_HERE / name).read_text('utf-8')
                for name in (DEFAULT_TEMPLATE, TUNED_TEMPLATE)
            },
            'template': DEFAULT_TEMPLATE,
            'variables': _variables(skill_set),
            'fields': fields,
            'object_fields': _OBJECT_FIELDS,
            'examples': [
                {
                    'objects': [_object_values(item) for item in example.scene.objects],
                    'instruction': example.instruction,
                    'plan': example.plan,
                }
                for example in skill_set.examples
            ],
            'mark': f'm{nonce}{{}}e',
            'chat_template': self._template.chat or PLAIN_CHAT,
            'tokens': dict(self._template.tokens or {}),
            'chats': skill_set.free_text is not None,
        }
        if self._template.text:
            request['templates']['own'] = self._template.text  # type: ignore[index]
            request['template'] = 'own'
        answer = self._render(request)
        marks = [f'm{nonce}{number}e' for number in range(len(answer['contents']) + 4)]
        return self._read(answer, marks, fields)

    def _read(self, answer: dict[str, Any], marks: list[str], fields: dict[str, str]) -> _Compiled:
        """Put the messages where the chat template has their marks."""
        longer, marks = marks, marks[:-4]
        pieces = read_pieces(answer['chat'], {mark: mark for mark in marks}, self._special)
        turn, back = self._turns(answer['longer'], pieces, longer)
        if [piece.name for piece in pieces if isinstance(piece, Field)] != marks:
            self._refuse('the chat template leaves messages out or changes their order')
        *shared, last = [number for number, it in enumerate(pieces) if isinstance(it, Field)]
        said = [Literal(text) for text in answer['contents'][:-1]]
        for place, literal in zip(shared, said, strict=True):
            pieces[place] = literal
        fixed, spans = fill(pieces[:last], {})
        asked, asked_bare = (
            tuple(read_pieces(text, fields)) for text in (answer['contents'][-1], answer['bare'])
        )
        body, bare = ((*it, *pieces[last + 1 :]) for it in (asked, asked_bare))
        for parts, expected in ((body, ['instruction', 'scene']), (bare, ['instruction'])):
            names = sorted(part.name for part in parts if isinstance(part, Field))
            if names != expected:
                self._refuse(f'task with fields {names}: expected each of {expected} once')
        item = tuple(read_pieces(answer['object'], fields))
        around = [pieces[a + 1 : b] for a, b in itertools.pairwise((*shared, last))]
        # A line end in them separates where messages are single lines.
        ends = [part for part in (pieces[last + 1 :], turn or (), back) if not _has_line_end(part)]
        marks_of = _plain_marks(
            [[it for it in part if isinstance(it, Literal)] for part in (*around, *ends)]
        )
        apart = all(any(isinstance(it, Literal) and it.special for it in part) for part in around)
        roles: list[Role] = [('user', 'assistant')[n % 2 == 0] for n in range(1, len(said))]
        texts = answer['contents'][:-1]
        return _Compiled(
            fixed,
            tuple(spans),
            body,
            bare,
            item,
            () if self._messages else marks_of,
            (apart or self._messages) and bool(answer['longer']),
            turn,
            back,
            tuple(map(Message, ('system', *roles), texts)),
            asked,
            asked_bare,
        )

    def _turns(
        self, text: str, pieces: list[Piece], marks: list[str]
    ) -> tuple[tuple[Piece, ...] | None, tuple[Piece, ...]]:
        """Return what a chat template writes behind earlier messages; None where that differs.

        ``text`` has two more turns than ``pieces``; their messages are the last four of ``marks``.
        """
        long = read_pieces(text, {mark: mark for mark in marks}, self._special) if text else []
        places = [number for number, it in enumerate(long) if isinstance(it, Field)]
        if [piece.name for piece in long if isinstance(piece, Field)] != marks:
            return None, ()
        asked = len(marks) - 5
        first = places[asked]
        gaps = [tuple(long[a + 1 : b]) for a, b in itertools.pairwise(places[asked:])]
        same = long[: first + 1] == pieces[: first + 1] and gaps[:2] == gaps[2:]
        ends = long[places[-1] + 1 :] == pieces[first + 1 :]
        return (gaps[0], gaps[1]) if same and ends else (None, ())

    def _render(self, request: dict[str, Any]) -> dict[str, Any]:
        command = [sys.executable, str(_HERE / 'render.py')]
        environment = os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, sys.path))}
        try:
            done = subprocess.run(
                command,
                input=json.dumps(request),
                capture_output=True,
                text=True,
                timeout=MOST_WAIT_S,
                env=environment,
                check=False,
            )
            answer: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        except subprocess.TimeoutExpired:
            self._refuse(f'not rendered after {MOST_WAIT_S:g} s: expected a second at most')
        except ValueError:
            answer = {}
        if 'missing' in answer:
            raise ConfigurationError(
                f'{self._template.name}: prompts of this model need the package '
                f'{answer["missing"]}: expected it to be installed'
            )
        if not answer:
            self._refuse(
                f'its process ended with status {done.returncode}: expected a text within 2 s of '
                'CPU time'
            )
        if 'error' in answer:
            self._refuse(str(answer['error'])[:500])
        return answer

    def _refuse(self, problem: str) -> Any:
        raise ConfigurationError(f'prompt template {self._template.name}: {problem}')


def _plain_marks(around: Iterable[list[Literal]]) -> tuple[str, ...]:
    """Return what separates messages where no special token does: no user may write it.

    A line end separates as well, and instructions have none.
    """
    found: set[str] = set()
    for pieces in around:
        text = ''.join(piece.text for piece in pieces)
        if not any(piece.special for piece in pieces) and text.strip() and '\n' not in text.strip():
            found.add(text.strip())
    return tuple(sorted(found))


def _has_line_end(pieces: Iterable[Piece]) -> bool:
    return any(isinstance(piece, Literal) and '\n' in piece.text for piece in pieces)


def _object_values(item: SceneObject) -> dict[str, str]:
    places = {axis: f'{getattr(item, f"{axis}_m"):.1f}' for axis in 'xyz'}
    places = {axis: '0.0' if text == '-0.0' else text for axis, text in places.items()}
    directions = {
        'along': 'behind' if places['x'].startswith('-') else 'ahead',
        'across': 'right' if places['y'].startswith('-') else 'left',
    }
    return {name: getattr(item, name) for name in _WORDS} | places | directions


def _variables(skill_set: SkillSet) -> dict[str, Any]:
    skills = skill_set.skills.values()
    return {
        'robot': {
            'name': skill_set.name,
            'description': skill_set.description,
            'max_repeat': skill_set.max_repeat,
        },
        'free_text': skill_set.free_text is not None,
        'skills': [
            {'name': skill.name, 'usage': skill_usage(skill), 'description': skill.description}
            for skill in skills
        ],
        'conditions': [skill.name for skill in skills if skill.returns == 'bool'],
        'awaited': [skill.name for skill in skills if skill.blocking],
    }
