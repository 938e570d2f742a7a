"""What the command lines ``timely-llm`` and ``lrtrace`` share: how they look and how they end."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from timely_llm_ros import __version__
from timely_llm_ros.errors import ConfigurationError, TimelyError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMESPACE = re.compile(r'/|/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*', re.ASCII)

EXTRAS = {
    'mcap': 'traces',
    'lz4': 'traces',
    'zstandard': 'traces',
    'rosbags': 'traces',
    'rich': 'terminal',
    'websockets': 'window',
    'torch': 'torch',
    'transformers': 'torch',
    'tokenizers': 'torch',
    'safetensors': 'torch',
    'llguidance': 'torch',
    'jinja2': 'torch',
    'httpx2': 'openai',
    'prometheus_client': 'metrics',
    'ray': 'ray',
    'pyarrow': 'parquet',
    'peft': 'tune',
    'accelerate': 'tune',
}
"""The extra of this package that brings what a command may import."""

EXIT_FAILED = 1
"""Exit code where a task did not succeed."""

EXIT_NO_PLANNER = 3
"""Exit code where no planner answers."""

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def make_parser(program: str, *, description: str, examples: str) -> argparse.ArgumentParser:
    """Return a parser with ``--version``; its commands set ``run`` to what runs them.

    The examples follow the help, as they are.
    """
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
    return parser


def seconds(text: str) -> float:
    """Read a duration that an option gives (s).

    Raises:
        argparse.ArgumentTypeError: It is no finite number of at least 0.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f'{text!r}: expected a number of seconds, 0 or more')
    return value


def add_namespace(parser: argparse.ArgumentParser, whose: str = 'fleet') -> None:
    """Let the user say in which ROS namespace to look."""
    parser.add_argument(
        '--namespace', type=namespace, default='', help=f'of the {whose}, for example /fleet'
    )


def namespace(text: str) -> str:
    """Read a ROS namespace that an option gives; '' is the root.

    Raises:
        argparse.ArgumentTypeError: ROS has no namespace of this name.
    """
    if text and not _NAMESPACE.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f'{text[:80]!r}: expected a ROS namespace: names of letters, digits and _ that do not '
            'begin with a digit, with / between them, for example /fleet'
        )
    return text


def require_range(
    options: argparse.Namespace, name: str, least: float, most: float = math.inf
) -> None:
    """Refuse the value of an option that is out of range; one that is not given is in it.

    Raises:
        ConfigurationError: It is less than ``least`` or more than ``most``.
    """
    value = getattr(options, name)
    if value is not None and not least <= value <= most:
        expected = f'at least {least}' if most == math.inf else f'{least} to {most}'
        raise ConfigurationError(f'--{name.replace("_", "-")} {value}: expected {expected}')


def require_new(path: str | Path, *, force: bool) -> None:
    """Refuse a path at which something is, unless told to replace it.

    Raises:
        ConfigurationError: Something is there and ``force`` is not set, or it is a folder.
    """
    if Path(path).is_dir():
        raise ConfigurationError(f'output {str(path)!r}: is a folder: expected a file')
    if os.path.lexists(path) and not force:
        raise ConfigurationError(f'output {str(path)!r}: exists: expected a new file, or --force')


def write_new(path: str | Path, text: str, *, force: bool) -> None:
    """Write a file that is there whole or not at all.

    Raises:
        ConfigurationError: A file is there and ``force`` is not set, or it cannot be written.
    """
    require_new(path, force=force)
    path = Path(path)
    draft = path.with_name(f'.{path.name}.{os.getpid()}')
    try:
        draft.write_text(text, encoding='utf-8')
        draft.replace(path)
    except OSError as err:
        raise ConfigurationError(
            f'output {str(path)!r}: cannot be written: {err.strerror}'
        ) from err
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def require_ros() -> None:
    """Refuse what speaks ROS where the package was installed without its interfaces.

    Raises:
        ConfigurationError: Python finds no rclpy, or not this package's messages.
    """
    for name in ('rclpy', 'timely_llm_ros.msg'):
        if find_spec(name) is None:
            raise ConfigurationError(
                f'the Python package {name} is not installed: expected ROS 2 and the interfaces of '
                'timely_llm_ros, which a pure wheel does not have (docs/how_to/install.md)'
            )


def missing_package(err: ModuleNotFoundError) -> str:
    """Return what to install where a package is missing that only some commands need.

    Raises:
        ModuleNotFoundError: It is a part of this project, which nobody could install.
    """
    name = (err.name or '').partition('.')[0]
    if name in ('', 'lrtrace', 'timely_llm_ros'):
        raise err
    extra = EXTRAS.get(name)
    how = f"pip install 'timely_llm_ros[{extra}]'" if extra else 'see docs/how_to/install.md'
    return f'the Python package {name} is not installed: expected it ({how})'


def run_command(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command that the arguments name; return the exit code. Errors are one line."""
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except TimelyError as err:
        print(f'error: {err}', file=sys.stderr)
        return 1
    except ModuleNotFoundError as err:
        print(f'error: {missing_package(err)}', file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output went away, for example `head`.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as err:
        if err.filename is None or err.strerror is None:
            raise
        # A file or folder of the user's: what is wrong with it is no fault of this program's.
        print(f'error: {str(err.filename)[:200]!r}: {err.strerror}', file=sys.stderr)
        return 1
