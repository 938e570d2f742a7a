"""Tables on how often the shipped model's plans are right."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.common import FOLDER
from benchmarks.pages.writing import table


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    content = json.loads((FOLDER / 'model.json').read_text(encoding='utf-8'))
    sizes = content['curve']['held_out']
    named = {'held-out wordings': 'held_out', 'trained wordings': 'trained'}
    return {
        'content': content,
        'small': {
            name: target['value']
            for name, target in zip(named.values(), content['targets'], strict=False)
        },
        'curve': table(
            ('objects', *sizes),
            (
                (name, *(f'{share:.3f}' for share in content['curve'][key].values()))
                for name, key in named.items()
            ),
        ),
        'by_kind': table(
            ('kind', *sizes),
            (
                (kind, *(f'{share:.3f}' for share in found['held_out'].values()))
                for kind, found in content['by_kind'].items()
            ),
        ),
    }
