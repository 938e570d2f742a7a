"""More load than can be served: what is earned, by whom, and what no schedule exceeds."""

from benchmarks.overload.goodput_bound import greatest_goodput
from benchmarks.overload.serving import Shape, Way, serve

__all__ = ['Shape', 'Way', 'greatest_goodput', 'serve']
