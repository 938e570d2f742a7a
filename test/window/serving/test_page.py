"""The page in a browser, fed with events of its own: what it shows, and what it never does."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.browser.chromium import CHROMIUM, Chromium
from support.ros.programs import wait_for

from timely_llm_ros.window import WindowOptions
from timely_llm_ros.window.serving import Recording, WindowServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason='no chromium on this machine')

PLAN = '1' * 32
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"\'};hacked=1//'
PANE = 'window.fleetWindow.panes[0].fleet'


class Window:
    """A server on a thread of its own, and what pages asked it for."""

    def __init__(self, port: int = 0, **options: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self._options = WindowOptions(port=port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.server = WindowServer(self._options, now_s=time.time, command=self._command, **options)
        self._wait(self.server.start())
        self.address = self.server.address

    def _wait(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def _command(self, request: dict[str, Any], answer: Callable[[Any], None]) -> None:
        self.asked.append(request)
        if request['do'] == 'halt':
            answer({'robot': 'drone_1', 'ok': True, 'message': 'stopped', 'took_s': 0.012})
            answer({'robot': 'drone_2', 'ok': False, 'message': 'NOT REACHED'})
            answer({'done': ['drone_1'], 'missing': ['drone_2']})

    def tell(self, *events: dict[str, Any]) -> None:
        for event in events:
            self._loop.call_soon_threadsafe(partial(self.server.tell, event))

    def close(self) -> None:
        self._wait(self.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)


def robot(
    name: str, call: str = '', phase: str = 'idle', plan: str = '', **more: bool
) -> dict[str, Any]:
    return {
        'event': 'robot', 'robot': name, 'skill_set': 'tello', 'phase': phase, 'plan': plan,
        'segment': 0, 'call': call, 'queued_segments': 0, 'halted': False, 'inactive': False,
        **more,
    }  # fmt: skip


def task(name: str, what: str, plan: str = PLAN, **more: Any) -> dict[str, Any]:
    told = {
        'event': 'task', 'what': what, 'plan': plan, 'robot': name, 'skill_set': 'tello',
        'kind': 'look_for', 'instruction': 'look for the cat', 'expected_response_s': 1.0,
        'slope_per_s': -1.0, 'peak': 1.0, 'at_s': 0.0, 'segment': 0, 'status': 0, 'error': '',
        'utility': 0.0, 'scene': [],
    }  # fmt: skip
    return {**told, **more}


def segment(name: str, text: str, index: int = 0, plan: str = PLAN) -> dict[str, Any]:
    return {
        'event': 'segment', 'plan': plan, 'robot': name, 'index': index, 'text': text,
        'tokens': 3, 'generation_s': 0.1, 'expected_execution_s': 4.0, 'awaits_value': False,
    }  # fmt: skip


@pytest.fixture(scope='module')
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    browser = Chromium(tmp_path_factory.mktemp('chromium'))
    yield browser
    browser.close()


@pytest.fixture
def window() -> Iterator[Window]:
    window = Window()
    yield window
    window.close()


def shown(browser: Chromium, window: Window, robots: int = 2, width: int = 1440) -> None:
    browser.messages.clear()
    browser.open(window.address, width)
    browser.wait(f'document.querySelectorAll("[data-robot]").length === {robots}')


def test_it_shows_what_a_robot_does_and_its_plan_as_it_grows(
    browser: Chromium, window: Window
) -> None:
    window.tell(robot('drone_1'), robot('drone_2'), task('drone_1', 'accepted'))
    shown(browser, window)
    browser.wait("document.querySelector('[data-robot=drone_1]').dataset.phase === 'generating'")
    browser.click('[data-robot=drone_1] button')
    window.tell(segment('drone_1', 'takeoff;'), task('drone_1', 'segment_started', at_s=0.4))
    window.tell(robot('drone_1', 'takeoff', 'executing', PLAN))
    browser.wait("document.querySelector('.plan li')?.dataset.state === 'acts'")
    assert 'takeoff;' in browser.text('.plan')
    assert 'look for the cat' in browser.text('#detail')
    assert 'kept 0.40 s' in browser.text('[data-robot=drone_1]')
    window.tell(segment('drone_1', 'land;', 1))
    browser.wait("document.querySelectorAll('.plan li').length === 2")
    browser.wait("Number(document.querySelector('.gantt canvas').dataset.tasks) === 1")
    window.tell(task('drone_1', 'ended', status=4, utility=1.0))
    browser.wait("document.querySelector('.writing').textContent.includes('Done')")
    assert not browser.messages


def test_a_robot_whose_plan_waits_for_approval_says_so(browser: Chromium, window: Window) -> None:
    phase = "document.querySelector('[data-robot=drone_1]').dataset.phase"
    window.tell(robot('drone_1'), robot('drone_2'), task('drone_1', 'accepted'))
    window.tell(segment('drone_1', 'takeoff;'), {'event': 'unapproved', 'plans': [PLAN]})
    shown(browser, window)
    browser.wait(f"{phase} === 'unapproved'")
    window.tell({'event': 'unapproved', 'plans': []})
    browser.wait(f"{phase} === 'waiting'")
    assert not browser.messages


def test_a_robot_whose_executor_is_inactive_is_not_called_halted(
    browser: Chromium, window: Window
) -> None:
    phase = "document.querySelector('[data-robot=drone_1]').dataset.phase"
    window.tell(robot('drone_1', inactive=True), robot('drone_2'))
    shown(browser, window)
    browser.wait(f"{phase} === 'inactive'")
    assert browser.evaluate("document.querySelector('#release-all').hidden") is True
    window.tell(robot('drone_1', inactive=True, halted=True))
    browser.wait(f"{phase} === 'halted'")
    window.tell(robot('drone_1'))
    browser.wait(f"{phase} === 'idle'")
    assert not browser.messages


def test_a_task_for_a_robot_that_nobody_knows_makes_no_robot(
    browser: Chromium, window: Window
) -> None:
    window.tell(robot('drone_1'), robot('drone_2'))
    shown(browser, window)
    browser.wait(f"{PANE}.robots.has('drone_1')")
    window.tell(task('drone_9', 'refused', error='no such robot'))
    window.tell(task('drone_1', 'refused', error='it is late'))
    browser.wait(f'{PANE}.refused === 2')
    assert browser.evaluate(f"{PANE}.robots.has('drone_9')") is False
    assert browser.evaluate(f"{PANE}.robots.get('drone_1').failed") == 1


def test_an_engine_that_came_to_rest_is_not_drawn_at_work(browser: Chromium) -> None:
    engine = {
        'event': 'scheduler', 'engine': 'torch', 'mode': 'segmented', 'policy': 'utility',
        'running': 0, 'suspended': 0, 'held': 0, 'queued': 0, 'kv_tokens': 0,
        'kv_capacity_tokens': 0, 'step_s': 0.0, 'generations': [],
    }  # fmt: skip
    run = [
        {**robot('drone_1'), 't': 100.0},
        {**task('drone_1', 'accepted'), 't': 101.0},
        *({**engine, 't': 101 + at, 'running': n} for at, n in ((0, 1), (0.05, 2), (0.1, 0))),
        {**task('drone_1', 'ended', status=4), 't': 160.0},
    ]
    window = Window(recordings=[Recording('one', run)])
    try:
        shown(browser, window, 1)
        browser.evaluate('window.fleetWindow.player.seek(30)')
        kept = f'{PANE}.samples.map(([at, running]) => [Number((at - 101).toFixed(2)), running])'
        browser.wait(f'{kept}.length === 2')
        assert browser.evaluate(kept) == [[0, 1], [0.1, 0]]
        assert not browser.messages
    finally:
        window.close()


def test_robots_move(browser: Chromium, window: Window) -> None:
    window.tell(robot('drone_1'), robot('drone_2'))
    shown(browser, window)
    place = "window.fleetWindow.panes[0].world.spots.find((one) => one.name === 'drone_1')"
    browser.wait(f'Boolean({place})')
    before = browser.evaluate(f'[{place}.x, {place}.y]')
    way = {'event': 'way', 'robot': 'drone_1', 'from': [0, 0, 0, 0], 'to': [1.5, 1, 1, 0]}
    window.tell({**way, 'lasts_s': 0.3})
    x, y = before
    browser.wait(f'Math.hypot({place}.x - {x}, {place}.y - {y}) > 5')
    # Where somebody measures where it is, that counts.
    window.tell({'event': 'pose', 'robot': 'drone_1', 'at': [0.0, 0.0, 0.0, 0.0]})
    browser.wait(f"{PANE}.robots.get('drone_1').pose !== null")
    assert not browser.messages


def test_what_a_robot_knows_lies_from_where_it_started(browser: Chromium, window: Window) -> None:
    shown(browser, window, robots=0)
    # It started at x 10 m with its nose to the left, and a thing is 1 m before it.
    robots = ('{ start: [10, 0, 0, Math.PI / 2] }', "{ body: 'arm', base: [10, 0, 0.5] }")
    places = [
        browser.evaluate(f"import('/world.js').then((it) => it.fromStart({robot}, [1, 0, 0.2]))")
        for robot in robots
    ]
    assert places == [pytest.approx([10, 1, 0.2]), pytest.approx([11, 0, 0.7])]


def test_what_robots_answer_is_shown_for_each(browser: Chromium, window: Window) -> None:
    window.tell(robot('drone_1'), robot('drone_2'))
    shown(browser, window)
    browser.wait("!document.querySelector('#stop-all').hidden")
    browser.click('#stop-all')
    browser.wait("document.querySelectorAll('#answers li').length === 2")
    told = browser.text('#answers')
    assert 'NOT REACHED' in told
    assert 'stopped (12 ms)' in told
    assert '1 of 2 robots are perhaps not safe' in told
    assert {'do': 'halt', 'robots': []}.items() <= window.asked[-1].items()


def test_a_task_in_words_is_asked_for(browser: Chromium, window: Window) -> None:
    window.tell(robot('drone_1'), robot('drone_2'))
    shown(browser, window)
    browser.wait("document.querySelectorAll('#send option[value=drone_2]').length === 1")
    browser.evaluate("document.querySelector('#send select').value = 'drone_2'")
    browser.evaluate(f"document.querySelector('#send input').value = {json.dumps(HOSTILE)}")
    browser.evaluate("document.querySelector('#send').requestSubmit()")
    sent = wait_for(lambda: [one for one in window.asked if one['do'] == 'send'], 'a task')
    assert sent[0]['robot'] == 'drone_2'
    assert sent[0]['instruction'] == HOSTILE


def test_no_text_of_a_fleet_runs_as_script(browser: Chromium, window: Window) -> None:
    scene = [[HOSTILE, HOSTILE, HOSTILE, 'on', HOSTILE, 1.0, 1.0, 0.0, HOSTILE]]
    window.tell(
        robot(HOSTILE, HOSTILE, 'executing', PLAN),
        {'event': 'body', 'robot': HOSTILE, 'is': '__proto__'},
        task(HOSTILE, 'accepted', instruction=HOSTILE, kind=HOSTILE, scene=scene),
        segment(HOSTILE, HOSTILE),
        task(HOSTILE, 'segment_started', at_s=0.1),
        task(HOSTILE, 'segment_ended', error=HOSTILE, calls=[HOSTILE]),
        task(HOSTILE, 'refused', plan='0' * 32, error=HOSTILE, instruction=HOSTILE),
        robot('__proto__', 'constructor', 'executing'),
    )
    shown(browser, window)
    browser.evaluate("document.querySelector('[data-robot] button').click()")
    browser.evaluate("[...document.querySelectorAll('[data-robot] button')].at(-1).click()")
    browser.wait("document.querySelectorAll('.log li').length > 0")
    assert browser.evaluate('window.hacked') is None
    assert browser.evaluate("document.querySelectorAll('main script, main img').length") == 0
    assert not browser.messages


def test_it_comes_back_after_the_server_was_started_again(browser: Chromium) -> None:
    first = Window()
    first.tell(robot('drone_1'), robot('drone_2'))
    shown(browser, first)
    port = int(re.findall(r':(\d+)/', first.address)[0])
    first.close()
    browser.wait("document.querySelector('#state').dataset.state === 'lost'")
    assert browser.evaluate("document.querySelector('#trouble').hidden") is False
    again = Window(port)
    try:
        again.tell(robot('drone_7'))
        browser.wait("document.querySelector('#state').dataset.state === 'live'")
        browser.wait("document.querySelectorAll('[data-robot]').length === 1")
        assert 'drone_7' in browser.text('#fleet')
        # Of the network Chromium itself says that nobody answered.
        assert not browser.messages
    finally:
        again.close()


def test_recordings_play_beside_each_other_at_any_speed(browser: Chromium) -> None:
    def run(response_s: float) -> list[dict[str, Any]]:
        return [
            {**robot('drone_1'), 't': 100.0},
            {**task('drone_1', 'accepted'), 't': 101.0},
            {**task('drone_1', 'segment_started', at_s=response_s), 't': 101.0 + response_s},
            {**task('drone_1', 'ended', status=4), 't': 160.0},
        ]

    window = Window(recordings=[Recording('one', run(0.5)), Recording('other', run(30.0))])
    try:
        shown(browser, window, 1)
        assert browser.evaluate("document.querySelectorAll('.world canvas').length") == 2
        browser.evaluate("document.querySelector('#rate').value = '16'")
        browser.evaluate("document.querySelector('#rate').dispatchEvent(new Event('change'))")
        done = '.every((pane) => pane.fleet.done === 1)'
        browser.wait(f'window.fleetWindow.panes{done}')
        assert '0.50 s' in browser.text('#cards')
        assert 'other: 30.0 s' in browser.text('#cards')
        browser.evaluate('window.fleetWindow.player.seek(1)')
        browser.wait(f'!window.fleetWindow.panes{done}')
        assert not browser.messages
    finally:
        window.close()


CONTRAST = """((selector) => {
  const of = (text) => {
    const [r, g, b] = text.match(/[0-9.]+/g).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const style = getComputedStyle(document.querySelector(selector));
  const both = [of(style.color), of(style.backgroundColor)];
  return Math.max(...both) / Math.min(...both);
})"""


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_the_button_that_stops_all_can_be_read(
    browser: Chromium, window: Window, scheme: str
) -> None:
    window.tell(robot('drone_1'), robot('drone_2'))
    wanted = [{'name': 'prefers-color-scheme', 'value': scheme}]
    browser.call('Emulation.setEmulatedMedia', features=wanted)
    try:
        shown(browser, window)
        # WCAG 2.2, contrast (minimum), of text as small as this.
        assert browser.evaluate(f"{CONTRAST}('#stop-all')") >= 4.5
    finally:
        browser.call('Emulation.setEmulatedMedia', features=[])


@pytest.mark.parametrize('width', [1440, 390])
def test_it_fits_the_screen(browser: Chromium, window: Window, width: int) -> None:
    window.tell(*(robot(f'drone_{number}', 'takeoff', 'executing') for number in range(20)))
    window.tell(task('drone_1', 'accepted', instruction='look for ' + 'everything ' * 30))
    shown(browser, window, 20, width)
    browser.click('[data-robot=drone_1] button')
    browser.wait("document.querySelector('#detail').hidden === false")
    assert browser.evaluate('document.documentElement.scrollWidth') <= width
    assert not browser.messages


def test_recordings_beside_each_other_have_one_axis(browser: Chromium) -> None:
    def run(heard_s: float) -> list[dict[str, Any]]:
        return [
            {**robot('drone_1'), 't': heard_s},
            {**task('drone_1', 'accepted'), 't': 103.0},
            {**task('drone_1', 'ended', status=4), 't': 110.0},
        ]

    window = Window(recordings=[Recording('one', run(100.0)), Recording('other', run(103.0))])
    try:
        shown(browser, window, 1)
        browser.evaluate('window.fleetWindow.player.seek(5)')
        tasks = 'window.fleetWindow.panes.map((pane) => pane.timeline.chart.run?.tasks[0]?.at)'
        browser.wait(f'{tasks}.every((at) => at !== undefined)')
        one, other = browser.evaluate(tasks)
        assert one == pytest.approx(other)
    finally:
        window.close()


def test_what_is_missing_of_a_recording_is_said_beside_it(browser: Chromium) -> None:
    run = [{**robot('drone_1'), 't': 100.0}, {**task('drone_1', 'accepted'), 't': 101.0}]
    told = 'poses and markers after 82.7 s'
    window = Window(recordings=[Recording('one', run), Recording('other', run, told)])
    try:
        shown(browser, window, 1)
        assert browser.evaluate("document.querySelectorAll('.world .warning').length") == 1
        assert told in browser.text('.world:last-child')
        assert not browser.messages
    finally:
        window.close()


def test_the_page_makes_no_html_of_texts() -> None:
    page = Path(__file__).parents[3] / 'timely_llm_ros/window'
    for script in page.rglob('*.js'):
        found = re.search(
            r'innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function',
            script.read_text(encoding='utf-8'),
        )
        assert found is None, f'{script}: {found}'
