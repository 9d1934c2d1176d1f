"""The choice of ``engine="auto"`` on a machine with a GPU: the faster engine in a short measurement."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stoker.errors import MissingDependencyError, StokerError

from .rate_cache import MeasuredRates, RateCache

MEASURED_SECONDS = 2.0
"""Seconds that a measurement takes, of all engines together and without their preparation."""


def choose_by_rate(
    engines: Sequence[str],
    measure: Callable[[str, float], float],
    *,
    conditions: Mapping[str, Any],
    dataset: str,
    machine: str,
    cache: RateCache,
) -> str:
    """The fastest of several engines, by rates in the cache, or else measured now."""
    key = json.dumps({"engines": list(engines), **conditions}, sort_keys=True)
    with cache.lock():
        rates = cache.find(key)
        if rates is None:
            rates = MeasuredRates(key, dataset, machine, _measure_all(engines, measure))
            cache.add(rates)
    return rates.fastest


def _measure_all(engines: Sequence[str], measure: Callable[[str, float], float]) -> dict[str, float]:
    failed: list[StokerError] = []

    def rate(name: str) -> float:
        try:
            return measure(name, MEASURED_SECONDS / len(engines))
        except MissingDependencyError:
            raise  # the framework is missing, whichever engine runs
        except StokerError as error:
            failed.append(error)
            return 0.0

    rates = {name: rate(name) for name in engines}
    if failed and not any(rates.values()):
        raise failed[-1]
    return rates
