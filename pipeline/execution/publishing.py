"""Publishing of a loader's statistics to TensorBoard, Prometheus, OpenTelemetry and Python's logging."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.errors import ConfigError

from .stats import Stats

# Descriptions of the fields of ``MakerStats`` that monitors show as numbers.
_OF_MAKERS = {
    "samples_per_second": "Samples a second that a maker of batches has made",
    "batches": "Batches that a maker has made",
    "bytes": "Bytes of batches that a maker has sent",
    "seconds": "Seconds from asking a maker for a batch to receiving it",
}
_HINT = "Give a SummaryWriter, a registry of prometheus_client, a meter of OpenTelemetry, or a logger."

Read = Callable[[], Stats | None]


def publish_stats(target: Any, method: weakref.WeakMethod[Callable[[], Stats]], step: int | None) -> None:
    """Hand the statistics of a loader to a target; see ``Loader.publish``."""

    def read() -> Stats | None:
        stats = method()
        return stats() if stats else None  # a loader that was dropped publishes nothing

    if isinstance(target, logging.Logger):
        target.info("%s", _line(read()))
    elif hasattr(target, "add_scalar"):
        for gauge in _gauges(read()):
            for value, labels in gauge.values:
                target.add_scalar("/".join(("stoker", gauge.name, *labels.values())), value, step)
    elif hasattr(target, "register") and hasattr(target, "collect"):
        target.register(_Collector(read))
    elif hasattr(target, "create_observable_gauge"):
        _observe(target, read)
    else:
        raise ConfigError(f"statistics cannot be published to {type(target).__name__}", hint=_HINT)


class _Gauge(NamedTuple):
    """A number, and its values with their labels besides the rank."""

    name: str
    description: str
    values: Sequence[tuple[float, Mapping[str, str]]]


def _gauges(stats: Stats | None) -> Iterator[_Gauge]:
    """Yield each number; without workers, numbers of makers have no values."""
    if stats is None:
        return
    counters = stats.counters
    numbers = [
        ("samples", stats.samples, "Samples received"),
        ("batches", stats.batches, "Batches received"),
        ("samples_per_second", stats.samples_per_second, "Samples received in a second"),
        ("waited_seconds", stats.waited, "Seconds that the loop waited for batches"),
        ("waited_share", stats.waited_share, "Share of the time that the loop waited"),
        ("ready_batches", stats.ready, "Batches that lie ready"),
        ("bad_samples", stats.skipped + stats.replaced, "Bad samples skipped or replaced"),
        ("bytes_fetched", counters.bytes_fetched, "Bytes fetched from the storage"),
        ("retries", counters.retries, "Requests that were tried again"),
        ("cache_hits", counters.cache_hits, "Blocks found in the cache"),
        ("cache_misses", counters.cache_misses, "Blocks fetched into the cache"),
        ("bytes_evicted", counters.bytes_evicted, "Bytes that the cache has freed"),
        ("batches_made_again", stats.made_again, "Batches that were made a second time"),
    ]
    for stage, seconds in stats.producer.items():
        numbers.append((f"{stage.replace(' ', '_')}_seconds", seconds, f"Seconds of the stage {stage!r}"))
    yield from (_Gauge(name, description, [(value, {})]) for name, value, description in numbers)
    for field, description in _OF_MAKERS.items():
        values = [(getattr(one, field), {"maker": one.name}) for one in stats.makers]
        yield _Gauge(f"maker_{field}", description, values)


def _line(stats: Stats | None) -> str:
    assert stats is not None, "the caller has the loader"
    rates = ", ".join(f"{one.name} {one.samples_per_second:,.0f}" for one in stats.makers)
    makers = f" Samples a second by maker: {rates}; {stats.made_again} batches made again." if rates else ""
    return (
        f"rank {stats.rank} of {stats.world_size}: {stats.samples:,} samples, "
        f"{stats.samples_per_second:,.0f} a second, {stats.ready} batches ready. {stats.verdict}{makers}"
    )


class _Collector:
    """A collector of prometheus_client, which calls it when the numbers are read."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def collect(self) -> Iterator[Any]:
        """Yield a metric for each number, with the labels rank and maker."""
        from prometheus_client.core import GaugeMetricFamily

        stats = self._read()
        for name, description, values in _gauges(stats):
            if stats and values:
                metric = GaugeMetricFamily(f"stoker_{name}", description, labels=["rank", *values[0][1]])
                for value, labels in values:
                    metric.add_metric([str(stats.rank), *labels.values()], value)
                yield metric

    def describe(self) -> list[Any]:
        """Return nothing, since names are known only when numbers are read."""
        return []


def _observe(meter: Any, read: Read) -> None:
    """Make gauges of OpenTelemetry, which reads the numbers when it exports them."""
    from opentelemetry.metrics import Observation

    def callback(name: str) -> Callable[[Any], list[Any]]:
        def observe(_: Any) -> list[Any]:
            stats = read()
            rank = {"rank": stats.rank if stats else 0}
            found = (gauge.values for gauge in _gauges(stats) if gauge.name == name)
            return [Observation(value, {**rank, **labels}) for value, labels in next(found, ())]

        return observe

    for name, description, _ in list(_gauges(read())):
        meter.create_observable_gauge(f"stoker.{name}", [callback(name)], description=description)
