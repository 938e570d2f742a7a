"""What programs tell Prometheus, read as it reads them."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def scrape(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    try:
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10) as answer:
            text = answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return {}
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def plain_names(port: int) -> set[str]:
    """Return the names of metrics, those of histograms without what follows."""
    return {re.sub(r'_(bucket|count|sum)$', '', name) for name in names(port)}


def has_all(port: int, wanted: set[str]) -> bool:
    return wanted <= plain_names(port)


def names(port: int) -> set[str]:
    return {name for name, _ in scrape(port)}


def exported(ports: dict[str, int]) -> set[str]:
    return set().union(*map(names, ports.values()))
