"""What programs tell Prometheus, read as it reads them."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families
from support.alert_rules import holds, read_rules
from support.ros.programs import wait_for

if TYPE_CHECKING:
    from support.alert_rules import Figures

RULES = read_rules()


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


class Watch:
    """What Prometheus would see of programs that serve their figures on these ports."""

    def __init__(self, **ports: int) -> None:
        self._ports = ports
        for program, port in ports.items():
            wait_for(partial(scrape, port), f'figures of {program}')
        self._before = self._figures()

    def look(self) -> None:
        """Count from now on."""
        self._before = self._figures()

    def fires(self, *alerts: str) -> bool:
        """Return whether the conditions of all these alerts hold."""
        now = self._figures()
        return all(holds(RULES[alert]['expr'], self._before, now) for alert in alerts)

    def firing(self) -> list[str]:
        """Return the alerts whose conditions hold."""
        return [alert for alert in RULES if self.fires(alert)]

    def _figures(self) -> Figures:
        found: Figures = {}
        for program, port in self._ports.items():
            target = {('job', f'timely_{program}'), ('instance', f'127.0.0.1:{port}')}
            told = scrape(port)
            found['up', frozenset(target)] = float(bool(told))
            for (name, labels), value in told.items():
                found[name, frozenset({*labels, *target})] = value
        return found
