"""What the plug-in's core makes of what was written before a robot's value."""

from __future__ import annotations

import pytest
from support.engines.freeze_server import Server

from timely_llm_ros.engines import Cancel, Resume
from timely_llm_ros.engines.engine import GenerationEnded, SegmentGenerated
from timely_llm_ros.engines.vllm.plugin.core import New


def test_what_was_written_ahead_reads_as_if_the_value_had_come_first() -> None:
    written = b'takeoff;mo'
    servers = [Server(), Server()]
    for server in servers:
        server.add('g', 'is_visible(cat_1);')
        while not server.core.awaits_value('g'):
            server.step()
        server.events.clear()
    late, ahead = servers
    branches = ahead.core.foresee('g')
    assert {text: ids for text, (_, ids) in branches.items()} == {
        '#true ': [*b'#true '],
        '#false ': [*b'#false '],
    }
    branch, _ = branches['#true ']
    complete = [ahead.core.read_ahead(branch, [byte]) for byte in written]
    assert complete == [byte == ord(';') for byte in written]
    for each, _ in branches.values():
        ahead.core.close_branch(each)
    for server in servers:
        server.core.generations.apply(Resume('g', 'true'))
    late.left['g'] = [*written]
    while late.left['g']:
        late.step()
    ahead.core.take_ahead('g', [(0.005, New('g', [byte])) for byte in written], late.now_s)
    ahead.events += ahead.core.generations.take_events()
    (one,) = (e for e in late.events if isinstance(e, SegmentGenerated))
    (other,) = (e for e in ahead.events if isinstance(e, SegmentGenerated))
    assert other.segment == one.segment
    assert other.generation_s == pytest.approx(one.generation_s)
    for server in servers:
        server.core.generations.apply(Cancel('g'))
        event = server.core.generations.take_events()[-1]
        assert isinstance(event, GenerationEnded)
        assert event.token_ids == (*b'is_visible(cat_1);', *written)


def test_nothing_is_foreseen_of_a_plan_that_waits_for_nothing() -> None:
    server = Server()
    server.add('g', 'takeoff;land;')
    while not server.texts('g'):
        server.step()
    assert server.core.foresee('g') == server.core.foresee('nobody') == {}
