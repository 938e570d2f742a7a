"""A robot of services and topics, whose calls file is written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.ros.calls_fleet import CallsFleet

from timely_llm_ros.execution import SegmentCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.ros.ros_client import Client
    from timely_llm_ros.action import ExecuteSegment

pytestmark = pytest.mark.distro

SKILLS = """
name: crawler
description: a robot that crawls
safe_action: stop
skills:
  crawl:
    description: crawl forward for a while
    arguments: {time: {kind: int, unit: ms, minimum: 100, maximum: 60000}}
    duration: {model: linear, base_s: 0, per: {time: 1}}
  is_free:
    description: is the way free
    blocking: true
    returns: bool
    duration: {model: constant, seconds: 0.2}
  brake: {description: use the brake, duration: {model: constant, seconds: 0.2}}
  stop: {description: stand still, duration: {model: constant, seconds: 0.1}}
"""

CALLS = """
skills:
  crawl:
    topic: cmd_vel
    type: geometry_msgs/msg/Twist
    message: {linear: {x: 0.05}}
    for: $time
    rate_hz: 20
    then: {}
  is_free: {service: is_free, type: std_srvs/srv/Trigger, value: success}
  brake:
    service: brake
    type: std_srvs/srv/SetBool
    request: {data: true}
    success: {success: true}
  stop:
    - {topic: cmd_vel, type: geometry_msgs/msg/Twist}
    - {service: brake, type: std_srvs/srv/SetBool, request: {data: true}, success: {success: true}}
"""


@pytest.fixture(scope='module')
def crawler(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CallsFleet]:
    folder = tmp_path_factory.mktemp('crawler')
    skills, calls = folder / 'crawler.yaml', folder / 'calls.yaml'
    skills.write_text(SKILLS, encoding='utf-8')
    calls.write_text(CALLS, encoding='utf-8')
    fleet = CallsFleet(
        client,
        folder,
        'crawler_1',
        skill_set=str(skills),
        calls=str(calls),
        executor={'planner_timeout_s': 0.0},
        start_planner=False,
    )
    fleet.robots['crawler_1'] = 'crawler'
    fleet.wait_ready()
    yield fleet
    fleet.close()


def run(crawler: CallsFleet, text: str, *, awaits_value: bool = False) -> ExecuteSegment.Result:
    return crawler.segment('crawler_1', text=text, awaits_value=awaits_value).result()[1]


def test_a_topic_is_published_while_a_skill_lasts_and_stopped_after_it(crawler: CallsFleet) -> None:
    before = len(crawler.servers.events)
    result = run(crawler, 'crawl(1000);brake;')
    assert result.error_code == SegmentCode.NONE, result.error_msg
    crawler.servers.wait_event('request', 'brake', before)
    events = crawler.servers.events[before:]
    speeds = [e['message']['linear']['x'] for e in events if e['event'] == 'message']
    assert len(speeds) > 2
    assert (speeds[0], speeds[-1]) == (0.05, 0.0)


def test_a_cancelled_crawl_ends_at_once_in_the_safe_action(crawler: CallsFleet) -> None:
    before = len(crawler.servers.events)
    goal = crawler.segment('crawler_1', text='crawl(60000);')
    crawler.servers.wait_event('message', 'cmd_vel', before)
    assert crawler.stop_robot('crawler_1').success
    assert goal.result()[1].error_code == SegmentCode.CANCELED
    crawler.servers.wait_event('request', 'brake', before)
    last = crawler.servers.wait_event('message', 'cmd_vel', before)
    assert last['message']['linear']['x'] == 0.0


def test_a_service_says_what_a_plan_reads_and_what_failed(crawler: CallsFleet) -> None:
    assert run(crawler, 'is_free;', awaits_value=True).value == 'false'
    crawler.servers.command('reject')
    result = run(crawler, 'brake;')
    crawler.servers.command('accept')
    assert result.error_code == SegmentCode.SKILL_FAILED
    assert 'success False: expected True' in result.error_msg
