"""The systemd units: systemd takes them, and they start programs that there are."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / 'config' / 'systemd').glob('*.service'))
INSTALLED = '/opt/timely'


def read(unit: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(unit, encoding='utf-8')
    return found


@pytest.mark.parametrize('unit', UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_one_of_our_programs_and_starts_it_again(unit: Path) -> None:
    service = read(unit)['Service']
    program = Path(service['ExecStart'].split()[0])
    assert (ROOT / 'scripts' / program.name).is_file()
    folder = 'bin' if program.name == 'timely-llm' else 'lib/timely_llm_ros'
    assert str(program.parent) == f'{INSTALLED}/{folder}'
    # Only SIGINT and SIGTERM bring robots to their safe action before the end.
    assert (service['Restart'], service['KillSignal']) == ('always', 'SIGINT')
    # The programs of nodes end with 0 then.
    ended = '130' if program.name == 'timely-llm' else None
    assert service.get('SuccessExitStatus') == ended
    assert service['NoNewPrivileges'] == 'yes'
    assert service['User'] != 'root'


def test_there_is_a_unit_for_every_program_that_runs_day_and_night() -> None:
    started = {Path(read(unit)['Service']['ExecStart'].split()[0]).name for unit in UNITS}
    assert started == {'planner', 'executor', 'recorder', 'window', 'timely-llm'}


def test_what_the_page_enables_starts_at_boot_and_finds_its_parameters() -> None:
    page = (ROOT / 'docs' / 'how_to' / 'operate.md').read_text(encoding='utf-8')
    (names,) = re.findall(r'systemctl enable --now (.*)$', page, re.MULTILINE)
    enabled = {name if '.' in name else f'{name}.service' for name in names.split()}
    for name in enabled:
        file, _, instance = name.removesuffix('.service').partition('@')
        template = f'{file}@.service' if instance else name
        unit = read(ROOT / 'config' / 'systemd' / template)
        assert unit['Install']['WantedBy'] in {*enabled, 'multi-user.target'}, name
        command = unit.get('Service', 'ExecStart', fallback='').replace('%i', instance)
        for parameters in re.findall(r'/etc/\S+', command):
            assert re.search(rf'^sudo (tee|install .*) {parameters}\b', page, re.MULTILINE), name


@pytest.mark.skipif(
    shutil.which('systemd-analyze') is None, reason='systemd-analyze: expected on the PATH'
)
def test_systemd_takes_every_unit(tmp_path: Path) -> None:
    """The check asks for programs that are installed, so they are, in another folder."""
    home = tmp_path / 'opt'
    for name in ('lib/timely_llm_ros', 'bin'):
        (home / name).mkdir(parents=True)
        for script in (ROOT / 'scripts').iterdir():
            shutil.copy(script, home / name)
    files = []
    for unit in (ROOT / 'config' / 'systemd').iterdir():
        text = unit.read_text(encoding='utf-8').replace(INSTALLED, str(home))
        files.append(tmp_path / unit.name.replace('@.', '@drone_1.'))
        files[-1].write_text(text, encoding='utf-8')
    done = subprocess.run(
        ['systemd-analyze', 'verify', '--man=no', *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if re.search(r'timely', line)]
    assert (done.returncode, own) == (0, []), done.stderr
