"""Build the ROS interfaces of this tree with CMake and install them into a prefix."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class BuildError(Exception):
    """The interfaces could not be built; the message holds the end of the tool's output."""


def build_interfaces(
    *,
    build: Path,
    prefix: Path,
    ros_prefix: Path,
    python_dir: str,
    source: Path = ROOT,
    package: str = 'timely_llm_ros',
) -> None:
    """Configure, build and install the interfaces.

    Args:
        build: CMake's build folder.
        prefix: Where to install.
        ros_prefix: Prefix that holds the ROS packages: a virtual environment with the ROS wheels.
        python_dir: Where the generated Python package goes, relative to ``prefix``.
        source: Where the package's CMakeLists.txt is.
        package: Name of the package.

    Raises:
        BuildError: A tool is missing or failed.
    """
    if shutil.which(os.environ.get('CC', 'cc')) is None:
        raise BuildError('no C compiler: expected "cc" on the PATH (Debian: apt install g++)')
    if shutil.which(os.environ.get('CXX', 'c++')) is None:
        raise BuildError('no C++ compiler: expected "c++" on the PATH (Debian: apt install g++)')
    bin_dir = Path(sys.executable).parent
    environment = dict(os.environ)
    environment['PATH'] = f'{bin_dir}{os.pathsep}{environment["PATH"]}'
    environment['AMENT_PREFIX_PATH'] = environment['CMAKE_PREFIX_PATH'] = str(ros_prefix)
    # pip's isolated builds hide the virtual environment behind a sitecustomize on this path.
    environment.pop('PYTHONPATH', None)
    configure = [
        'cmake', '-S', str(source), '-B', str(build), '-G', 'Ninja',
        f'-DCMAKE_INSTALL_PREFIX={prefix}', f'-DPYTHON_INSTALL_DIR={python_dir}',
        f'-DPython3_EXECUTABLE={sys.executable}', '-DCMAKE_BUILD_TYPE=Release',
        '-DTIMELY_INTERFACES_ONLY=ON', '-DBUILD_TESTING=OFF', f'-DPACKAGE={package}',
        f'-DCMAKE_PROJECT_INCLUDE={Path(__file__).with_name("wheels.cmake")}',
    ]  # fmt: skip
    for command in (
        configure,
        ['cmake', '--build', str(build)],
        ['cmake', '--install', str(build)],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            tail = '\n'.join((done.stdout + done.stderr).splitlines()[-40:])
            raise BuildError(f'{" ".join(command[:2])} failed:\n{tail}')


def main() -> None:
    """Install the interfaces into the running virtual environment, for work in this checkout."""
    prefix = Path(sys.prefix)
    packages = Path(f'lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages')
    generated = packages / 'timely_llm_ros_interfaces'
    # .venv, .venv-jazzy: each has its own ROS, and nothing built for one may be taken for another.
    suffix = prefix.name.removeprefix('.venv') if prefix.name.startswith('.venv-') else ''
    try:
        build_interfaces(
            build=ROOT / '.build' / f'interfaces{suffix}',
            prefix=prefix,
            ros_prefix=prefix,
            python_dir=str(generated),
        )
    except BuildError as err:
        sys.exit(f'error: {err}')
    paths = f'{ROOT}\n{prefix / generated}\n'
    (prefix / packages / 'timely_llm_ros_checkout.pth').write_text(paths, encoding='utf-8')


if __name__ == '__main__':
    main()
