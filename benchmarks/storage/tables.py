"""Tables of the results of :mod:`stoker.benchmarks.storage.scale`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.pipeline.commands.shared.console import human_bytes, out, table

__all__ = ["print_order", "print_reading", "print_rows", "print_staging"]


def print_order(found: Sequence[dict[str, Any]], samples: int, ranks: int) -> None:
    """Print the result of ``measure_order``."""
    made = table(
        f"order of {samples:,} samples, {ranks:,} ranks", "start, ms", "resume, ms", "batch, ms", "kB"
    )
    for row in found:
        times = (_milliseconds(row[f"{name}_seconds"]) for name in ("start", "resume", "batch"))
        made.add_row(row["order"], *times, f"{row['bytes'] / 1e3:.0f}")
    out.print(made)


def print_rows(found: Sequence[dict[str, Any]]) -> None:
    """Print the result of ``measure_rows``, and its extrapolation."""
    made = table(
        "rows", "shards", "index", "open, ms", "loader, ms", "first batch, ms", "resume, ms", "private"
    )
    for row in found:
        names = (f"{name}_seconds" for name in ("open", "loader", "first_batch", "resume"))
        shown = [_milliseconds(row[name]) if name in row else "" for name in names]
        label = f"{row['rows']:,}{' (extrapolated)' if row.get('extrapolated') else ''}"
        sizes = human_bytes(row["index_bytes"]), *shown, human_bytes(row["private_bytes"])
        made.add_row(label, f"{row['shards']:,}", *sizes)
    out.print(made)


def print_reading(found: Sequence[dict[str, Any]]) -> None:
    """Print the result of ``measure_reading``."""
    made = table(
        "waits, simulated: ranks, latency, connections",
        *(f"{depth} batches ahead" for depth in found[0]["stall"]),
    )
    for row in found:
        label = f"{row['order']}: {row['ranks']:,}, {row['latency'] * 1e3:.0f} ms, {row['connections']}"
        made.add_row(label, *(f"{stall:.1%}" for stall in row["stall"].values()))
    out.print(made)


def print_staging(found: Sequence[dict[str, Any]]) -> None:
    """Print the result of ``measure_staging``."""
    made = table("waits: latency, batches ahead", "simulated", "measured")
    for row in found:
        label = f"{row['order']}: {row['latency'] * 1e3:.0f} ms, {row['depth']}"
        made.add_row(label, f"{row['simulated']:.1%}", f"{row['measured']:.1%}")
    out.print(made)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f}"
