"""The alert rules: each is made to fire by promtool, and none without a test of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from lrtrace.record.recorder_health import RECORDER_METRICS
from timely_llm_ros.execution import SegmentCode
from timely_llm_ros.nodes.executor.metrics import EXECUTOR_METRICS
from timely_llm_ros.nodes.planner.metrics import PLANNER_METRICS
from timely_llm_ros.ros.conversions import REASONS

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


def rules() -> list[dict[str, str]]:
    groups = yaml.safe_load((MONITORING / 'alerts.yml').read_text(encoding='utf-8'))['groups']
    return [rule for group in groups for rule in group['rules']]


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


def test_every_alert_has_a_test_that_it_fires_and_one_that_it_is_silent() -> None:
    cases = yaml.safe_load((HERE / 'alerts_test.yml').read_text(encoding='utf-8'))['tests']
    tried = [alert for case in cases for alert in case['alert_rule_test']]
    fires = {alert['alertname'] for alert in tried if alert['exp_alerts']}
    silent = {alert['alertname'] for alert in tried if not alert['exp_alerts']}
    assert fires == silent == {rule['alert'] for rule in rules()}


def test_alerts_and_pictures_ask_for_metrics_that_are_declared() -> None:
    board = json.loads((MONITORING / 'dashboard.json').read_text(encoding='utf-8'))
    asked = [rule['expr'] for rule in rules()]
    asked += [target['expr'] for panel in board['panels'] for target in panel['targets']]
    for text in asked:
        assert set(re.findall(r'\btimely_\w+', re.sub(r'"[^"]*"', '', text))) <= KNOWN, text


def test_alerts_ask_for_reasons_that_there_are() -> None:
    known = {*REASONS.values(), *(code.name.lower() for code in SegmentCode)}
    asked = [
        reason
        for rule in rules()
        for text in re.findall(r'reason=~?"([^"]*)"', rule['expr'])
        for reason in text.split('|')
    ]
    assert asked
    assert set(asked) <= known


def test_the_page_says_what_to_do_at_each_alert() -> None:
    page = (ROOT / 'docs' / 'how_to' / 'operate.md').read_text(encoding='utf-8')
    for rule in rules():
        assert f'`{rule["alert"]}`' in page


@pytest.mark.parametrize('metric', METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions_of_prometheus(metric: object) -> None:
    from timely_llm_ros.ros import Metric

    assert isinstance(metric, Metric)
    assert re.fullmatch(r'timely_[a-z]+(_[a-z]+)+', metric.name)
    assert (metric.kind == 'counter') == metric.name.endswith('_total')
    assert not re.search(r'_(s|ms|milliseconds|kb|mb)$', metric.name), 'base units, in full'
    assert metric.text.endswith('.')


def test_no_metric_is_declared_twice() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
