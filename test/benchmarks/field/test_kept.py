"""A fleet with little room for KV: what is lost, and that what is compared is what it says."""

from __future__ import annotations

from benchmarks.field.field import Cell
from benchmarks.field.kept import CHOICES, Choice, serve_draw, time_to_live
from timely_llm_ros.engines.core import Generations

CELL = Cell('wid2', 2.0, 15.0)


def test_kv_is_lost_only_where_it_is_short_and_every_choice_loses_another() -> None:
    assert serve_draw(CELL, 1, None, CHOICES[0]).drops == 0
    choices = (*CHOICES, Choice('ttl', time_to_live(2.0)))
    found = {choice.name: serve_draw(CELL, 1, 2500, choice) for choice in choices}
    assert all(one.drops > 0 for one in found.values())
    assert found['by the host'].prompts < 0.1 * found['ours'].prompts
    # Whether somebody can be spared depends on the draw.
    del found['nobody spared']
    assert len(set(found.values())) == len(found)


def test_nothing_of_a_comparison_stays() -> None:
    before = dict(vars(Generations))
    ours = serve_draw(CELL, 1, 2500, CHOICES[0])
    serve_draw(CELL, 1, 2500, Choice('ttl', time_to_live(2.0)))
    assert dict(vars(Generations)) == before
    assert serve_draw(CELL, 1, 2500, CHOICES[0]) == ours
