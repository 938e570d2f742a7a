"""What a node tells Prometheus: figures that it has anyway, served over HTTP when asked for.

A node makes its figures once a second, with its diagnostics and from the same records. Only the
latest are served, so whoever scrapes never waits for a robot's loop, nor that for him.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

from timely_llm_ros.errors import ConfigurationError, TimelyError
from timely_llm_ros.options import option

METRICS_PERIOD_S = 1.0
"""How often a node makes its figures (s)."""

STALE_S = 10.0
"""Figures older than this (s) are not served: their node hangs, and has to look like that."""


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Where a node serves its figures to Prometheus."""

    metrics_port: int = option(
        0,
        'Port on which Prometheus finds the figures of the node at /metrics; 0 for none. Needs '
        'prometheus-client.',
        minimum=0,
        maximum=65535,
    )
    metrics_host: str = option(
        '127.0.0.1', 'Address of that port; anybody who reaches it can read the figures.'
    )


class Distribution(NamedTuple):
    """Value of a histogram: how many were at most so much, by bound, the last one ``+Inf``."""

    at_most: tuple[tuple[str, float], ...]
    total: float


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, by Prometheus' conventions: base units, counters end in ``_total``.

    Attributes:
        name: Its name.
        kind: A counter only grows as long as the node lives, a gauge goes up and down, a histogram
            counts what it was shown by size.
        text: What it is, as Prometheus shows it.
        labels: Names of its labels, in the order of the values in :data:`Samples`.
    """

    name: str
    kind: Literal['counter', 'gauge', 'histogram']
    text: str
    labels: tuple[str, ...] = ()


Samples = Mapping[Metric, Iterable[tuple[tuple[str, ...], float | Distribution]]]
"""Values by metric, each with those of its labels."""


class Exporter:
    """Serves the latest figures of one node.

    Args:
        options: Where.
        program: Of which program, for messages.

    Raises:
        ConfigurationError: prometheus-client is not installed, or the port cannot be had.
    """

    def __init__(self, options: MetricsOptions, program: str) -> None:
        self._program, self._shown_s = program, time.monotonic()
        self._families: list[Any] = []
        self._close: Any = None
        if not options.metrics_port:
            return
        if find_spec('prometheus_client') is None:
            raise ConfigurationError(
                f'metrics_port {options.metrics_port}: expected prometheus-client to be installed '
                "(pip install 'timely_llm_ros[metrics]')"
            )
        from prometheus_client import start_http_server

        where = f'{options.metrics_host}:{options.metrics_port}'
        try:
            server, thread = start_http_server(
                options.metrics_port,
                options.metrics_host,
                self,
            )
        except OSError as err:
            raise ConfigurationError(
                f'metrics_host and metrics_port {where}: expected an address of this machine and '
                f'a free port ({err})'
            ) from err

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        self._close = close

    @property
    def serves(self) -> bool:
        """Whether anybody can ask; there is no need to make figures if not."""
        return self._close is not None

    def show(self, samples: Samples) -> None:
        """Serve these figures from now on; they are not changed afterwards."""
        if not self.serves:
            return
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        kinds: dict[str, Any] = {
            'counter': CounterMetricFamily,
            'gauge': GaugeMetricFamily,
            'histogram': HistogramMetricFamily,
        }
        families: list[Any] = []
        for metric, values in samples.items():
            made = kinds[metric.kind](metric.name, metric.text, labels=metric.labels)
            for labels, value in values:
                if isinstance(value, Distribution):
                    made.add_metric(labels, value.at_most, value.total)
                else:
                    made.add_metric(labels, value)
            families.append(made)
        self._families, self._shown_s = families, time.monotonic()

    def collect(self) -> list[Any]:
        """Return the latest figures; prometheus-client calls it on a thread of its own.

        Raises:
            TimelyError: They are old. Prometheus gets an error and takes the node for down.
        """
        age_s = time.monotonic() - self._shown_s
        if age_s > STALE_S:
            raise TimelyError(
                f'{self._program}: its figures are {age_s:.0f} s old: expected at most {STALE_S:g}'
            )
        return self._families

    def close(self) -> None:
        """Serve no more."""
        if self._close is not None:
            self._close()
            self._close = None
