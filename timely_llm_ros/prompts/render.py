"""Renders the templates of a prompt in a process of its own, which ends where a bound is passed.

Templates come with models that strangers made. They are rendered in jinja2's sandbox, which keeps
them from Python, but a few of their words can loop for ever or fill the memory; only a process
that the kernel stops is safe from that. It is started as ``python render.py`` with a JSON object on
its standard input, answers with one on its standard output, and imports nothing of this package.
"""

from __future__ import annotations

import json
import resource
import sys
from datetime import datetime
from typing import Any, NoReturn

MOST_CPU_S = 2
MOST_MEMORY = 1 << 30
"""Bytes of address space, the interpreter's own included."""

MOST_TEXT = 1 << 18
"""Characters that all that is rendered may have."""


class RefusedError(Exception):
    """A template that refuses what it is given."""


def environment(**options: Any) -> Any:
    """Return a sandbox with what chat templates of Hugging Face find in theirs."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """Reads ``{% generation %}``, which marks answers for training, as nothing."""

        tags = {'generation'}  # noqa: RUF012  jinja2 declares it so

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(('name:endgeneration',), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def refuse(message: str) -> NoReturn:
        raise RefusedError(message)

    def to_json(value: Any, indent: int | None = None, **_options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation], **options
    )
    made.filters['tojson'] = to_json
    made.globals['raise_exception'] = refuse
    made.globals['strftime_now'] = lambda form: datetime.now().strftime(form)
    return made


class Task:
    """What a planner's template says of one task.

    ``request`` has ``templates`` by name, the ``template`` to use, and its ``variables``.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        from jinja2 import DictLoader, StrictUndefined, nodes

        sandbox = environment(loader=DictLoader(request['templates']), undefined=StrictUndefined)
        self._variables: dict[str, Any] = request['variables']
        self._chain: list[Any] = []
        """The template, what it extends, and so on."""
        name = request['template']
        while name:
            self._chain.append(sandbox.get_template(name))
            source = sandbox.parse(request['templates'][name])
            name = next((node.template.value for node in source.find_all(nodes.Extends)), '')

    @property
    def shows_examples(self) -> bool:
        """Whether there is a block for the answers of examples."""
        return any('answer' in template.blocks for template in self._chain)

    def block(self, block: str, /, **variables: Any) -> str:
        """Return the text of a block, without white space around it."""
        context = self._chain[0].new_context({**self._variables, **variables})
        for template in self._chain[1:]:
            for name, function in template.blocks.items():
                context.blocks.setdefault(name, []).append(function)
        if block not in context.blocks:
            raise RefusedError(f'no block {block!r}: expected system, object and task')
        return ''.join(context.blocks[block][0](context)).strip()


def render(request: dict[str, Any]) -> dict[str, Any]:
    """Return the texts of a prompt: of an object, of the messages, and around them."""
    task = Task(request)
    fields = request['fields']
    line = task.block('object', **{name: fields[name] for name in request['object_fields']})

    def scene(objects: list[dict[str, str]]) -> str:
        lines = []
        for values in objects:
            text = line
            for name, value in values.items():
                text = text.replace(fields[name], value)
            lines.append(text)
        return '\n'.join(lines)

    def asked(scene: str) -> str:
        return task.block('task', scene=scene, instruction=fields['instruction'])

    contents = [task.block('system')]
    for example in request['examples'] if task.shows_examples else ():
        told = {'scene': scene(example['objects']), 'instruction': example['instruction']}
        contents += [task.block('task', **told), task.block('answer', plan=example['plan'])]
    contents.append(asked(fields['scene']))
    around = chat(request, len(contents))
    longer = ''
    if request['chats']:
        try:
            longer = chat(request, len(contents) + 4)
        except Exception:  # noqa: BLE001 -- then there is no history
            longer = ''
    texts = {'contents': contents, 'bare': asked('')}
    return {'object': line, **texts, 'chat': around, 'longer': longer}


def chat(request: dict[str, Any], messages: int) -> str:
    """Return what a chat template writes around messages, whose contents are marks."""
    template = environment().from_string(request['chat_template'])
    marks = [request['mark'].format(number) for number in range(messages)]
    roles = ['user' if number % 2 else 'assistant' for number in range(messages)]
    said = [{'role': r, 'content': m} for r, m in zip(roles[1:], marks[1:], strict=True)]
    system = {'role': 'system', 'content': marks[0]}
    options = {**request['tokens'], 'add_generation_prompt': True, 'enable_thinking': False}
    try:
        return str(template.render(messages=[system, *said], **options))
    except RefusedError:
        # Some models know no system: what is said to it is said by the user first.
        said[0]['content'] = f'{marks[0]}\n\n{said[0]["content"]}'
        return str(template.render(messages=said, **options))


def main() -> None:
    """Read the request, render, and write what came of it."""
    request = json.load(sys.stdin)
    try:
        import jinja2
    except ImportError:
        answer: dict[str, Any] = {'missing': 'jinja2'}
    else:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        try:
            answer = render(request)
        except (jinja2.TemplateError, RefusedError) as err:
            line = getattr(err, 'lineno', None)
            answer = {'error': f'{f"line {line}: " if line else ""}{err}'}
        except MemoryError:
            answer = {'error': f'more than {MOST_MEMORY >> 20} MB of memory'}
        except Exception as err:  # noqa: BLE001 -- a template may make Python raise anything
            answer = {'error': f'{type(err).__name__}: {err}'}
    text = json.dumps(answer)
    if len(text) > MOST_TEXT:
        text = json.dumps({'error': f'{len(text)} characters: expected at most {MOST_TEXT}'})
    sys.stdout.write(text)


if __name__ == '__main__':
    main()
