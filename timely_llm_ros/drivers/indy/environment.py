"""The Python environment of the Indy SDK, whose pins do not agree with this package's."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from timely_llm_ros.errors import ConfigurationError

VARIABLE = 'TIMELY_INDY_PYTHON'
"""Environment variable that names the SDK's Python where no option does."""

_ROOT = Path(__file__).resolve().parents[3]


def sdk_python(given: str = '') -> str:
    """Return the Python that has the SDK.

    It is the first of: the one given, the one that the environment variable names, the one in
    ``.venv-indy`` of this checkout, and this very Python if the SDK is installed in it.

    Raises:
        ConfigurationError: There is none.
    """
    for source, path in (('sdk_python', given), (VARIABLE, os.environ.get(VARIABLE))):
        if path:
            found = Path(path).expanduser()
            if not os.access(found, os.X_OK) or found.is_dir():
                raise ConfigurationError(f'{source} {path!r}: expected an executable Python')
            return str(found)
    # Not resolved: a virtual environment's Python is a link, and is one by its path.
    own = _ROOT / '.venv-indy' / 'bin' / 'python'
    if own.exists():
        return str(own)
    if importlib.util.find_spec('neuromeka') is not None:
        return sys.executable
    raise ConfigurationError(
        'the Indy SDK (neuromeka) is not there: expected `make setup-indy` in a checkout, or an '
        f'environment of its own (python3 -m venv indy && indy/bin/pip install neuromeka) named '
        f'by the option sdk_python or the variable {VARIABLE}'
    )


def sdk_command(module: str, *arguments: str, python: str = '') -> list[str]:
    """Return the command line that runs ``main`` of a module in the SDK's environment.

    This package comes last on the path there, so that it hides nothing of that environment.

    Raises:
        ConfigurationError: There is no such environment.
    """
    code = (
        f'import sys; sys.path.append({str(_ROOT)!r}); '
        f'from {module} import main; sys.exit(main(sys.argv[1:]))'
    )
    return [sdk_python(python), '-I', '-c', code, *arguments]
