"""What the builds install is what is there: colcon's way (CMake) and pip's (setup.py)."""

from __future__ import annotations

import ast
import os
import re
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from timely_llm_ros.engines.vllm.plugin.contract import DISTRIBUTIONS, describe_range

ROOT = Path(__file__).resolve().parents[1]
CMAKE = (ROOT / 'CMakeLists.txt').read_text(encoding='utf-8')
PACKAGES = ('timely_llm_ros', 'lrtrace')
SCRIPTS = sorted(path.name for path in (ROOT / 'scripts').iterdir())

PYTHON_NAMES = {name: f'python3-{name}' for name in ('jinja2', 'numpy', 'scipy', 'yaml')}
"""What rosdep calls a module that the package cannot do without."""

OPTIONAL = {
    'vision_msgs',
    'visualization_msgs',
    *(
        'aiohttp',
        'djitellopy',
        'grpc',
        'httpx2',
        'llguidance',
        'lz4',
        'peft',
        'mcap',
        'mujoco',
        'neuromeka',
    ),
    *(
        'psutil',
        'pyarrow',
        'rich',
        'rosbags',
        'safetensors',
        'tokenizers',
        'torch',
        'transformers',
        'ray',
        'vllm',
    ),
    *('matplotlib', 'zstandard', 'google', 'msgspec', 'websockets', 'prometheus_client'),
    'opentelemetry',
    'py_trees',
}
"""Modules of extras, imported where they are needed only."""


def arguments(call: str) -> list[list[str]]:
    """Return the words of each call of a CMake command."""
    return [found.split() for found in re.findall(rf'\b{call}\(([^)]*)\)', CMAKE)]


