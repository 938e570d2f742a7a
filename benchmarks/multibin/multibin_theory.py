"""Multi-bin batching simulated against its theory: figures 3, 4, 6, 8 and 9 of the paper.

    .venv/bin/python -m benchmarks.multibin.multibin_theory [--draws 10] [--images docs/images]
        [--json FILE]

Multi-Bin Batching, arXiv 2412.04504. Batches hold the server until their longest request has
ended. Fig. 3, 4 and 8: times uniform on 1..20 s, batches of 128, 128,000 requests. Fig. 9:
exponential of mean 10 s, batches of 200, 200,000 requests. Fig. 6: batches of 8, 8 servers; the
paper's lengths (GSM8K answers of Phi-3.5) are not published, so lognormal ones stand for them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import (
    COUNT,
    Target,
    arguments,
    finish,
    new_folder,
    picture,
    require_matplotlib,
    save,
)
from benchmarks.multibin.plots import Grid, Mean, lines
from benchmarks.multibin.reference import (
    EXPONENTIAL_LATENCY_S,
    EXPONENTIAL_PER_S,
    UNIFORM_ANY_LATENCY_S,
    UNIFORM_LATENCY_S,
    UNIFORM_PER_S,
)
from benchmarks.multibin.static_batches import (
    Batches,
    BatchRun,
    bins_with_errors,
    form_batches,
    poisson_arrivals_s,
    run_batches,
)
from benchmarks.multibin.theory import (
    carried_throughput,
    error_service_s,
    exponential_service_s,
    uniform_boundaries,
    uniform_capacity,
    uniform_latency_s,
    uniform_throughput,
)
from timely_llm_ros.scheduling import (
    equal_mass_boundaries,
    exponential_boundaries,
    optimal_boundaries,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

IMAGES = Path(__file__).resolve().parents[2] / 'docs' / 'images'

SHORTEST_S, LONGEST_S, BATCH, REQUESTS = 1.0, 20.0, 128, 128_000
RATE, EXPONENTIAL_BATCH, EXPONENTIAL_REQUESTS = 0.1, 200, 200_000
ARRIVALS = (2, 4, 6, 8, 10, 12)
UNIFORM_BINS = (1, 2, 3, 5, 10)
EXPONENTIAL_BINS = (1, 2, 3, 4, 5)
ERRORS = (0.0, 0.01, 0.1, 0.25, 0.5)
ERROR_BINS = (1, 2, 4, 8, 16, 32)
SATURATED_PER_S = 50.0

TOKEN_S, START_S, SERVERS, ANSWER_BATCH, ANSWERS = 0.025, 0.1, 8, 8, 32_000
MEDIAN_TOKENS, SPREAD, MOST_TOKENS = 180, 0.45, 1024
ANSWER_BINS = (1, 2, 4, 8, 16)
ANSWER_ARRIVALS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14)


def at_rate(batches: Batches, per_s: float) -> Batches:
    """The same requests in the same batches, coming at another rate than one a second."""
    return replace(
        batches,
        formed_s=batches.formed_s / per_s,
        arrivals_s=batches.arrivals_s / per_s,
    )


def formed(
    rng: np.random.Generator, service_s: FloatArray, edges: FloatArray, batch: int
) -> Batches:
    """Batches of requests that come at one a second and are put into their right bins."""
    bins = np.searchsorted(edges[1:-1], service_s, side='right')
    return form_batches(poisson_arrivals_s(rng, 1.0, len(service_s)), service_s, bins, batch)


def sweep(
    drawn: Callable[[np.random.Generator, int], Batches],
    arrivals: Sequence[float],
    bins: Sequence[int],
    draws: int,
    servers: int | None = 1,
) -> Grid:
    """Serve at every rate with every number of bins."""
    runs: dict[tuple[float, int], list[BatchRun]] = {}
    for seed in range(draws):
        for count in bins:
            batches = drawn(np.random.default_rng(seed), count)
            for per_s in arrivals:
                run = run_batches(at_rate(batches, per_s), servers)
                runs.setdefault((per_s, count), []).append(run)
    return {key: Mean.of(found) for key, found in runs.items()}


def uniform(rng: np.random.Generator, bins: int) -> Batches:
    edges = uniform_boundaries(SHORTEST_S, LONGEST_S, bins)
    return formed(rng, rng.uniform(SHORTEST_S, LONGEST_S, REQUESTS), edges, BATCH)


def exponential(rng: np.random.Generator, bins: int) -> Batches:
    edges = exponential_boundaries(RATE, EXPONENTIAL_BATCH, bins)
    times_s = rng.exponential(1 / RATE, EXPONENTIAL_REQUESTS)
    return formed(rng, times_s, edges, EXPONENTIAL_BATCH)


def mistaken(rng: np.random.Generator, bins: int, error: float) -> Batches:
    edges = uniform_boundaries(SHORTEST_S, LONGEST_S, bins)
    times_s = rng.uniform(SHORTEST_S, LONGEST_S, REQUESTS)
    right = np.searchsorted(edges[1:-1], times_s, side='right')
    put = bins_with_errors(rng, right, bins, error)
    return form_batches(poisson_arrivals_s(rng, 1.0, REQUESTS), times_s, put, BATCH)


def answer_tokens(rng: np.random.Generator) -> FloatArray:
    lengths = np.ceil(rng.lognormal(np.log(MEDIAN_TOKENS), SPREAD, ANSWERS))
    return np.minimum(lengths, float(MOST_TOKENS))


def answers(rng: np.random.Generator, bins: int, *, optimal: bool) -> Batches:
    tokens = answer_tokens(rng)
    if optimal:
        edges = optimal_boundaries(tokens, bins, ANSWER_BATCH)
    else:
        edges = equal_mass_boundaries(tokens, bins)
    batches = formed(rng, tokens, edges, ANSWER_BATCH)
    return replace(batches, service_s=START_S + TOKEN_S * batches.service_s)


def relative(got: float, expected: float) -> float:
    return abs(got / expected - 1)


def worst(pairs: Sequence[tuple[float, float]]) -> float:
    return max(relative(got, expected) for got, expected in pairs)


def print_grid(title: str, grid: Grid, theirs: Mapping[tuple[float, int], float]) -> None:
    print(f'\n{title}: throughput (1/s) simulated / theory, latency (s)')
    bins = sorted({count for _, count in grid})
    print(f'{"per s":>6}', *(f'{f"k = {count}":>23}' for count in bins))
    for per_s in sorted({per_s for per_s, _ in grid}):
        cells = [
            f'{grid[per_s, k].throughput_per_s:6.3f} / {theirs[per_s, k]:6.3f} '
            f'{grid[per_s, k].latency_s:7.1f}'
            for k in bins
        ]
        print(f'{per_s:>6}', *(f'{cell:>23}' for cell in cells))


Outcome = tuple[dict[str, Any], list[Target]]


def as_rows(grid: Grid) -> list[dict[str, float]]:
    return [
        {
            'per_s': per_s,
            'bins': k,
            'throughput_per_s': m.throughput_per_s,
            'latency_s': m.latency_s,
        }
        for (per_s, k), m in sorted(grid.items())
    ]


def figures_3_and_4(draws: int, images: Path) -> Outcome:
    grid = sweep(uniform, ARRIVALS, UNIFORM_BINS, draws)
    free = sweep(uniform, ARRIVALS, UNIFORM_BINS, min(draws, 3), servers=None)
    span = (SHORTEST_S, LONGEST_S, BATCH)
    carried = {
        (per_s, k): carried_throughput(per_s, uniform_throughput(*span, k)) for per_s, k in grid
    }
    lemma = {(per_s, k): uniform_latency_s(*span, k, per_s) for per_s, k in grid}
    print_grid('fig. 3, uniform', grid, carried)
    path = images / 'multibin_fig3.png'
    figure, axes = picture(path, 1)
    lines(axes[0], grid, 'throughput_per_s', UNIFORM_BINS, marker='.')
    capacity = uniform_capacity(*span)
    axes[0].axhline(capacity, color='grey', linestyle=':', label='capacity, eq. 5')
    finish(figure, axes, 'arrivals (1/s)', ['throughput (1/s)'], path)
    path = images / 'multibin_fig4.png'
    figure, axes = picture(path, 1)
    lines(axes[0], grid, 'latency_s', UNIFORM_BINS[:3], marker='.')
    lines(axes[0], free, 'latency_s', UNIFORM_BINS[:3], linestyle='--', label='')
    lemma_lines = {key: Mean(0.0, value) for key, value in lemma.items()}
    lines(axes[0], lemma_lines, 'latency_s', UNIFORM_BINS[:3], linestyle=':', label='')
    axes[0].set_ylim(0, 150)
    axes[0].set_title('solid: one server; dashed: any number; dotted: lemma 5.1', fontsize=8)
    finish(figure, axes, 'arrivals (1/s)', ['mean latency (s)'], path)
    rising = sum(
        grid[ARRIVALS[-1], low].throughput_per_s < grid[ARRIVALS[-1], high].throughput_per_s
        for low, high in pairwise(UNIFORM_BINS)
    )
    targets = [
        Target(
            'fig. 3: throughput off theorem 4.2 at most',
            worst([(grid[key].throughput_per_s, carried[key]) for key in grid]),
            '<=',
            0.015,
        ),
        Target(
            'fig. 3: throughput off the reference at most',
            worst([(grid[key].throughput_per_s, value) for key, value in UNIFORM_PER_S.items()]),
            '<=',
            0.015,
        ),
        Target(
            'fig. 4: latency, any number of servers, off the reference at most',
            worst([(free[key].latency_s, value) for key, value in UNIFORM_ANY_LATENCY_S.items()]),
            '<=',
            0.01,
        ),
        Target('fig. 3: times that more bins give more, of 4', rising, '>=', 4),
        Target(
            'fig. 4: latency, any number of servers, off lemma 5.1 at most',
            worst([(free[key].latency_s, lemma[key]) for key in free]),
            '<=',
            0.01,
        ),
        Target(
            'fig. 4: latency, one server, off the reference at most',
            worst([(grid[key].latency_s, value) for key, value in UNIFORM_LATENCY_S.items()]),
            '<=',
            0.03,
        ),
    ]
    return {'fig3_fig4': {'one_server': as_rows(grid), 'any_servers': as_rows(free)}}, targets


def figure_6(draws: int, images: Path) -> Outcome:
    grids = {
        name: sweep(partial(answers, optimal=optimal), ANSWER_ARRIVALS, ANSWER_BINS, draws, SERVERS)
        for name, optimal in (('equal mass', False), ('optimal', True))
    }
    path = images / 'multibin_fig6.png'
    figure, axes = picture(path, 2)
    for style, grid in zip(('-', '--'), grids.values(), strict=True):
        extra = {} if style == '-' else {'label': ''}
        lines(axes[0], grid, 'throughput_per_s', ANSWER_BINS, linestyle=style, **extra)
        lines(axes[1], grid, 'latency_s', ANSWER_BINS, linestyle=style, **extra)
    axes[0].set_title('solid: equal masses; dashed: optimal boundaries', fontsize=8)
    axes[1].set_ylim(0, 60)
    finish(figure, axes, 'arrivals (1/s)', ['throughput (1/s)', 'mean latency (s)'], path)
    print('\nfig. 6, lognormal lengths, 8 servers: most throughput (1/s), least latency (s)')
    print(f'{"bins":>6} {"equal mass":>22} {"optimal":>22}')
    peaks: dict[str, dict[int, float]] = {name: {} for name in grids}
    lows: dict[str, dict[int, float]] = {name: {} for name in grids}
    for k in ANSWER_BINS:
        cells = []
        for name, grid in grids.items():
            mine = [mean for (_, count), mean in grid.items() if count == k]
            peaks[name][k] = max(mean.throughput_per_s for mean in mine)
            lows[name][k] = min(mean.latency_s for mean in mine)
            cells.append(f'{peaks[name][k]:10.3f} {lows[name][k]:10.2f}')
        print(f'{k:6}', *(f'{cell:>22}' for cell in cells))
    equal, best = peaks['equal mass'], peaks['optimal']
    rising = sum(equal[a] < equal[b] for a, b in pairwise(ANSWER_BINS))
    latencies = lows['equal mass']
    targets = [
        Target('fig. 6: times that more bins give more, of 4', rising, '>=', 4),
        Target(
            'fig. 6: least latency of k = 2 or 4 over that of k = 1',
            min(latencies[2], latencies[4]) / latencies[1],
            '<=',
            1.0,
        ),
        Target(
            'fig. 6: throughput, optimal over equal masses, at least',
            min(best[k] / equal[k] for k in ANSWER_BINS),
            '>=',
            0.999,
        ),
    ]
    return {'fig6': {name: as_rows(grid) for name, grid in grids.items()}}, targets


def figure_8(draws: int, images: Path) -> Outcome:
    grid: dict[tuple[float, int], Mean] = {}
    for error in ERRORS:
        found = sweep(partial(mistaken, error=error), (SATURATED_PER_S,), ERROR_BINS, draws)
        grid |= {(error, k): mean for (_, k), mean in found.items()}
    exact = {
        (error, k): BATCH / error_service_s(SHORTEST_S, LONGEST_S, BATCH, k, error)
        for error, k in grid
    }
    print('\nfig. 8: throughput (1/s) with errors of chance p_e, simulated / theory')
    print(f'{"p_e":>6}', *(f'{f"k = {k}":>16}' for k in ERROR_BINS))
    for error in ERRORS:
        cells = [
            f'{grid[error, k].throughput_per_s:6.3f} / {exact[error, k]:6.3f}' for k in ERROR_BINS
        ]
        print(f'{error:6}', *(f'{cell:>16}' for cell in cells))
    path = images / 'multibin_fig8.png'
    figure, axes = picture(path, 1)
    lines(axes[0], grid, 'throughput_per_s', ERROR_BINS, marker='.')
    expected = {key: Mean(value, 0.0) for key, value in exact.items()}
    lines(axes[0], expected, 'throughput_per_s', ERROR_BINS, linestyle=':', label='')
    axes[0].set_title('dotted: theory', fontsize=8)
    finish(figure, axes, 'chance of each neighbouring bin', ['throughput (1/s)'], path)
    rising = sum(
        grid[error, low].throughput_per_s < grid[error, high].throughput_per_s
        for error in ERRORS[:-1]
        for low, high in pairwise(ERROR_BINS)
    )
    few = [(grid[key].throughput_per_s, exact[key]) for key in grid if key[1] <= 8]
    targets = [
        Target('fig. 8: throughput off the error model, k <= 8', worst(few), '<=', 0.015),
        Target('fig. 8: times that more bins give more, p_e < 0.5, of 20', rising, '>=', 20),
    ]
    return {'fig8': as_rows(grid)}, targets


def figure_9(draws: int, images: Path) -> Outcome:
    grid = sweep(exponential, ARRIVALS, EXPONENTIAL_BINS, draws)
    exact = {}
    for per_s, k in grid:
        edges = exponential_boundaries(RATE, EXPONENTIAL_BATCH, k)
        service_s = exponential_service_s(edges, RATE, EXPONENTIAL_BATCH)
        exact[per_s, k] = carried_throughput(per_s, EXPONENTIAL_BATCH / service_s)
    print_grid('fig. 9, exponential', grid, exact)
    path = images / 'multibin_fig9.png'
    figure, axes = picture(path, 2)
    lines(axes[0], grid, 'throughput_per_s', EXPONENTIAL_BINS, marker='.')
    lines(axes[1], grid, 'latency_s', EXPONENTIAL_BINS, marker='.')
    axes[1].set_ylim(0, 300)
    finish(figure, axes, 'arrivals (1/s)', ['throughput (1/s)', 'mean latency (s)'], path)
    at_6 = [grid[6, k].latency_s for k in EXPONENTIAL_BINS]
    targets = [
        Target(
            'fig. 9: throughput off the theory at most',
            worst([(grid[key].throughput_per_s, exact[key]) for key in grid]),
            '<=',
            0.015,
        ),
        Target(
            'fig. 9: throughput off the reference at most',
            worst([(grid[k].throughput_per_s, value) for k, value in EXPONENTIAL_PER_S.items()]),
            '<=',
            0.015,
        ),
        Target(
            'fig. 9: latency, one server, off the reference at most',
            worst([(grid[key].latency_s, value) for key, value in EXPONENTIAL_LATENCY_S.items()]),
            '<=',
            0.03,
        ),
        Target('fig. 9: least latency at 6/s, of k = 2 over k = 1', at_6[1] / at_6[0], '<=', 1.0),
        Target('fig. 9: latency at 6/s, of k = 5 over k = 2', at_6[4] / at_6[1], '>=', 1.0),
    ]
    return {'fig9': as_rows(grid)}, targets


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument('--draws', type=COUNT, default=10)
    parser.add_argument('--images', type=new_folder, default=IMAGES)
    options = parser.parse_args()
    require_matplotlib()
    figures: dict[str, Any] = {'draws': options.draws}
    targets: list[Target] = []
    for run in (figures_3_and_4, figure_6, figure_8, figure_9):
        found, wanted = run(options.draws, options.images)
        figures |= found
        targets += wanted
    print()
    save('multibin_theory', figures, targets, path=options.json)


if __name__ == '__main__':
    main()
