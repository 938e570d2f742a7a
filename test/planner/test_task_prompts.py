"""Whose template a task's prompt is by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.planner.task_prompts import TaskPrompts
from timely_llm_ros.prompts import TersePrompts
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from pathlib import Path

SKILL_SETS = {name: find_skill_set(name) for name in ('tello', 'arm')}


async def test_a_skill_set_with_an_adapter_has_the_adapters_template(tmp_path: Path) -> None:
    template = "{% extends 'tuned.jinja' %}{% block system %}A template of its own.{% endblock %}"
    (tmp_path / 'prompt.jinja').write_text(template)
    info = EngineInfo(
        'vllm', find_model(''), 1, 'float32', 1, 1000, 0.0, adapters={'arm': str(tmp_path)}
    )
    prompts = TaskPrompts()
    await prompts.load('auto', info, SKILL_SETS)
    assert prompts.build(SKILL_SETS['arm'], Scene(), 'rest').text.startswith('A template of its')
    assert prompts.known(SKILL_SETS['arm'], Scene()).fixed.startswith('A template of its')
    tello = SKILL_SETS['tello']
    assert prompts.build(tello, Scene(), 'go') == TersePrompts().build(tello, Scene(), 'go')
    assert list(prompts.tokens) == ['arm']
