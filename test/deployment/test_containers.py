"""The files of containers: hadolint and the shape of the compose file, as no engine runs here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / 'config' / 'docker'
DOCKERFILES = sorted(FOLDER.glob('*.Dockerfile'))
SERVICES = yaml.safe_load((FOLDER / 'compose.yaml').read_text(encoding='utf-8'))['services']
# It comes with the tools of the checkout, on Linux x86-64.
HADOLINT = shutil.which('hadolint', path=f'{Path(sys.executable).parent}:{os.defpath}') or ''
PROGRAMS = {path.name for path in (ROOT / 'scripts').iterdir()}


@pytest.mark.skipif(not HADOLINT, reason='hadolint: expected beside this Python')
@pytest.mark.parametrize('file', DOCKERFILES, ids=lambda file: file.name)
def test_hadolint_is_content(file: Path) -> None:
    done = subprocess.run([HADOLINT, str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, '')


@pytest.mark.parametrize('file', DOCKERFILES, ids=lambda file: file.name)
def test_an_image_copies_what_there_is_and_runs_a_program_as_no_root(file: Path) -> None:
    text = file.read_text(encoding='utf-8')
    for source in re.findall(r'^COPY (\S+) ', text, re.MULTILINE):
        assert (ROOT / source).exists(), source
    (command,) = re.findall(r'^CMD (\[.*\])$', text, re.MULTILINE)
    assert yaml.safe_load(command)[0] in PROGRAMS
    assert re.findall(r'^USER (\S+)$', text, re.MULTILINE) == ['1100']


@pytest.mark.parametrize('name', sorted(SERVICES))
def test_a_service_has_an_image_that_is_built_and_ends_safely(name: str) -> None:
    service = SERVICES[name]
    built = {one['image'] for one in SERVICES.values() if 'build' in one}
    assert service['image'] in built
    if 'build' in service:
        assert (FOLDER / service['build']['context']).resolve() == ROOT
        assert (ROOT / service['build']['dockerfile']).is_file()
    if 'command' in service:
        assert service['command'][0] in PROGRAMS
    assert (service['stop_signal'], service['restart']) == ('SIGINT', 'always')


def test_the_entry_point_is_a_program_that_bash_reads() -> None:
    file = FOLDER / 'entrypoint.sh'
    assert file.stat().st_mode & 0o111
    subprocess.run(['bash', '-n', str(file)], check=True)
