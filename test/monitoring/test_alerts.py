"""The alert rules: each is made to fire by promtool, and none without a test of it."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support.alert_rules import holds, read_rules

from lrtrace.record.recorder_health import RECORDER_METRICS
from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.nodes.executor.metrics import EXECUTOR_METRICS
from timely_llm_ros.nodes.planner.metrics import PLANNER_METRICS
from timely_llm_ros.ros import Distribution, Exporter, Metric, MetricsOptions
from timely_llm_ros.ros.conversions import REASONS

if TYPE_CHECKING:
    from support.alert_rules import Figures

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / 'config' / 'monitoring'
HERE = Path(__file__).parent
METRICS = (*PLANNER_METRICS, *EXECUTOR_METRICS, *RECORDER_METRICS)
KNOWN = {
    name
    for metric in METRICS
    for name in (
        [f'{metric.name}_{part}' for part in ('bucket', 'count', 'sum')]
        if metric.kind == 'histogram'
        else [metric.name]
    )
}

needs_promtool = pytest.mark.skipif(
    shutil.which('promtool') is None, reason='promtool: expected on the PATH (Debian: prometheus)'
)


RULES = read_rules()
CASES: list[dict[str, Any]] = yaml.safe_load(
    (HERE / 'alerts_test.yml').read_text(encoding='utf-8')
)['tests']
CAUSED = ('test_alert_causes.py', 'test_changing_servers.py', 'test_recorder.py')
"""The tests in test/ros that cause what alerts are for."""


@needs_promtool
@pytest.mark.parametrize(
    'command',
    [
        ['check', 'rules', str(MONITORING / 'alerts.yml')],
        ['check', 'config', str(MONITORING / 'prometheus.yml')],
        ['test', 'rules', str(HERE / 'alerts_test.yml')],
    ],
    ids=' '.join,
)
def test_promtool_is_content(command: list[str]) -> None:
    done = subprocess.run(['promtool', *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_is_content_with_what_is_served_of_every_metric() -> None:
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    exporter = Exporter(MetricsOptions(metrics_port=port), 'all')
    sizes = Distribution((('1.0', 1), ('+Inf', 2)), 3.0)
    exporter.show(
        {one: [(one.labels, sizes if one.kind == 'histogram' else 1.0)] for one in METRICS}
    )
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10) as answer:
        text = answer.read()
    exporter.close()
    done = subprocess.run(
        ['promtool', 'check', 'metrics'], input=text, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b'')


@needs_promtool
def test_promtool_reads_what_the_pictures_ask_for(tmp_path: Path) -> None:
    rules = [
        {'record': f'picture:{number}', 'expr': expression.replace('$__rate_interval', '1m')}
        for number, expression in enumerate(pictures())
    ]
    file = tmp_path / 'pictures.yml'
    file.write_text(json.dumps({'groups': [{'name': 'pictures', 'rules': rules}]}))
    done = subprocess.run(
        ['promtool', 'check', 'rules', str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def pictures() -> list[str]:
    """Return what the panels of the dashboard ask for."""
    board = json.loads((MONITORING / 'dashboard.json').read_text(encoding='utf-8'))
    return [target['expr'] for panel in board['panels'] for target in panel['targets']]


def test_every_alert_has_a_test_that_it_fires_and_one_that_it_is_silent() -> None:
    tried = [alert for case in CASES for alert in case['alert_rule_test']]
    fires = {alert['alertname'] for alert in tried if alert['exp_alerts']}
    silent = {alert['alertname'] for alert in tried if not alert['exp_alerts']}
    assert fires == silent == set(RULES)


def series_of(case: dict[str, Any]) -> tuple[Figures, Figures]:
    """Return the first and the last values of a case's series."""
    first: Figures = {}
    last: Figures = {}
    for series in case['input_series']:
        found = re.fullmatch(r'(\w+)(?:\{(.*)\})?', series['series'])
        assert found is not None
        name, labels = found.groups()
        key = name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels or ''))
        values = re.findall(r'([\d.]+)(?:\+([\d.]+))?x(\d+)', series['values'])
        first[key] = float(values[0][0])
        start, step, count = values[-1]
        last[key] = float(start) + float(step or 0) * int(count)
    return first, last


@pytest.mark.parametrize('case', CASES, ids=lambda case: case['alert_rule_test'][0]['alertname'])
def test_conditions_are_read_as_promtool_reads_them(case: dict[str, Any]) -> None:
    first, last = series_of(case)
    for alert in case['alert_rule_test']:
        expression = RULES[alert['alertname']]['expr']
        assert holds(expression, first, last) == bool(alert['exp_alerts']), expression


def test_every_alert_is_caused_in_a_fleet_that_runs() -> None:
    texts = [(ROOT / 'test' / 'ros' / name).read_text(encoding='utf-8') for name in CAUSED]
    assert [alert for alert in RULES if not any(f"'{alert}'" in text for text in texts)] == []


def test_alerts_and_pictures_ask_for_metrics_that_are_declared() -> None:
    for text in [*(rule['expr'] for rule in RULES.values()), *pictures()]:
        assert set(re.findall(r'\btimely_\w+', re.sub(r'"[^"]*"', '', text))) <= KNOWN, text


def test_alerts_ask_for_reasons_that_there_are() -> None:
    known = {*REASONS.values(), *(code.name.lower() for code in SegmentCode)}
    asked = [
        reason
        for rule in RULES.values()
        for text in re.findall(r'reason=~?"([^"]*)"', rule['expr'])
        for reason in text.split('|')
    ]
    assert asked
    assert set(asked) <= known


def test_the_page_says_what_to_do_at_each_alert() -> None:
    page = (ROOT / 'docs' / 'how_to' / 'operate.md').read_text(encoding='utf-8')
    for alert in RULES:
        assert f'`{alert}`' in page


@pytest.mark.parametrize('metric', METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions_of_prometheus(metric: Metric) -> None:
    assert re.fullmatch(r'timely_[a-z]+(_[a-z]+)+', metric.name)
    assert (metric.kind == 'counter') == metric.name.endswith('_total')
    assert not re.search(r'_(s|ms|milliseconds|kb|mb)$', metric.name), 'base units, in full'
    assert metric.text.endswith('.')


def test_no_metric_is_declared_twice() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
