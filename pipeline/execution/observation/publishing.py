"""Statistics of a loader handed to TensorBoard, Prometheus, OpenTelemetry and Python's logging."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable, Iterator

    from .stats import Stats

__all__ = ["publish_stats"]

_HINT = "Give a SummaryWriter, a registry of prometheus_client, a meter of OpenTelemetry, or a logger."


def publish_stats(target: Any, read: weakref.WeakMethod[Callable[[], Stats]], step: int | None) -> None:
    """Hand statistics to a target, which is told by its methods; see ``Loader.publish``.

    Args:
        target: The target.
        read: Returns the statistics; a loader that was dropped publishes nothing.
        step: Step of the training, for TensorBoard.

    Raises:
        ConfigError: The target is none of those.
    """
    if isinstance(target, logging.Logger):
        target.info("%s", _line(read))
    elif hasattr(target, "add_scalar"):
        for name, value, _ in _gauges(read):
            target.add_scalar(f"stoker/{name}", value, step)
    elif hasattr(target, "register") and hasattr(target, "collect"):
        target.register(_Collector(read))
    elif hasattr(target, "create_observable_gauge"):
        _observe(target, read)
    else:
        raise ConfigError(f"statistics cannot be published to {type(target).__name__}", hint=_HINT)


def _gauges(read: weakref.WeakMethod[Callable[[], Stats]]) -> Iterator[tuple[str, float, str]]:
    """Yield name, value and description of each figure."""
    if (stats := _now(read)) is None:
        return
    yield "samples", stats.samples, "Samples received"
    yield "batches", stats.batches, "Batches received"
    yield "samples_per_second", stats.samples_per_second, "Samples received in a second"
    yield "waited_seconds", stats.waited, "Seconds that the loop waited for batches"
    yield "waited_share", stats.waited_share, "Share of the time that the loop waited"
    yield "ready_batches", stats.ready, "Batches that lie ready"
    yield "bad_samples", stats.skipped + stats.replaced, "Bad samples skipped or replaced"
    yield "bytes_fetched", stats.counters.bytes_fetched, "Bytes fetched from the storage"
    yield "retries", stats.counters.retries, "Requests that were tried again"
    yield "cache_hits", stats.counters.cache_hits, "Blocks found in the cache"
    yield "cache_misses", stats.counters.cache_misses, "Blocks fetched into the cache"
    yield "bytes_evicted", stats.counters.bytes_evicted, "Bytes that the cache has freed"
    for stage, seconds in stats.producer.items():
        yield f"{stage.replace(' ', '_')}_seconds", seconds, f"Seconds of the stage {stage!r}"


def _now(read: weakref.WeakMethod[Callable[[], Stats]]) -> Stats | None:
    method = read()
    return None if method is None else method()


def _line(read: weakref.WeakMethod[Callable[[], Stats]]) -> str:
    stats = _now(read)
    assert stats is not None, "the caller has the loader"
    return (
        f"rank {stats.rank} of {stats.world_size}: {stats.samples:,} samples, "
        f"{stats.samples_per_second:,.0f} a second, {stats.ready} batches ready. {stats.verdict}"
        f"{_makers(stats)}"
    )


def _makers(stats: Stats) -> str:
    """The rates of the makers of batches, and how many batches they made again; empty without workers."""
    rates = ", ".join(f"{one.name} {one.samples_per_second:,.0f}" for one in stats.makers)
    return f" Samples a second by maker: {rates}; {stats.made_again} batches made again." if rates else ""


class _Collector:
    """A collector of prometheus_client, which asks for the figures when they are read."""

    def __init__(self, read: weakref.WeakMethod[Callable[[], Stats]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Any]:
        """Yield a metric for each figure, with the rank as a label."""
        from prometheus_client.core import GaugeMetricFamily

        stats = _now(self._read)
        for name, value, said in _gauges(self._read):
            metric = GaugeMetricFamily(f"stoker_{name}", said, labels=["rank"])
            metric.add_metric([str(stats.rank if stats else 0)], value)
            yield metric

    def describe(self) -> list[Any]:
        """Return nothing: names are known when figures are read."""
        return []


def _observe(meter: Any, read: weakref.WeakMethod[Callable[[], Stats]]) -> None:
    """Make gauges of OpenTelemetry, which asks for the figures when it exports them."""
    from opentelemetry.metrics import Observation

    def callback(name: str) -> Callable[[Any], list[Any]]:
        def observe(_: Any) -> list[Any]:
            stats = _now(read)
            rank = {"rank": stats.rank if stats else 0}
            return [Observation(value, rank) for other, value, _ in _gauges(read) if other == name]

        return observe

    for name, _, said in list(_gauges(read)):
        meter.create_observable_gauge(f"stoker.{name}", [callback(name)], description=said)
