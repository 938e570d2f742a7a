"""Interfaces that robots' software has and that come with no wheel, built for tests and the demo.

They are installed into the environment that runs this, once, where no real package of that name is.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import importlib.util
import shutil
import sys
from pathlib import Path

from tools.interfaces import BuildError, build_interfaces

SOURCES = Path(__file__).parent / 'interface_fields'
ENVIRONMENT = Path(sys.prefix).resolve()
BUILD = ENVIRONMENT.parent / '.build' / 'test_interfaces' / ENVIRONMENT.name
PACKAGES = ('as2_msgs', 'control_msgs', 'nav2_msgs', 'shape_msgs', 'moveit_msgs')
"""Every package, in an order in which none needs a later one."""

_PACKAGE_XML = """\
<package format="3">
  <name>{name}</name>
  <version>0.0.0</version>
  <description>Fields of {name} for mocks</description>
  <maintainer email="nobody@example.com">nobody</maintainer>
  <license>Apache-2.0</license>
  <buildtool_depend>ament_cmake</buildtool_depend>
  <buildtool_depend>rosidl_default_generators</buildtool_depend>
  <depend>action_msgs</depend>
  <member_of_group>rosidl_interface_packages</member_of_group>
</package>
"""


def install(name: str) -> None:
    """Make a package such as ``nav2_msgs`` importable, by this process and those that it starts."""
    source = SOURCES / name
    files = sorted([SOURCES / 'CMakeLists.txt', *source.rglob('*.*')])
    digest = hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()
    build = BUILD / name
    build.mkdir(parents=True, exist_ok=True)
    done = build / 'installed'
    with (build / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ours = done.exists()
        if not ours and importlib.util.find_spec(name) is not None:
            # A real one.
            return
        if ours and done.read_text(encoding='utf-8') == digest:
            return
        print(f'{name}: its types are built, once; it takes a minute or two', file=sys.stderr)
        copy = build / 'source'
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        shutil.copy(SOURCES / 'CMakeLists.txt', copy)
        (copy / 'package.xml').write_text(_PACKAGE_XML.format(name=name), encoding='utf-8')
        version = f'python{sys.version_info.major}.{sys.version_info.minor}'
        prefix = Path(sys.prefix)
        build_interfaces(
            build=build / 'cmake',
            prefix=prefix,
            ros_prefix=prefix,
            python_dir=f'lib/{version}/site-packages',
            source=copy,
            package=name,
        )
        done.write_text(digest, encoding='utf-8')
    importlib.invalidate_caches()


def main(names: list[str]) -> None:
    """Install what the demo's robots speak: all packages, or some."""
    for name in names or PACKAGES:
        try:
            install(name)
        except BuildError as err:
            sys.exit(f'error: {name}: {err}')


if __name__ == '__main__':
    main(sys.argv[1:])
