"""TRAIL's formulas against values computed beforehand."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.golden import agrees, golden

from benchmarks.trail.smoothing import after_token, smooth, transition
from benchmarks.trail.theory.job_models import ExponentialPredictor, JobModel, PerfectPredictor
from benchmarks.trail.theory.kv_memory import kv_bytes
from benchmarks.trail.theory.limited_preemption import limited_preemption_rank
from benchmarks.trail.theory.quadrature import panels
from benchmarks.trail.theory.queueing import (
    LimitedPreemption,
    fcfs_mean_response,
    mean_unpreemptable,
)
from timely_llm_ros.prediction.lengths import LengthBins, ProbeSettings, RemainingLengthProbe
from timely_llm_ros.scheduling.policies import preemption_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GOLDEN = golden('golden_trail.json')
BINS = LengthBins()
PERFECT, EXPONENTIAL = PerfectPredictor(), ExponentialPredictor()
MODELS: dict[str, JobModel] = {'perfect': PERFECT, 'exponential': EXPONENTIAL}


def bins_of(given: Mapping[str, Any]) -> LengthBins:
    return LengthBins(given['k'], round(given['k'] * given.get('w', 51.2)))


def smoothed(given: Mapping[str, Any], *, absorbing: bool = False) -> list[Any]:
    bins = bins_of(given)
    posterior = np.asarray(given['p'][0], float)
    found = [posterior]
    for answer in given['p'][1:]:
        posterior = smooth(bins, posterior, answer, absorbing=absorbing)
        found.append(posterior)
    return [row.tolist() for row in found]


def path_enumeration(given: Mapping[str, Any]) -> Any:
    """The last posterior by summing over every path through the bins."""
    bins, answers = bins_of(given), given['p']
    matrix = transition(bins)
    mass = np.zeros(bins.count)
    for path in itertools.product(range(bins.count), repeat=len(answers)):
        weight = answers[0][path[0]]
        for step, (before, after) in enumerate(itertools.pairwise(path), 1):
            weight *= matrix[after, before] * answers[step][after]
        mass[path[-1]] += weight
    return mass / mass.sum()


def _path_enumeration(given: Mapping[str, Any]) -> Any:
    enumerated = path_enumeration(given)
    assert smoothed(given)[-1] == pytest.approx(enumerated.tolist())
    return enumerated


def _expected_length(given: Mapping[str, Any]) -> Any:
    return BINS.expected(smoothed(given) if 'p' in given else given['q'])


def _drift(given: Mapping[str, Any]) -> Any:
    return BINS.expected(after_token(BINS, given['q'])) - BINS.expected(given['q'])


def _normalised(given: Mapping[str, Any]) -> Any:
    r, weights = panels(np.linspace(0, 50 * given['x'], 40))
    return weights @ EXPONENTIAL.density(given['x'], r)


def queue(given: Mapping[str, Any], model: str = '') -> LimitedPreemption:
    return LimitedPreemption(given['lam'], given.get('C', 1.0), MODELS[model or given['pred']])


def _mean_response(given: Mapping[str, Any]) -> float:
    return queue(given).mean_response()


def _probe_parameters(given: Mapping[str, Any]) -> int:
    width, hidden, bins = given['d'], given['hidden'], given['k']
    shapes = {'inner': (hidden, width), 'inner_bias': (hidden,), 'outer': (bins, hidden)}
    shapes |= {'outer_bias': (bins,), 'frequencies': (bins,)}
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    probe = RemainingLengthProbe(ProbeSettings(1, LengthBins(bins)), weights, {})
    return sum(it.size for name, it in probe.weights.items() if name != 'frequencies')


FORMULAS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    'bin_index': lambda g: BINS.index(g['n']),
    'bin_int_counts': lambda g: np.bincount(
        LengthBins(g['k'], g['max_len']).index(np.arange(g['max_len'] + 1))
    ),
    'bin_midpoint': lambda g: BINS.midpoints[g['i']],
    'transition_matrix': lambda g: transition(bins_of(g)),
    'transition_mean_drift': _drift,
    'smoothing_recursive': smoothed,
    'smoothing_absorbing': lambda g: smoothed(g, absorbing=True),
    'smoothing_vs_path_enumeration': _path_enumeration,
    'expected_length': _expected_length,
    'expected_length_range': lambda g: bins_of(g).midpoints[[0, -1]],
    'preempt_limit': lambda g: preemption_limit(g['r'], g['c']),
    'rank': lambda g: limited_preemption_rank(g['r'], g['a'], g['c']),
    'mlp_params': _probe_parameters,
    'kv_bytes': lambda g: kv_bytes(g['layers'], g['kv_heads'], g['head_dim'], g['tokens']),
    'g_exponential': lambda g: EXPONENTIAL.density(g['x'], g['y']),
    'g_exponential_normalised': _normalised,
    'g_exponential_marginal': lambda g: EXPONENTIAL.prediction_density(g['y']),
    'rho_perfect': lambda g: queue(g, 'perfect').load_below(g['r']),
    'rho_exponential': lambda g: queue(g, 'exponential').load_below(g['r']),
    'x0old_sq_perfect': lambda g: PERFECT.square_below(g['r']),
    'x0old_sq_exponential': lambda g: EXPONENTIAL.square_below(g['r']),
    'x1old_sq_perfect': lambda g: PERFECT.recycled_square(g['r'], g['C']),
    'x1old_sq_exponential': lambda g: EXPONENTIAL.recycled_square(g['r'], g['C']),
    'lemma1_corrected_xr_perfect': lambda g: queue(g, 'perfect').response(g['x'], g['r']),
    'lemma1_corrected_xr_exponential': lambda g: queue(g, 'exponential').response(g['x'], g['r']),
    'mean_response_corrected': _mean_response,
    'mean_response_spjf_limit': _mean_response,
    # Recorded from a simulation; here from the formula, and from our own simulation elsewhere.
    'sim_mean_memory': lambda g: queue(g).mean_memory(),
    'mm1_fcfs': lambda g: fcfs_mean_response(g['lam']),
    'tail_term_exponential': lambda g: mean_unpreemptable(g['C']),
}

MISPRINTS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    'transition_printed_ERRATUM': _drift,
    'smoothing_printed_ERRATUM': smoothed,
    'g_printed_ERRATUM': lambda g: EXPONENTIAL.density(g['x'], g['y']),
    'mean_response_printed_ERRATUM': _mean_response,
}


def test_every_case_is_tested() -> None:
    assert FORMULAS.keys() | MISPRINTS.keys() == GOLDEN.keys()


@pytest.mark.parametrize('name', FORMULAS)
def test_formula(name: str) -> None:
    for case in GOLDEN[name]:
        got = FORMULAS[name](case['inputs'])
        assert agrees(got, case), f'{case}: got {got}'


@pytest.mark.parametrize('name', MISPRINTS)
def test_misprints_are_not_reproduced(name: str) -> None:
    for case in GOLDEN[name]:
        assert not agrees(MISPRINTS[name](case['inputs']), case), case


def test_the_printed_matrix_moves_mass_up() -> None:
    (case,) = GOLDEN['transition_printed_ERRATUM']
    before = np.asarray(case['inputs']['q'])
    printed = transition(BINS).T
    assert agrees(BINS.expected(printed @ before) - BINS.expected(before), case)


def test_the_printed_smoothing_forgets() -> None:
    """Steps 2 and 3 to the letter: the prior alone is carried on, and p0 is multiplied in twice."""
    for case in GOLDEN['smoothing_printed_ERRATUM']:
        bins = bins_of(case['inputs'])
        prior = np.asarray(case['inputs']['p'][0], float)
        found = []
        for number, answer in enumerate(case['inputs']['p']):
            if number:
                prior = after_token(bins, prior)
            product = prior * answer
            found.append((product / product.sum()).tolist())
        assert agrees(found, case)
