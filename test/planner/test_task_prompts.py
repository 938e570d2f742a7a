"""Whose template a task's prompt is by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.engines.engine import EngineInfo
from timely_llm_ros.engines.tokens import find_model
from timely_llm_ros.planner.task_prompts import TaskPrompts
from timely_llm_ros.prompts import TersePrompts
from timely_llm_ros.prompts.loading import TAUGHT
from timely_llm_ros.sample_tasks import KINDS
from timely_llm_ros.skills import Scene
from timely_llm_ros.skills.loading import find_skill_set

if TYPE_CHECKING:
    from pathlib import Path

SKILL_SETS = {name: find_skill_set(name) for name in ('tello', 'arm')}


async def test_skills_that_a_model_of_ours_was_never_taught_are_known(tmp_path: Path) -> None:
    skill_sets = SKILL_SETS | {name: find_skill_set(name) for name in ('rover', 'nav2', 'chatbot')}
    prompts = TaskPrompts()
    ours = EngineInfo('torch', find_model(''), 1, 'float32', 1, 1000, 0.0)
    await prompts.load('auto', ours, skill_sets)
    assert set(prompts.untaught) == {'nav2', 'chatbot'}
    assert 'back_up' in prompts.untaught['nav2']
    assert 'turn_left' in prompts.untaught['nav2']
    simulated = EngineInfo('simulated', 'toy', 1, 'float32', 1, 1000, 0.0)
    await prompts.load('auto', simulated, skill_sets)
    assert not prompts.untaught
    assert set(TAUGHT) == {kind.skill_set for kind in KINDS.values()}


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
