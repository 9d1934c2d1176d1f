"""Results of a comparison, as data."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ..peers import TITLES

_FORMAT = 1


@dataclass(frozen=True)
class Spread:
    """Median and range of measurements, in their unit."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class PeerResult:
    """Results of one loader in a comparison."""

    name: str  # Name of the loader for ``--against``
    images_per_second: tuple[float, ...] = ()  # Rate of each timed turn, in order
    # CPU seconds per 1,000 images in each turn, of all processes of the loader
    cpu_seconds_per_1000: tuple[float, ...] = ()
    peak_rss: int = 0  # Bytes, see ``usage.Usage``
    import_seconds: float = 0.0  # Time of importing the library in a new interpreter
    # Time from the request for the first epoch of a new loader to the first batch
    first_batch_seconds: float = 0.0
    # Time to write the samples in a format of the loader; 0 where it reads those of Stoker
    write_seconds: float = 0.0
    write_cpu_seconds: float = 0.0  # CPU seconds of writing them, of all processes
    written_bytes: int = 0  # Bytes of these files
    versions: Mapping[str, str] = field(default_factory=dict)  # Versions of the packages of the loader
    notes: tuple[str, ...] = ()  # Differences between the work of this loader and that of the others
    missing: str = ""  # Reason why there are no results; empty where there are

    @property
    def rate(self) -> Spread:
        return Spread.of(self.images_per_second)

    @property
    def cpu(self) -> Spread:
        return Spread.of(self.cpu_seconds_per_1000)


@dataclass(frozen=True)
class Comparison:
    """Results of several loaders on the same samples and the same cores, in interleaved turns."""

    workload: str  # Title of the samples
    machine: Mapping[str, Any]  # Result of ``machine.describe``
    settings: Mapping[str, Any]  # ``peers.base.PeerSettings`` as a mapping
    records: int  # Number of samples in the source
    rounds: int  # Number of timed turns of each loader
    peers: tuple[PeerResult, ...]  # A result for each loader, in the order of the request

    def measured(self) -> tuple[PeerResult, ...]:
        return tuple(peer for peer in self.peers if not peer.missing)

    def rate_of(self, name: str) -> float | None:
        return next((peer.rate.median for peer in self.measured() if peer.name == name), None)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison and its medians as values that JSON has."""
    value = asdict(comparison)
    for entry, peer in zip(value["peers"], comparison.peers, strict=True):
        if not peer.missing:
            entry["median_images_per_second"] = peer.rate.median
            entry["median_cpu_seconds_per_1000"] = peer.cpu.median
    return {"format": _FORMAT, **value}


_COLUMNS = ("loader", "images/s", "times", "CPU s", "first batch")
_MORE_COLUMNS = ("lowest to highest", "peak MiB", "import", "written")
_WIDE = 120  # characters that all columns need


def machine_line(comparison: Comparison) -> str:
    """Return the machine and the settings in one line."""
    machine, settings = comparison.machine, comparison.settings
    cores, threads = machine["cores"], settings["num_threads"]
    device = settings.get("device", "cpu")  # older results have none
    size = f"{settings['size']}x{settings['size']}"
    on_device = "" if device == "cpu" else f"{device}, "
    return (
        f"{machine['cpu']}, {cores} core{'s' * (cores != 1)}, {threads} thread{'s' * (threads != 1)}, batch "
        f"{settings['batch_size']}, {settings.get('recipe') or size}, {comparison.records:,} images, "
        f"{on_device}{comparison.rounds} round{'s' * (comparison.rounds != 1)}, "
        f"{machine['kernel']}"
    )


def render(comparison: Comparison, width: int = _WIDE) -> Group:
    """Return a table with the fastest loader first, and notes on each loader below it.

    The column "times" is the rate of the first loader of the request over that of each loader; "CPU s" is
    CPU seconds per 1,000 images; "written" is the time to write the samples in a format of the
    loader. The table has fewer columns if ``width`` characters are too few for all.
    """
    table = Table(title=comparison.workload or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for title in (*_COLUMNS, *_MORE_COLUMNS)[: None if width >= _WIDE else len(_COLUMNS)]:
        table.add_column(title, justify="left" if title == "loader" else "right", no_wrap=True)
    first_rate = comparison.rate_of(comparison.peers[0].name)
    measured = sorted(comparison.measured(), key=lambda peer: -peer.rate.median)
    for peer in measured:
        style = "bold green" if peer.name.startswith("stoker") else None
        table.add_row(*_cells(peer, first_rate)[: len(table.columns)], style=style)
    footnotes = [
        Text(
            f"{TITLES[peer.name]} {_versions(peer)}: {'; '.join(peer.notes) or 'no differences in the work'}",
            "dim",
        )
        for peer in measured
    ]
    absent = [
        Text(f"{TITLES[peer.name]}: not measured, {peer.missing}", "yellow")
        for peer in comparison.peers
        if peer.missing
    ]
    legend = (
        f"times: rate of {TITLES[comparison.peers[0].name]} over that of the loader; "
        "CPU s: CPU seconds per 1,000 images"
    )
    engine = [Text(advice, "bold")] if (advice := engine_to_name(comparison)) else []
    machine = Text(machine_line(comparison), "dim")
    return Group(table, Text(legend, "dim"), machine, *engine, *footnotes, *absent)


def engine_to_name(comparison: Comparison) -> str:
    """Return which of Stoker's engines is faster on this GPU; empty if only one was measured."""
    native, dali = comparison.rate_of("stoker"), comparison.rate_of("stoker-dali")
    if not native or not dali:
        return ""
    faster, slower, gain = (
        ("dali", "native", dali / native) if dali > native else ("native", "dali", native / dali)
    )
    return f"Give the loader engine={faster!r}: here it is {gain:.2f} times as fast as {slower!r}."


def _cells(peer: PeerResult, first_rate: float | None) -> list[str]:
    rate = peer.rate
    return [
        TITLES[peer.name],
        f"{rate.median:,.0f}",
        f"{first_rate / rate.median:.2f}" if first_rate else "",
        f"{peer.cpu.median:.2f}",
        f"{1000 * peer.first_batch_seconds:,.0f} ms",
        f"{rate.low:,.0f} to {rate.high:,.0f}",
        f"{peer.peak_rss / 2**20:,.0f}",
        f"{peer.import_seconds:.2f} s",
        f"{peer.write_seconds:.1f} s" if peer.written_bytes else "",
    ]


def _versions(peer: PeerResult) -> str:
    return ", ".join(f"{package} {version}" for package, version in peer.versions.items())


def show(comparison: Comparison, console: Console | None = None) -> None:
    """Print a comparison."""
    console = console or Console()
    console.print(render(comparison, console.width))