def constant(name: str) -> tuple[str, ...]:
    """Return a constant of setup.py, or the value of a keyword of its ``setup()``."""
    for node in ast.walk(ast.parse((ROOT / 'setup.py').read_text(encoding='utf-8'))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return tuple(ast.literal_eval(node.value))
        if isinstance(node, ast.keyword) and node.arg == name:
            return tuple(ast.literal_eval(node.value))
    raise KeyError(name)


@cache
def manifest() -> ElementTree.Element:
    return ElementTree.parse(ROOT / 'package.xml').getroot()


def depends(*kinds: str) -> set[str]:
    return {(item.text or '').strip() for kind in kinds for item in manifest().iter(kind)}


def test_every_interface_is_generated_and_no_other() -> None:
    (words,) = arguments('rosidl_generate_interfaces')
    listed = [word for word in words if '/' in word]
    files = [path for folder in ('msg', 'action', 'srv') for path in (ROOT / folder).iterdir()]
    assert sorted(listed) == sorted(str(path.relative_to(ROOT)) for path in files)
    needed = set(words[words.index('DEPENDENCIES') + 1 :])
    used = {
        match
        for path in files
        for match in re.findall(r'^(\w+)/\w+(?:\[\w*\])? ', path.read_text('utf-8'), re.MULTILINE)
    }
    assert used | {'action_msgs', 'unique_identifier_msgs'} == needed
    found = {words[0] for words in arguments('find_package')}
    assert needed <= found
    assert needed <= depends('depend')


def test_every_folder_of_shared_files_is_installed_both_ways() -> None:
    installed = [words for words in arguments('install') if words[0] == 'DIRECTORY']
    shared = next(words for words in installed if any('share/' in word for word in words))
    folders = shared[1 : shared.index('DESTINATION')]
    assert sorted(folders) == sorted(constant('SHARED'))
    assert all(any((ROOT / folder).iterdir()) for folder in folders)
    packages = [words[1].rstrip('/') for words in installed if words is not shared]
    assert sorted(packages) == sorted(PACKAGES)


def test_every_program_is_installed_both_ways() -> None:
    programs = [words for words in arguments('install') if words[0] == 'PROGRAMS']
    installed = {
        Path(path).name: words[-1]
        for words in programs
        for path in words[1 : words.index('DESTINATION')]
    }
    assert sorted(installed) == SCRIPTS
    nodes = sorted(name for name, place in installed.items() if place != 'bin')
    assert nodes == sorted(constant('PROGRAMS'))
    commands = sorted(f'scripts/{name}' for name, place in installed.items() if place == 'bin')
    assert commands == sorted(constant('scripts'))
    assert all(os.access(ROOT / 'scripts' / name, os.X_OK) for name in SCRIPTS)


@pytest.mark.parametrize('name', SCRIPTS)
def test_a_program_starts_a_function_that_there_is(name: str) -> None:
    tree = ast.parse((ROOT / 'scripts' / name).read_text(encoding='utf-8'))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [node for node in imports if (node.module or '').split('.')[0] in PACKAGES]
    assert own
    for node in own:
        path = ROOT.joinpath(*(node.module or '').split('.'))
        file = path / '__init__.py' if path.is_dir() else path.with_suffix('.py')
        text = file.read_text(encoding='utf-8')
        for alias in node.names:
            assert re.search(rf'^(async )?def {alias.name}\b', text, re.MULTILINE), alias.name


@pytest.mark.parametrize('package', PACKAGES)
def test_every_file_of_a_package_goes_into_the_wheel(package: str) -> None:
    """A folder without ``__init__.py`` is left out, and so are files that nobody names."""
    data = ast.literal_eval(_keyword('package_data'))
    for path in (ROOT / package).rglob('*'):
        if path.is_dir() or '__pycache__' in path.parts:
            continue
        assert (path.parent / '__init__.py').is_file(), path
        owner = '.'.join(path.parent.relative_to(ROOT).parts)
        if path.suffix != '.py':
            assert any(path.match(pattern) for pattern in data.get(owner, [])), path


def _keyword(name: str) -> ast.expr:
    tree = ast.parse((ROOT / 'setup.py').read_text(encoding='utf-8'))
    return next(
        node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == name
    )


def test_the_versions_are_one() -> None:
    version = ast.literal_eval(_keyword('version'))
    assert manifest().findtext('version') == version


def test_whoever_installs_vllm_is_told_the_versions_of_the_contract() -> None:
    extras = ast.literal_eval(_keyword('extras_require'))
    for name in DISTRIBUTIONS:
        assert extras[name] == [f'{name}{describe_range()}']
    told = [ROOT / 'config' / 'docker' / 'planner-cuda.Dockerfile', *ROOT.glob('docs/**/*.md')]
    found = [
        asked
        for path in told
        for asked in re.findall(r'\bvllm(?:-cpu)?(>=[\d.,<>=]+)', path.read_text(encoding='utf-8'))
    ]
    assert found
    assert set(found) == {describe_range()}


def test_bloom_can_read_manifest_and_change_log() -> None:
    package = pytest.importorskip('catkin_pkg.package', reason='catkin_pkg: comes with ROS')
    changelog = pytest.importorskip('catkin_pkg.changelog')
    versions = pytest.importorskip('catkin_pkg.package_version')
    warnings: list[str] = []
    package.parse_package(str(ROOT)).validate(warnings)
    assert warnings == []
    found = changelog.get_changelog_from_path(str(ROOT), 'timely_llm_ros')
    assert found is not None
    assert versions.get_forthcoming_label(found.rst) == 'Forthcoming'


def test_what_is_imported_is_declared() -> None:
    """rosdep installs what the manifest names, and nothing else."""
    declared = depends('depend', 'exec_depend')
    known = {*sys.stdlib_module_names, *PACKAGES, *OPTIONAL, 'pip'}
    files = [path for top in (*PACKAGES, 'launch', 'scripts') for path in (ROOT / top).rglob('*')]
    missing: dict[str, str] = {}
    for path in files:
        if path.is_dir() or (path.suffix != '.py' and path.parent.name != 'scripts'):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or '']
            for name in (name.split('.')[0] for name in names):
                if name not in known and PYTHON_NAMES.get(name, name) not in declared:
                    missing.setdefault(name, str(path.relative_to(ROOT)))
    assert missing == {}
