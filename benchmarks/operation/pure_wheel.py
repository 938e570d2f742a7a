"""The wheel without ROS interfaces: built and installed where no compiler is on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import Target, arguments, save

ROOT = Path(__file__).resolve().parents[2]
PARTS = ('timely_llm_ros', 'lrtrace', 'skills', 'config', 'launch', 'models', 'scripts', 'tools')
FILES = ('setup.py', 'pyproject.toml', 'package.xml', 'LICENSE', 'README.md')
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
    print(
        f'{figures["wheel"]}  {figures["mb"]:.1f} MB  built and installed in {figures["s"]:.0f} s'
    )
    targets = []
    for command, code in figures['exit_codes'].items():
        print(f'{command:<60} {code}')
        targets.append(Target(f'exit code of {command}', code, '<=', 0))
    save('pure_wheel', figures, targets, path=options.json)
    return 0 if all(target.ok for target in targets) else 1


def build_and_try(folder: Path) -> dict[str, Any]:
    """Return what came of it."""
    source, home = folder / 'source', folder / 'venv'
    ignored = shutil.ignore_patterns('__pycache__', 'smollm2')
    for part in PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=ignored)
    for file in FILES:
        shutil.copy(ROOT / file, source)
    subprocess.run([sys.executable, '-m', 'venv', str(home)], check=True)
    # The environment has its own programs and nothing else: no compiler, no CMake.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ('PYTHONPATH', 'AMENT_PREFIX_PATH')
    } | {'PATH': str(home / 'bin'), 'TIMELY_LLM_PURE': '1'}
    pip = [str(home / 'bin' / 'python'), '-m', 'pip', '--quiet']
    begin_s = time.monotonic()
    build = [*pip, 'wheel', '--no-deps', '-w', str(folder), str(source)]
    subprocess.run(build, check=True, env=environment, cwd=folder)
    (wheel,) = folder.glob('*.whl')
    subprocess.run([*pip, 'install', f'{wheel}[traces]'], check=True, env=environment, cwd=folder)
    took_s = time.monotonic() - begin_s
    codes = {}
    for program, *rest in COMMANDS:
        done = subprocess.run(
            [str(home / 'bin' / 'python'), str(home / 'bin' / program), *rest],
            env=environment,
            cwd=folder,
            check=False,
            capture_output=True,
        )
        codes[' '.join((program, *rest)).replace(f'{ROOT}/', '')] = done.returncode
    return {
        'wheel': wheel.name,
        'mb': wheel.stat().st_size / 1e6,
        's': took_s,
        'exit_codes': codes,
    }


if __name__ == '__main__':
    sys.exit(main())
