"""The planner node works off a file of prompts in its idle time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.ros.programs import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ros.fleet import Fleet


def test_a_file_of_prompts(start_fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    prompts = tmp_path / 'prompts.jsonl'
    lines = [{'id': f'p{n}', 'skill_set': 'tello', 'instruction': 'delay(100);'} for n in range(5)]
    prompts.write_text('\n'.join(map(json.dumps, lines)))
    fleet = start_fleet(planner={'background_prompts': str(prompts)})
    answers = tmp_path / 'prompts.jsonl.answers'
    wait_for(lambda: answers.exists() and len(answers.read_text().splitlines()) == 5, 'the answers')
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    assert {(one['text'], one['error']) for one in found} == {('delay(100);', '')}
    planner = fleet.planner
    assert planner is not None
    wait_for(lambda: 'all 5 prompts have their answers' in planner.output, 'the message')
