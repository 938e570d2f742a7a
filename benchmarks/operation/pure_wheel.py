"""The sdist, and of it the wheel without ROS interfaces, where no compiler is on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import Target, arguments, save

ROOT = Path(__file__).resolve().parents[2]
PARTS = ('timely_llm_ros', 'lrtrace', 'skills', 'config', 'launch', 'models', 'scripts', 'tools')
INTERFACES = ('action', 'msg', 'srv')
FILES = (
    *('setup.py', 'pyproject.toml', 'package.xml', 'LICENSE', 'README.md', 'CHANGELOG.rst'),
    *('CMakeLists.txt', 'MANIFEST.in'),
)
PYTHONS = ('python3.11', 'python3.12', 'python3.13')
COMMANDS = (
    ('lrtrace', 'info', str(ROOT / 'datasets' / 'mock_fleet' / 'trace')),
    ('lrtrace', 'slo', str(ROOT / 'datasets' / 'mock_fleet' / 'trace')),
    ('timely-llm', 'evaluate', '--help'),
    ('timely-llm', 'serve', '--help'),
    ('timely-llm', 'skills', 'check', str(ROOT / 'skills' / 'tello.yaml')),
)


def main() -> int:
    """Build, install, try; print and save; return the exit code."""
    options = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = build_and_try(Path(name))
    print(f'{figures["sdist"]}  {figures["sdist_mb"]:.1f} MB')
    print(f'{figures["wheel"]}  {figures["mb"]:.1f} MB  built in {figures["s"]:.0f} s')
    targets = [
        Target('Python 3.12 was there (1: yes)', int('3.12' in figures['pythons']), '>=', 1),
        Target('files of the tree that the sdist lacks', len(figures['lacking']), '<=', 0),
    ]
    for version, codes in figures['pythons'].items():
        for command, code in codes.items():
            print(f'{version:<5} {command:<60} {code}')
            targets.append(Target(f'Python {version}: exit code of {command}', code, '<=', 0))
    save('pure_wheel', figures, targets, path=options.json)
    return 0 if all(target.ok for target in targets) else 1


def build_and_try(folder: Path) -> dict[str, Any]:
    """Build the sdist, of it the wheel, install that for every Python that is there, try it."""
    source, dist = folder / 'source', folder / 'dist'
    ignored = shutil.ignore_patterns('__pycache__', 'smollm2')
    for part in (*PARTS, *INTERFACES):
        shutil.copytree(ROOT / part, source / part, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, source)
    copied = {str(path.relative_to(source)) for path in source.rglob('*') if path.is_file()}
    begin_s = time.monotonic()
    builder, environment = bare(folder / 'builder', sys.executable)
    run = partial(subprocess.run, check=True, env=environment, cwd=folder)
    run([*pip(builder), 'install', 'build'])
    run(
        [str(builder), '-m', 'build', '--sdist', '--outdir', str(dist), str(source)],
        stdout=subprocess.DEVNULL,
    )
    (sdist,) = dist.glob('*.tar.gz')
    with tarfile.open(sdist) as archive:
        held = {name.partition('/')[2] for name in archive.getnames()}
    run([*pip(builder), 'wheel', '--no-deps', '-w', str(dist), str(sdist)])
    (wheel,) = dist.glob('*.whl')
    took_s = time.monotonic() - begin_s
    return {
        'sdist': sdist.name,
        'sdist_mb': sdist.stat().st_size / 1e6,
        'lacking': sorted(copied - held),
        'wheel': wheel.name,
        'mb': wheel.stat().st_size / 1e6,
        's': took_s,
        'pythons': {
            name.removeprefix('python'): tried(folder / name, name, wheel)
            for name in PYTHONS
            if (found := shutil.which(name)) and answers(found)
        },
    }


def tried(home: Path, python: str, wheel: Path) -> dict[str, int]:
    """Install a wheel into an environment of that Python; return the commands' exit codes."""
    own, environment = bare(home, python)
    subprocess.run([*pip(own), 'install', f'{wheel}[traces]'], check=True, env=environment)
    codes = {}
    for program, *rest in COMMANDS:
        done = subprocess.run(
            [str(own), str(home / 'bin' / program), *rest],
            env=environment,
            cwd=home,
            check=False,
            capture_output=True,
        )
        codes[' '.join((program, *rest)).replace(f'{ROOT}/', '')] = done.returncode
    return codes


def bare(home: Path, python: str) -> tuple[Path, dict[str, str]]:
    """Make an environment that has its own programs and nothing else: no compiler, no CMake."""
    subprocess.run([python, '-m', 'venv', str(home)], check=True)
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ('PYTHONPATH', 'AMENT_PREFIX_PATH', 'LD_LIBRARY_PATH')
    }
    own = home / 'bin' / 'python'
    return own, variables | {'PATH': str(own.parent), 'TIMELY_LLM_PURE': '1'}


def pip(python: Path) -> list[str]:
    """Return how that Python installs."""
    return [str(python), '-m', 'pip', '--quiet']


def answers(python: str) -> bool:
    """Return whether a program of that name starts; a stand-in for one that is not there fails."""
    return subprocess.run([python, '-V'], check=False, capture_output=True).returncode == 0


if __name__ == '__main__':
    sys.exit(main())
