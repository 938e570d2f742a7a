"""The rows of the result page's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.suites.load import OURS, best_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COUNTED = {
    'tasks': 'right plans',
    'expressed': 'written in the plan language',
    'grammar': 'allowed by the decoding grammar',
    'executed': 'executed to their end',
    'same verdict': '**judged as before**',
}
_GOLD = {
    'refused': "the suite's own plan: refused as text",
    'executable': "the suite's own plan: executable",
    'success': "the suite's own plan: a success",
}


def context() -> dict[str, Any]:
    """Return what the page's template names."""
    return {'plan_rows': plan_rows, 'load_rows': load_rows, 'model_rows': model_rows}


def plan_rows(suites: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield what became of the right plans, by suite."""
    found = suites.values()
    for word, label in _COUNTED.items():
        yield label, *(one['counts'][word] for one in found)
    for word, label in _GOLD.items():
        yield label, *(one['gold'][word] for one in found)
    word = 'success without the last action'
    yield word, *(one['counts'][word] for one in found)
    plans = [one['plans'] for one in found]
    yield 'mean actions of a plan', *(f'{one["mean_actions"]:.1f}' for one in plans)
    yield 'mean tokens of a plan', *(f'{one["mean_tokens"]:.0f}' for one in plans)


def load_rows(loads: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    """Yield how each way fared at its best largest batch, by load."""
    for load, systems in loads.items():
        for name in best_of({name: it['utility'] for name, it in systems.items()}):
            it, groups = systems[name], systems[name]['groups']
            yield (
                load,
                f'**{name}**' if name == OURS else name,
                f'{it["utility"]:.3f} ({it["spread"]:.3f})',
                *(f'{groups[group]["utility"]:.2f}' for group in ('urgent', 'normal')),
                *(f'{groups[group]["response_s"]:.2f}' for group in ('urgent', 'normal')),
                f'{it["waiting_s"]:.2f}',
            )


def model_rows(models: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield the shares of each model's plans."""
    for name, found in models.items():
        shares = (f'{value:.2f}' for word, value in found.items() if word != 'mean_tokens')
        yield name, f'{found["mean_tokens"]:.0f}', *shares
