"""What an independent simulation of TimelyLLM found, written from the paper without this code.

Its assumptions: presets ``toy`` and ``toy_uncached`` of ``engines/simulated/step_time.py``, the
workloads of ``timely_llm_ros/evaluation/workload.py``, 20 seeds. A repetition should come within
0.05 in rows that are not overloaded (30 ms of prefill) and within 30 % elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

REFERENCE_DRAWS = 20
"""Of each workload there."""


class Row(NamedTuple):
    workload: str
    hardware: str
    system: str
    normal_utility: float
    normal_response_s: float
    normal_waiting_s: float
    urgent_utility: float | None
    urgent_response_s: float | None
    urgent_waiting_s: float | None
    utility: float
    spread: float


_TABLE = """
wid1 toy_uncached whole_plan cap 12     -0.083    1.5    1.5 -2.327  1.198  1.198 -1.846  0.313
wid1 toy_uncached stream cap 12          0.647  1.041  1.229 -1.717  1.015  1.016 -0.928  0.251
wid1 toy_uncached paper printed         -0.643  1.732  2.043 -1.896  1.068  1.147 -1.874  0.813
wid1 toy_uncached paper feasible         0.628  1.051  1.249 -1.766   1.03  1.034 -0.976   0.28
wid1 toy_uncached paper utility cap 6    0.702  1.013   1.23 -1.338  0.901  0.915 -0.603  0.273
wid1 toy_uncached paper utility cap 12   0.604  1.067  1.261 -1.811  1.043  1.047 -1.026  0.276
wid1 toy_uncached paper fcfs cap 6       0.702  1.006  1.234  -1.42  0.926  0.928 -0.665  0.236
wid1 toy_uncached paper edf cap 6        0.644  1.038   1.26 -1.051  0.815  0.816 -0.418  0.189
wid1 toy          whole_plan cap 12      0.964  0.697  0.697  0.216  0.435  0.435  0.759  0.043
wid1 toy          stream cap 12              1  0.323  0.482  0.693  0.287  0.287  1.149  0.031
wid1 toy          paper printed           0.67  0.773  1.003  0.296  0.383  0.403  0.633  0.278
wid1 toy          paper feasible             1  0.335    0.5  0.673  0.293  0.293  1.134  0.027
wid1 toy          paper utility cap 6        1  0.348  0.516  0.767  0.265  0.265  1.206  0.023
wid1 toy          paper utility cap 12       1  0.335    0.5  0.673  0.293  0.293  1.134  0.027
wid1 toy          paper fcfs cap 6       0.998  0.344  0.517  0.662  0.296  0.296  1.124  0.047
wid1 toy          paper edf cap 6        0.997  0.358   0.53  0.771  0.264  0.264  1.207  0.025
wid2 toy_uncached whole_plan cap 12     -2.652  2.819  2.819 -5.578  2.172  2.172 -5.809  0.956
wid2 toy_uncached stream cap 12         -0.966  1.955  2.297 -4.658  1.896  1.903 -4.066  0.763
wid2 toy_uncached paper printed         -25.855 14.412  15.26 -7.401  2.719  2.823 -21.795 13.668
wid2 toy_uncached paper feasible         -1.47  2.208  2.597 -4.528  1.858  1.975 -4.289  0.857
wid2 toy_uncached paper utility cap 6   -2.235  2.589  2.922 -3.603   1.58  1.808 -4.083  1.319
wid2 toy_uncached paper utility cap 12  -1.465  2.207  2.587 -4.583  1.874   1.99 -4.328  0.899
wid2 toy_uncached paper fcfs cap 6      -1.684  2.312   2.75 -5.666  2.199  2.312 -5.265  1.765
wid2 toy_uncached paper edf cap 6         -2.3  2.623  2.983 -3.447  1.534  1.548 -4.002  1.603
wid2 toy          whole_plan cap 12      0.738  0.964  0.964 -0.493  0.648  0.648  0.097  0.106
wid2 toy          stream cap 12          0.976  0.527  0.706  0.048  0.484  0.484  0.648  0.075
wid2 toy          paper printed         -3.918  3.327  3.827 -2.645  1.281  1.351 -4.429  1.924
wid2 toy          paper feasible         0.975  0.579  0.775  0.145  0.455  0.457   0.72  0.074
wid2 toy          paper utility cap 6    0.866  0.705  0.905  0.498  0.349  0.355  0.917  0.197
wid2 toy          paper utility cap 12   0.977  0.578  0.775  0.149  0.454  0.455  0.724  0.073
wid2 toy          paper fcfs cap 6       0.841  0.651  0.898 -0.314  0.593  0.597  0.298  0.308
wid2 toy          paper edf cap 6        0.768  0.796  1.014  0.444  0.366  0.366  0.815  0.247
wid3 toy_uncached whole_plan cap 12     -3.816  3.408  3.408      -      -      - -3.816  0.202
wid3 toy_uncached stream cap 12          0.621  1.054  1.054      -      -      -  0.621  0.112
wid3 toy_uncached paper printed          0.565  1.099  1.101      -      -      -  0.565   0.19
wid3 toy_uncached paper feasible           0.7  1.016  1.016      -      -      -    0.7  0.078
wid3 toy_uncached paper utility cap 6    0.687  1.018  1.018      -      -      -  0.687  0.148
wid3 toy_uncached paper utility cap 12   0.684  1.028  1.028      -      -      -  0.684  0.088
wid3 toy_uncached paper fcfs cap 6       0.168  1.282  1.282      -      -      -  0.168  0.302
wid3 toy_uncached paper edf cap 6        0.168  1.282  1.282      -      -      -  0.168  0.302
wid3 toy          whole_plan cap 12      -2.28   2.64   2.64      -      -      -  -2.28  0.089
wid3 toy          stream cap 12          0.959  0.392  0.392      -      -      -  0.959  0.035
wid3 toy          paper printed              1  0.419  0.419      -      -      -      1      0
wid3 toy          paper feasible             1  0.372  0.372      -      -      -      1      0
wid3 toy          paper utility cap 6        1   0.38   0.38      -      -      -      1      0
wid3 toy          paper utility cap 12       1  0.372  0.372      -      -      -      1      0
wid3 toy          paper fcfs cap 6       0.684    0.6    0.6      -      -      -  0.684  0.163
wid3 toy          paper edf cap 6        0.684    0.6    0.6      -      -      -  0.684  0.163
"""
# workload, hardware, system | U, R, W of normal tasks | U, R, W of urgent tasks | mean U, its sd


def _row(line: str) -> Row:
    words = line.split()
    numbers = [None if word == '-' else float(word) for word in words[-8:]]
    return Row(words[0], words[1], ' '.join(words[2:-8]), *numbers)  # type: ignore[arg-type]


ROWS = tuple(map(_row, _TABLE.strip().splitlines()))
"""The rows; utilities of groups are shares of their peaks."""

CAPS = {
    'wid1': {
        'whole_plan cap 6': 0.717,
        'stream cap 6': 1.110,
        'paper utility cap 4': 1.293,
        'paper utility cap 6': 1.206,
        'paper utility cap 8': 1.146,
    },
    'wid2': {
        'whole_plan cap 6': -0.412,
        'stream cap 6': 0.189,
        'paper utility cap 4': 0.606,
        'paper utility cap 6': 0.917,
        'paper utility cap 8': 0.894,
        'paper utility cap 12': 0.724,
    },
    'wid3': {
        'whole_plan cap 6': -2.90,
        'stream cap 6': 0.371,
        'paper utility cap 6': 1.000,
    },
}
"""Mean utility by largest batch, preset ``toy``."""
