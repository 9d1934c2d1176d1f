"""Tables of the results of :mod:`stoker.benchmarks.storage.scale`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.pipeline.commands.shared.console import human_bytes, out, table


def print_order(figures: Sequence[dict[str, Any]], samples: int, ranks: int) -> None:
    """Print the result of ``measure_order``."""
    printed = table(
        f"order of {samples:,} samples, {ranks:,} ranks", "start, ms", "resume, ms", "batch, ms", "kB"
    )
    for row in figures:
        times = (_milliseconds(row[f"{name}_seconds"]) for name in ("start", "resume", "batch"))
        printed.add_row(row["order"], *times, f"{row['bytes'] / 1e3:.0f}")
    out.print(printed)


def print_rows(figures: Sequence[dict[str, Any]]) -> None:
    """Print the result of ``measure_rows``, and its extrapolation."""
    printed = table(
        "rows", "shards", "index", "open, ms", "loader, ms", "first batch, ms", "resume, ms", "private"
    )
    for row in figures:
        names = (f"{name}_seconds" for name in ("open", "loader", "first_batch", "resume"))
        shown = [_milliseconds(row[name]) if name in row else "" for name in names]
        label = f"{row['rows']:,}{' (extrapolated)' if row.get('extrapolated') else ''}"
        sizes = human_bytes(row["index_bytes"]), *shown, human_bytes(row["private_bytes"])
        printed.add_row(label, f"{row['shards']:,}", *sizes)
    out.print(printed)


def print_reading(figures: Sequence[dict[str, Any]]) -> None:
    """Print the result of ``measure_reading``."""
    printed = table(
        "waits, simulated: ranks, latency, connections",
        *(f"{depth} batches ahead" for depth in figures[0]["stall"]),
    )
    for row in figures:
        label = f"{row['order']}: {row['ranks']:,}, {row['latency'] * 1e3:.0f} ms, {row['connections']}"
        printed.add_row(label, *(f"{stall:.1%}" for stall in row["stall"].values()))
    out.print(printed)


def print_staging(figures: Sequence[dict[str, Any]]) -> None:
    """Print the result of ``measure_staging``."""
    printed = table("waits: latency, batches ahead", "simulated", "measured")
    for row in figures:
        label = f"{row['order']}: {row['latency'] * 1e3:.0f} ms, {row['depth']}"
        printed.add_row(label, f"{row['simulated']:.1%}", f"{row['measured']:.1%}")
    out.print(printed)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f}"
