"""What telling Prometheus costs a planner and an executor of 100 robots, by the second."""

from __future__ import annotations

import socket
import sys
import time
import urllib.request
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.common import Target, arguments, save
from timely_llm_ros.engines import EngineInfo, EngineState
from timely_llm_ros.execution import ExecutorState
from timely_llm_ros.nodes.executor import executor_samples
from timely_llm_ros.nodes.planner import ResponseTimes, planner_samples
from timely_llm_ros.planner import AdmissionState
from timely_llm_ros.ros import METRICS_PERIOD_S, Exporter, MetricsOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from timely_llm_ros.ros import Samples

ROBOTS = 100
ROUNDS = 200
SCRAPE_PERIOD_S = 5.0


def main() -> int:
    """Measure, print and save; return the exit code."""
    options = arguments(__doc__).parse_args()
    print(f'{"":<10}{"samples":>9}{"make (ms)":>11}{"scrape (ms)":>13}{"of a core":>11}')
    figures: dict[str, Any] = {'robots': ROBOTS}
    targets = []
    for program, make in (('planner', planner), ('executor', executor)):
        samples, made_s, scraped_s = measure(make, program)
        share = made_s / METRICS_PERIOD_S + scraped_s / SCRAPE_PERIOD_S
        made_ms, scraped_ms = 1000 * made_s, 1000 * scraped_s
        print(f'{program:<10}{samples:>9}{made_ms:>11.2f}{scraped_ms:>13.2f}{share:>11.2%}')
        figures[program] = {
            'samples': samples,
            'make_ms': made_ms,
            'scrape_ms': scraped_ms,
            'share_of_a_core': share,
        }
        targets.append(Target(f'{program}: share of a core', share, '<=', 0.01))
    save('metrics', figures, targets, path=options.json)
    return 0 if all(target.ok for target in targets) else 1


def planner() -> Samples:
    """Return the figures of a planner of that many robots; only the robots' links are stand-ins."""
    return planner_samples(
        TOPICS,  # type: ignore[arg-type]
        LINKS,  # type: ignore[arg-type]
        active=True,
        tasks=ROBOTS,
        admission=AdmissionState(demand=0.5),
    )


def executor() -> Samples:
    """Return the figures of one executor of that many robots."""
    return executor_samples(SERVERS)  # type: ignore[arg-type]


def measure(make: Callable[[], Samples], program: str) -> tuple[int, float, float]:
    """Return the number of samples, and CPU time (s) to make them and to be scraped, medians."""
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    exporter = Exporter(MetricsOptions(metrics_port=port), program)
    made_s, scraped_s, text = [], [], b''
    try:
        for _ in range(ROUNDS):
            begin_s = time.process_time()
            exporter.show(make())
            made_s.append(time.process_time() - begin_s)
            # The client's share counts too: an upper bound.
            begin_s = time.process_time()
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics') as answer:  # noqa: S310
                text = answer.read()
            scraped_s.append(time.process_time() - begin_s)
    finally:
        exporter.close()
    samples = sum(not line.startswith(b'#') for line in text.splitlines())
    return samples, median(made_s), median(scraped_s)


def _responses() -> ResponseTimes:
    found = ResponseTimes()
    for number in range(20):
        utility = SimpleNamespace(expected_response_s=1.0 + number)
        found.add(SimpleNamespace(skill_set='tello', utility=utility), 0.5)  # type: ignore[arg-type]
    return found


TOPICS = SimpleNamespace(
    counts={'accepted': 1},
    refusals=dict.fromkeys(range(20), 1) | {99: 0},
    endings=dict.fromkeys(range(20), 1) | {99: 0},
    responses=_responses(),
    utility=1.0,
    possible_utility=1.0,
    info=EngineInfo('torch', 'timely-planner', 1, 'float32', 1, 1, 1.0),
    engine_error='',
    state=EngineState(1, 1, 1, 1, 1, 1, 0.01, ()),
)
LINKS = {
    f'robot_{n}': SimpleNamespace(robot=f'robot_{n}', available=True, halted=False, inactive=False)
    for n in range(ROBOTS)
}
SERVERS = [
    SimpleNamespace(
        robot=f'robot_{n}',
        stops=SimpleNamespace(halted=False, active=True),
        ended=dict.fromkeys(range(20), 1),
        executor=SimpleNamespace(
            connected=True, state=ExecutorState('idle', '', 0, '', 0.0, 0.0, 0)
        ),
    )
    for n in range(ROBOTS)
]

if __name__ == '__main__':
    sys.exit(main())
