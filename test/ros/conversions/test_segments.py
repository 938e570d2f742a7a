"""A chat's segments over ROS messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.errors import PlanError
from timely_llm_ros.execution import TimedSegment
from timely_llm_ros.ros.conversions.segments import segment_message, segment_record
from timely_llm_ros.skills import segmenter_for
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.skills.scene import Scene

if TYPE_CHECKING:
    from timely_llm_ros.skills import Segment

pytestmark = pytest.mark.distro

CHATBOT = find_skill_set('chatbot')
TEXT = 'He said: "It\'s 3.5 \u20ac; {really}?" Nobody #knew.\n\nThe end'


def over_ros(segment: Segment, text: str) -> tuple[Segment, Scene]:
    timed = TimedSegment(
        '', segment, Scene(()), token_at_s=0.0, generation_s=0.1, expected_execution_s=0.2
    )
    message = segment_message(timed, robot='reader', skill_set=CHATBOT)
    message.text = text
    return segment_record(message, CHATBOT)


@pytest.mark.parametrize('whole_plan', [False, True])
def test_segments_come_back_as_they_were(whole_plan: bool) -> None:
    segmenter = segmenter_for(CHATBOT, (), whole_plan=whole_plan)
    segments = [*segmenter.push(TEXT), *segmenter.finish()]
    assert len(segments) == (1 if whole_plan else 3)
    for segment in segments:
        assert over_ros(segment, segment.text) == (segment, Scene(()))


@pytest.mark.parametrize('text', ['', ' \n', 'a\x1b[2J', 'x' * 16385])
def test_what_must_not_reach_a_reader_is_refused(text: str) -> None:
    segmenter = segmenter_for(CHATBOT, ())
    (segment,) = [*segmenter.push('Fine.'), *segmenter.finish()]
    with pytest.raises(PlanError):
        over_ros(segment, text)
