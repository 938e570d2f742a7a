"""Reference simulations of multi-bin batching: mean latency with one server (s).

Uniform times on 1..20, batches of 128, 128,000 requests; exponential times of mean 10, batches of
200, 200,000 requests, boundaries of lemma A.1; 10 draws each. Only where the server keeps up: above
its capacity latency grows with the number of requests and means nothing.
"""

from __future__ import annotations

UNIFORM_LATENCY_S: dict[tuple[int, int], float] = {
    (2, 1): 51.6, (2, 2): 79.7, (2, 3): 109.9, (2, 5): 172.1, (2, 10): 329.4,
    (4, 1): 35.7, (4, 2): 49.0, (4, 3): 63.8, (4, 5): 94.5, (4, 10): 173.2,
    (6, 1): 30.8, (6, 2): 39.5, (6, 3): 49.4, (6, 5): 70.2, (6, 10): 123.1,
    (8, 2): 36.0, (8, 3): 43.2, (8, 5): 59.4, (8, 10): 100.3,
    (10, 5): 56.0, (10, 10): 89.4,
}  # fmt: skip
"""By arrivals per second and number of bins."""

EXPONENTIAL_LATENCY_S: dict[tuple[int, int], float] = {
    (2, 1): 108.7, (2, 2): 131.2, (2, 3): 172.3, (2, 4): 218.4, (2, 5): 265.8,
    (4, 2): 87.9, (4, 3): 102.0, (4, 4): 122.4, (4, 5): 144.4,
    (6, 2): 81.4, (6, 3): 83.3, (6, 4): 93.5, (6, 5): 106.6,
    (8, 3): 81.2, (8, 4): 83.5, (8, 5): 90.9,
    (10, 4): 85.3, (10, 5): 86.7,
    (12, 5): 95.8,
}  # fmt: skip
"""By arrivals per second and number of bins; the two nearest to their capacity left out."""
