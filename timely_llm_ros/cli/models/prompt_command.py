"""``timely-llm prompt``: shows what a model reads of a task, and how many tokens that costs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.prompts import load_prompts
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    import argparse

_EXAMPLES = """\
examples:
  timely-llm prompt
  timely-llm prompt --model models/smollm2 --skill-set arm "clear the table"
  timely-llm prompt --model models/smollm2 --template my_prompt.jinja
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        "Show the prompt of a task by a model's template. The scene is that of the first of the "
        "skill set's examples."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('instruction', nargs='?', help="default: the example's")
    parser.add_argument('--model', default='', help='folder of the model; default: the shipped one')
    parser.add_argument('--skill-set', default='tello', help='name or path; default: %(default)s')
    parser.add_argument(
        '--template',
        default='auto',
        help='path of a .jinja file, "chat" for the one that ships, "terse" for the embedded '
        "model's; default: what suits the model",
    )
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> int:
    from timely_llm_ros.engines.texts import ServerTexts

    model = find_model(options.model)
    texts = ServerTexts(model)
    skill_set = find_skill_set(options.skill_set)
    prompts = load_prompts(options.template, texts.path)
    scene, instruction = Scene(), 'hello'
    if skill_set.examples:
        scene, instruction = skill_set.examples[0].scene, skill_set.examples[0].instruction
    prompt = prompts.build(skill_set, scene, options.instruction or instruction)
    print(prompt.text)
    fixed = texts.fixed_ids(prompt)
    body = texts.body_ids(prompt, beginning=not fixed)
    print(
        f'{model}, {skill_set.name}: {len(fixed)} tokens that all tasks share, {len(body)} of this '
        f'task with {len(scene.objects)} objects',
        file=sys.stderr,
    )
    return 0
