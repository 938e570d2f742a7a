"""The report: whole, offline, and harmless whatever a trace holds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks.recorder.synthetic_trace import write_trace
from lrtrace import report
from lrtrace.report import write_report
from lrtrace.report.text import json_for_script, number, seconds
from lrtrace.run import RecordedSegment, RecordedTask, RefusedTask, Run, tell_apart
from lrtrace.storage.reader import Trace
from lrtrace.timeline import read_run
from timely_llm_ros.errors import TraceError

HOSTILE = (
    '</script><script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "'onmouseover='alert(1)",
    '<!--<script>',
    '\u2028${alert(1)}`',
    '1 \x00 2 <b>3</b>',
)


def render_report(runs: list[Run]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return write_report(runs, Path(folder) / 'report.html').read_text(encoding='utf-8')


class Page(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data = ''
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_data = tag == 'script' and dict(attrs).get('id') == 'data'

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._in_data:
            self.data += data


@pytest.fixture(scope='module')
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp('traces')
    for whole in (False, True):
        write_trace(folder / f'run{whole}', whole=whole)
    return [read_run(Trace(folder / f'run{whole}')) for whole in (False, True)]


def hostile_run(text: str) -> Run:
    task = RecordedTask(
        plan_id='00', robot=text, kind=text, instruction=text, received_s=0.0, free_s=0.0,
        expected_response_s=1.0, slope_per_s=-2.0, peak=1.0, ended_s=3.0, status=6, error_code=8,
        error=text, response_s=0.5,
    )  # fmt: skip
    task.segments[0] = RecordedSegment(
        0, text, (text,), 4, 0.4, 0.1, 1.0, started_s=0.5, ended_s=2.0, error=text
    )
    return Run(
        text, tasks=[task], refused=[RefusedTask(text, text, text, text)], engine=text, model=text,
        mode=text, policy=text, custom_data={text: text}, damage=text, path=text, duration_s=3.0,
    )  # fmt: skip


def test_the_report_shows_the_figures(runs: list[Run]) -> None:
    page = Page(render_report(runs))
    text = ' '.join(page.texts)
    assert 'the same tasks in every run' in text
    assert 'segmented, utility' in text
    assert 'whole plan, fcfs' in text
    assert 'x shorter' in text
    data = json.loads(page.data)
    assert [len(run['tasks']) for run in data['runs']] == [len(run.tasks) for run in runs]
    assert data['runs'][0]['robots'][-1] == 'drone_6'
    assert sum(tag == 'canvas' for tag, _ in page.tags) == 2


def test_one_run_is_enough(runs: list[Run]) -> None:
    page = Page(render_report(runs[:1]))
    assert 'shorter' not in ' '.join(page.texts[:50])
    assert sum(tag == 'canvas' for tag, _ in page.tags) == 1


def test_the_first_run_is_not_called_longer_than_its_equal(runs: list[Run]) -> None:
    assert 'class="badge"' in render_report(runs)
    assert 'class="badge"' not in render_report([runs[0], runs[0]])


def test_what_a_trace_notes_of_its_planner_is_told_once(runs: list[Run]) -> None:
    noted = {'engine': 'torch', 'mode': 'segmented', 'policy': 'utility', 'seed': '7'}
    page = render_report([replace(runs[0], custom_data=noted)])
    section = page.split('<h2>What was run</h2>')[1].split('</section>')[0]
    names = re.findall(r'<th scope="row">([^<]*)<', section)
    assert 'seed' in names
    assert len(names) == len(set(names))


def test_lines_of_five_runs_have_five_colors(runs: list[Run]) -> None:
    page = render_report([replace(runs[0], label=str(number)) for number in range(5)])
    assert len(set(re.findall(r'class="line (run\d)"', page))) == 5


def test_runs_of_a_label_are_told_apart_by_their_paths(runs: list[Run]) -> None:
    alike = [replace(runs[0], label=label, path=path) for label, path in ('aA', 'aB', 'bC')]
    tell_apart(alike)
    assert [run.label for run in alike] == ['a, A', 'a, B', 'b']


def test_no_run_is_refused() -> None:
    with pytest.raises(TraceError, match='at least one'):
        render_report([])


def test_an_empty_run_is_said_to_be_empty() -> None:
    assert 'the trace holds no task' in render_report([Run('nothing')])


def test_a_refusal_is_an_answer_and_no_warning(runs: list[Run]) -> None:
    calm = render_report([replace(runs[0], refused=[])])
    page = render_report(
        [replace(runs[0], refused=[RefusedTask('drone_9', 'worst case <9 s>')] * 2)]
    )
    assert page.count('class="warning"') == calm.count('class="warning"')
    assert '2 tasks were refused at once' in page
    assert '2 times: worst case &lt;9 s&gt;' in page
    assert 'refused' not in calm.split('<script')[0]


WORTHLESS = (
    'a first action is expected after {response} s (0.00 s for its robot, {engine} s for the '
    'engine), worth -0.20: expected more than 0'
)


def test_why_a_task_was_refused_is_told_in_a_sentence_with_numbers(runs: list[Run]) -> None:
    refused = [
        RefusedTask('drone_9', WORTHLESS.format(response='1.60', engine='0.41'), 'look_for', 'go'),
        RefusedTask('drone_2', WORTHLESS.format(response='1.75', engine='0.39'), 'look_for', 'go'),
        RefusedTask('drone_2', "robot 'drone_2' has 8 tasks queued: expected less than 8"),
    ]
    text = ' '.join(Page(render_report([replace(runs[0], refused=refused)])).texts)
    assert '3 tasks were refused at once' in text
    reason = WORTHLESS.format(response='1.60 to 1.75', engine='0.39 to 0.41')
    assert f'2 times: {reason}' in text
    assert "1 time: robot 'drone_2' has 8 tasks queued: expected less than 8" in text
    assert f'Refused because {refused[0].why}.' in text


def test_what_was_told_to_expect_stands_beside_what_was_achieved(runs: list[Run]) -> None:
    silent = render_report(runs[:1])
    assert 'promises kept' not in silent
    assert 'Told to expect' not in silent
    (first, *rest) = runs[0].tasks
    assert first.response_s is not None
    told = replace(
        first,
        kind='told',
        told_response_s=0.123,
        promised_response_s=first.response_s + 0.1,
    )
    late = replace(told, promised_response_s=first.response_s - 0.001)
    page = render_report([replace(runs[0], tasks=[told, late, *rest])])
    row = page.split('<th scope="row">told')[1].split('</tr>')[0]
    assert '>0.12 s<' in row
    assert '>50 %<' in row


def test_nothing_is_fetched(runs: list[Run]) -> None:
    text = render_report(runs)
    page = Page(text)
    for tag, attributes in page.tags:
        for name in ('src', 'href', 'action', 'srcset', 'data'):
            assert attributes.get(name) in (None, 'data:,'), (tag, name)
    assert not re.search(r'https?://|@import|url\(', text)
    policy = next(a['content'] for t, a in page.tags if t == 'meta' and 'http-equiv' in a)
    assert policy is not None
    assert "default-src 'none'" in policy


@pytest.mark.parametrize('hostile', HOSTILE)
def test_text_of_a_trace_stays_text(hostile: str) -> None:
    plain, attacked = (Page(render_report([hostile_run(text)])) for text in ('plain', hostile))
    assert [tag for tag, _ in attacked.tags] == [tag for tag, _ in plain.tags]
    assert [sorted(a) for _, a in attacked.tags] == [sorted(a) for _, a in plain.tags]
    task = json.loads(attacked.data)['runs'][0]['tasks'][0]
    assert task['text'] == task['error'] == hostile


@pytest.mark.parametrize('text', HOSTILE)
def test_json_survives_a_script_element(text: str) -> None:
    found = json_for_script({'text': text})
    assert '<' not in found
    assert '\u2028' not in found
    assert json.loads(found) == {'text': text}


def test_the_scripts_never_set_markup() -> None:
    script = (Path(report.__file__).parent / 'report.js').read_text()
    assert not re.search(r'innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(', script)


@pytest.mark.parametrize(
    ('value', 'text'),
    [(0.0, '0 ms'), (0.0994, '99 ms'), (0.1, '0.10 s'), (9.99, '9.99 s'), (12.34, '12.3 s'),
     (-0.5, '\u22120.50 s'), (float('nan'), '\u2013')],
)  # fmt: skip
def test_durations_are_readable(value: float, text: str) -> None:
    assert seconds(value) == text


def test_numbers_are_readable() -> None:
    assert number(-1.5) == '\u22121.50'
    assert number(float('inf')) == '\u2013'


def test_an_unwritable_path_is_named(runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(TraceError, match='cannot be written'):
        write_report(runs, tmp_path / 'no' / 'report.html')


CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')


@pytest.mark.skipif(CHROMIUM is None, reason='no chromium on this machine')
def test_a_browser_draws_it_without_an_error(runs: list[Run], tmp_path: Path) -> None:
    assert CHROMIUM is not None
    hostile = [hostile_run(text) for text in HOSTILE]
    path = write_report([*runs, *hostile], tmp_path / 'report.html')
    # The page's script has run to its end if the last chart has its height.
    done = subprocess.run(
        [CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr',
         f'--user-data-dir={tmp_path / "profile"}', '--virtual-time-budget=2000', '--dump-dom',
         f'file://{path}'],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert 'CONSOLE' not in done.stderr, done.stderr
    heights = re.findall(r'<canvas[^>]*style="height: (\d+)px', done.stdout)
    assert len(heights) == len(runs) + len(hostile)
