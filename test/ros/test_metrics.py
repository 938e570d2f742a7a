"""What running programs really tell Prometheus, and whether alerts and pictures ask for that."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from support.ros.programs import ROOT, Program, wait_for
from support.ros.ros_client import SUCCEEDED

from lrtrace.record.recorder_health import RECORDER_METRICS
from timely_llm_ros.nodes.executor.metrics import EXECUTOR_METRICS
from timely_llm_ros.nodes.planner.metrics import (
    DEMAND,
    PLANNER_METRICS,
    SERVER_LOSSES,
    SERVER_RUNNING,
    SERVER_STEP,
    SERVER_UP,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.ros.fleet import Fleet

MONITORING = ROOT / 'config' / 'monitoring'
ONLY_WITH_SERVERS = {SERVER_UP, SERVER_STEP, SERVER_RUNNING, SERVER_LOSSES}
_NAME = re.compile(r'\btimely_\w+\b')


def free_ports(count: int) -> list[int]:
    """Return ports that nobody has now."""
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def scrape(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10) as answer:  # noqa: S310
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def names(port: int) -> set[str]:
    try:
        return {name for name, _ in scrape(port)}
    except (urllib.error.URLError, ConnectionError):
        return set()


@pytest.fixture(scope='module')
def ports(start_fleet: Callable[..., Fleet], tmp_path_factory: Any) -> Iterator[dict[str, int]]:
    planner, executor, recorder = free_ports(3)
    fleet = start_fleet(
        planner={'metrics_port': planner},
        executor={'metrics_port': executor},
    )
    folder: Path = tmp_path_factory.mktemp('recorder')
    program = Program(
        'recorder',
        folder,
        {'output': str(folder / 'trace'), 'metrics_port': recorder},
        namespace=fleet.namespace,
    )
    try:
        assert fleet.plan('delay(100);').result()[0] == SUCCEEDED
        assert fleet.plan('delay(100);', robot='nobody').wait_rejected() is None
        wait_for(lambda: names(recorder), 'recorder')
        yield {'planner': planner, 'executor': executor, 'recorder': recorder}
    finally:
        program.signal(signal.SIGINT)
        assert program.wait() == 0


def exported(ports: dict[str, int]) -> set[str]:
    return set().union(*map(names, ports.values()))


def test_every_program_exports_what_is_declared_and_nothing_else(ports: dict[str, int]) -> None:
    declared = {
        'planner': set(PLANNER_METRICS) - ONLY_WITH_SERVERS,
        'executor': set(EXECUTOR_METRICS),
        'recorder': set(RECORDER_METRICS),
    }
    # The planner knows the demand once somebody asked.
    wait_for(lambda: DEMAND.name in names(ports['planner']), 'demand')
    for program, metrics in declared.items():
        found = {re.sub(r'_(bucket|count|sum)$', '', name) for name in names(ports[program])}
        assert found == {metric.name for metric in metrics}, program


def test_the_figures_are_those_of_what_happened(ports: dict[str, int]) -> None:
    def value(name: str, **labels: str) -> float:
        return scrape(ports['planner']).get((name, tuple(sorted(labels.items()))), -1.0)

    wait_for(lambda: value('timely_planner_tasks_ended_total', reason='none') == 1.0)
    assert value('timely_planner_tasks_accepted_total') == 1.0
    wait_for(lambda: value('timely_planner_tasks_refused_total', reason='invalid_task') == 1.0)
    labels = {'skill_set': 'tello', 'expected_response_s': '1'}
    assert value('timely_planner_response_seconds_count', **labels) == 1.0
    assert value('timely_planner_response_seconds_bucket', le='+Inf', **labels) == 1.0
    assert value('timely_planner_robot_available', robot='drone_1') == 1.0
    ended = scrape(ports['executor'])
    key = ('timely_executor_segments_ended_total', (('reason', 'none'), ('robot', 'drone_1')))
    assert ended[key] == 1.0


def test_alerts_and_pictures_ask_only_for_what_programs_export(ports: dict[str, int]) -> None:
    there = exported(ports) | {metric.name for metric in ONLY_WITH_SERVERS}
    rules = yaml.safe_load((MONITORING / 'alerts.yml').read_text(encoding='utf-8'))
    asked = [rule['expr'] for group in rules['groups'] for rule in group['rules']]
    board = json.loads((MONITORING / 'dashboard.json').read_text(encoding='utf-8'))
    asked += [target['expr'] for panel in board['panels'] for target in panel['targets']]
    for text in asked:
        used = set(_NAME.findall(re.sub(r'"[^"]*"', '', text)))
        assert used <= there, text
        assert used or text.startswith('up{'), text


@pytest.mark.skipif(
    shutil.which('prometheus') is None, reason='prometheus: expected on the PATH (Debian has it)'
)
def test_a_real_prometheus_scrapes_every_program(ports: dict[str, int], tmp_path: Path) -> None:
    (own,) = free_ports(1)
    config = yaml.safe_load((MONITORING / 'prometheus.yml').read_text(encoding='utf-8'))
    config['global'] = {'scrape_interval': '200ms', 'evaluation_interval': '200ms'}
    config['rule_files'] = [str(MONITORING / 'alerts.yml')]
    for job in config['scrape_configs']:
        port = ports[job['job_name'].removeprefix('timely_')]
        job['static_configs'] = [{'targets': [f'127.0.0.1:{port}']}]
    (tmp_path / 'prometheus.yml').write_text(yaml.safe_dump(config), encoding='utf-8')
    log = (tmp_path / 'log').open('wb')
    process = subprocess.Popen(
        [
            'prometheus',
            f'--config.file={tmp_path}/prometheus.yml',
            f'--storage.tsdb.path={tmp_path}/data',
            f'--web.listen-address=127.0.0.1:{own}',
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )

    def ask(query: str) -> list[Any]:
        text = urllib.parse.quote(query)
        try:
            with urllib.request.urlopen(  # noqa: S310
                f'http://127.0.0.1:{own}/api/v1/query?query={text}', timeout=10
            ) as answer:
                return list(json.load(answer)['data']['result'])
        except (urllib.error.URLError, ConnectionError):
            return []

    try:
        wait_for(lambda: len(ask('up == 1')) == 3, 'three programs that are up')
        assert wait_for(lambda: ask('timely_planner_robot_available == 1'), 'a robot')
        assert wait_for(lambda: ask('timely_recorder_messages_total > 0'), 'messages')
        assert ask('ALERTS{alertstate="firing"}') == []
    finally:
        process.terminate()
        process.wait(30)
        log.close()
