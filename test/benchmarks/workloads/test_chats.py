from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.timelyllm.chat_experiment import chatbot, run_chats
from benchmarks.timelyllm.comparison import lookahead, paper, whole_plan
from benchmarks.workloads.chats import (
    CHAT_HARDWARE,
    GROUP,
    Chat,
    ChatSpec,
    chat_task,
    compose_chats,
)
from benchmarks.workloads.experiment import (
    NETWORK_S,
    System,
    check_all_succeeded,
    run_workload,
)
from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.evaluation.workload import Workload
from timely_llm_ros.skills.loading import find_skill_set
from timely_llm_ros.utility import NORMAL

if TYPE_CHECKING:
    from timely_llm_ros.skills import SegmentEnd, SkillSet

SMALL = ChatSpec(duration_s=20.0, sentences=(1, 3), paragraphs=(1, 3))
LLAMA3 = CHAT_HARDWARE['llama3']


def chat_workload(chats: tuple[Chat, ...], skill_set: SkillSet, *, seed: int) -> Workload:
    """Return chats as a workload without words, each chat with a reader of its own."""
    return Workload(
        skill_set.name,
        max(1, len(chats)),
        {GROUP: NORMAL},
        tuple(chat_task(chat, skill_set) for chat in chats),
        seed,
    )


def test_stories_have_the_shape_that_the_spec_says() -> None:
    chats = compose_chats(ChatSpec(duration_s=1000.0), 1)
    words = [len(chat.text.split()) for chat in chats]
    assert 300 < statistics.fmean(words) < 360
    assert 1.1 < sum(len(chat.tokens) for chat in chats) / sum(words) < 1.5
    assert [chat.at_s for chat in chats] == sorted(chat.at_s for chat in chats)
    paragraphs = chats[0].text.split('\n\n')
    assert 3 <= len(paragraphs) <= 8
    assert (
        compose_chats(ChatSpec(), 3) == compose_chats(ChatSpec(), 3) != compose_chats(ChatSpec(), 4)
    )


def test_a_chat_as_a_workload_has_its_sentences_or_paragraphs() -> None:
    chat = Chat(0.0, ('A', ' cat', '.', ' Two', ' words', ' more', '.', '\n\n', 'End', '.'))
    (task,) = chat_workload((chat,), chatbot('sentence'), seed=0).tasks
    assert [shape.tokens for shape in task.segments] == [4, 4, 2]
    assert [shape.execution_s for shape in task.segments] == pytest.approx([0.4, 0.6, 0.2])
    (task,) = chat_workload((chat,), chatbot('paragraph'), seed=0).tasks
    assert [shape.tokens for shape in task.segments] == [8, 2]


@pytest.mark.parametrize(
    'system', [whole_plan(8), paper('utility', 4), paper('fcfs', 4)], ids=lambda item: item.name
)
@pytest.mark.parametrize('segments', ['sentence', 'paragraph'])
def test_chats_fare_as_a_workload_of_the_same_shape(system: System, segments: SegmentEnd) -> None:
    """The planner needs to know nothing of text: only tokens and reading times count."""
    chats = compose_chats(SMALL, 2)
    skill_set = chatbot(segments)
    read = run_chats(chats, system, skill_set, LLAMA3)
    check_all_succeeded(read)
    shaped = run_workload(chat_workload(chats, skill_set, seed=2), system, network_s=NETWORK_S)
    for ours, theirs in zip(read, shaped, strict=True):
        assert ours.result.tokens == theirs.result.tokens == len(chats[int(ours.robot[7:])].tokens)
        assert ours.result.segments == theirs.result.segments
        # Shapes are rounded to whole milliseconds.
        assert ours.result.waits_s == pytest.approx(theirs.result.waits_s, abs=2e-3)
        assert ours.result.execution_s == pytest.approx(theirs.result.execution_s, abs=0.05)


def test_readers_wait_less_for_sentences_than_for_paragraphs_than_for_stories() -> None:
    chats = compose_chats(ChatSpec(duration_s=40.0), 0)
    waits = [
        statistics.fmean(
            record.result.waiting_s for record in run_chats(chats, system, skill_set, LLAMA3)
        )
        for system, skill_set in (
            (paper('utility', 8), chatbot('sentence')),
            (paper('utility', 8), chatbot('paragraph')),
            (whole_plan(8), chatbot('sentence')),
        )
    ]
    assert waits[0] < waits[1] < waits[2]
    assert waits[0] < 0.2 * waits[2]


def test_lookahead_serves_chats_too_and_repeats_itself() -> None:
    chats = compose_chats(SMALL, 5)
    runs = [run_chats(chats, lookahead(), chatbot('sentence'), LLAMA3) for _ in range(2)]
    assert runs[0] == runs[1]
    check_all_succeeded(runs[0])


def test_the_smaller_model_is_faster_by_its_size() -> None:
    phi3 = CHAT_HARDWARE['phi3'].step_time
    assert phi3.decode_s == pytest.approx(0.475 * LLAMA3.step_time.decode_s)
    assert chatbot('sentence') == find_skill_set('chatbot')


@pytest.mark.parametrize(
    ('options', 'named'),
    [
        ({'events_per_s': 0.0}, 'events_per_s'),
        ({'duration_s': float('inf')}, 'duration_s'),
        ({'words': (3, 2)}, 'words'),
        ({'sentences': (0, 2)}, 'sentences'),
        ({'second_token': 1.5}, 'second_token'),
    ],
)
def test_a_spec_out_of_range_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        ChatSpec(**options)
