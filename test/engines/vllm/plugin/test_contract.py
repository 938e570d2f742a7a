"""Which versions of vLLM the plug-in fits, and what it says of others."""

from __future__ import annotations

import pytest

from timely_llm_ros.engines.vllm.plugin import contract as vllm_contract
from timely_llm_ros.errors import ConfigurationError


@pytest.mark.parametrize(
    ('version', 'fits'),
    [('0.32.0', True), ('0.33.1.post2', True), ('0.31.0', False), ('0.34.0', False), ('x', False)],
)
def test_only_tested_versions_are_in_range(version: str, fits: bool) -> None:
    assert vllm_contract.in_range(version) is fits
    assert vllm_contract.describe_range() == '>=0.32,<0.34'


def test_without_vllm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_contract, 'DISTRIBUTIONS', ('no-such-package',))
    with pytest.raises(ConfigurationError, match='vLLM is not installed; expected version >=0'):
        vllm_contract.installed()


@pytest.mark.parametrize(
    ('place', 'methods', 'expected'),
    [
        ('json:JSONDecoder', {'decode': ('self', 's')}, None),
        ('json:JSONDecoder', {'decode': ('self', 'text')}, 'JSONDecoder.decode: takes ('),
        ('json:JSONDecoder', {'gone': ('self',)}, 'JSONDecoder.gone: expected it to be there'),
        ('json:Gone', {'decode': ('self',)}, "json:Gone: module 'json' has no attribute 'Gone'"),
        ('no.such:Thing', {'x': ()}, 'no.such:Thing: No module named'),
    ],
)
def test_a_changed_name_or_signature_is_named(
    place: str, methods: dict[str, tuple[str, ...]], expected: str | None
) -> None:
    found = vllm_contract._missing(place, methods)
    assert not found if expected is None else found[0].startswith(expected)
