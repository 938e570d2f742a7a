"""Tables on the plans of general language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.pages.writing import read, table

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = ('complete', 'valid', 'first', 'exact', 'success')


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    models = read('llm').figures['models']
    return {
        'whole': table(('model', 'grammar', 'plans', 'tokens per plan', *WORDS), _whole(models)),
        'kinds': {
            (name, grammar): _kinds(found[grammar])
            for name, found in models.items()
            for grammar in ('on', 'off')
            if grammar in found
        },
    }


def _whole(models: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, found in models.items():
        for grammar in ('on', 'off'):
            if grammar in found:
                some = found[grammar]
                shares = (f'{some["all"][word]:.3f}' for word in WORDS)
                yield name, grammar, str(some['plans']), f'{some["mean_tokens"]:.1f}', *shares


def _kinds(found: dict[str, Any]) -> str:
    rows = (
        (kind, *(f'{shares[word]:.3f}' for word in WORDS))
        for kind, shares in found['by_kind'].items()
    )
    return table(('kind', *WORDS), rows)
