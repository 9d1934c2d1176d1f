"""The sections of the page of the comparison, and their tables, made from the JSON files of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from stoker.benchmarks.peers import TITLES
from stoker.benchmarks.peers.text import TEXT_TITLES

_TITLES = TITLES | TEXT_TITLES
ColumnSpec: TypeAlias = tuple[str, str, str, str | Callable[[Mapping[str, Any]], Any]]
"""Title, best figures ("most", "least" or ""), format, and key or function of a loader, of a column."""


@dataclass(frozen=True)
class Figure:
    """A figure and its text; words have None."""

    value: float | None
    text: str


@dataclass(frozen=True)
class Column:
    """A column: its title, and which of its figures are better, "most" or "least"; "" for words."""

    title: str
    best: str


@dataclass(frozen=True)
class Row:
    """A loader in a table."""

    name: str  # Name of the loader
    figures: tuple[Figure, ...]  # A figure for each column; the first one is the length of the bar

    @property
    def title(self) -> str:
        """Title of the loader."""
        return _TITLES[self.name]

    @property
    def ours(self) -> bool:
        """Whether this is Stoker."""
        return self.name.startswith("stoker")


@dataclass(frozen=True)
class Table:
    """A table, which is also a panel of the picture."""

    title: str  # Title of the panel
    columns: tuple[Column, ...]  # The columns; the first one decides the order
    rows: tuple[Row, ...]  # The loaders with figures, the best first
    # Lines below the table: differences between loaders, and those without figures
    notes: tuple[str, ...] = ()

    def better(self) -> dict[str, list[str]]:
        """Return the loaders that are better than the best of Stoker, with their figures, by column."""
        better = {}
        for number, column in enumerate(self.columns):
            sign = {"most": 1, "least": -1}.get(column.best, 0)
            figures = [(row, row.figures[number]) for row in self.rows]
            ours = [sign * (figure.value or 0) for row, figure in figures if row.ours]
            better[column.title] = [
                f"{row.title} ({figure.text})"
                for row, figure in figures
                if sign and ours and sign * (figure.value or 0) > max(ours)
            ]
        return {title: names for title, names in better.items() if names}


def make_table(
    title: str, columns: Sequence[ColumnSpec], loaders: Sequence[Mapping[str, Any]], *, ours: str = ""
) -> Table:
    """Return a table."""
    rows = [
        Row(one["name"], tuple(_figure(one, *column[1:]) for column in columns))
        for one in loaders
        if not one["missing"]
    ]
    sign = 1 if columns[0][1] == "least" else -1
    rows.sort(key=lambda row: sign * (row.figures[0].value or 0))
    named = [Column(name, best) for name, best, *_ in columns]
    if ours:
        stoker_rate = max(row.figures[0].value or 0 for row in rows if row.ours)
        named.insert(1, Column(ours, ""))
        rows = [_with_ratio(row, stoker_rate) for row in rows]
    noted = [one for one in loaders if one.get("notes") and not one["missing"]]
    notes = [f"{_TITLES[one['name']]}: {'; '.join(one['notes'])}." for one in noted]
    notes += [f"{_TITLES[one['name']]}: not measured, {one['missing']}." for one in loaders if one["missing"]]
    return Table(title, tuple(named), tuple(rows), tuple(notes))


def _figure(
    one: Mapping[str, Any], best: str, form: str, value: str | Callable[[Mapping[str, Any]], Any]
) -> Figure:
    shown = one[value] if isinstance(value, str) else value(one)
    return Figure(shown if best else None, format(shown, form))


def _with_ratio(row: Row, stoker_rate: float) -> Row:
    first, *others = row.figures
    return Row(row.name, (first, Figure(None, f"{stoker_rate / (first.value or stoker_rate):.1f}"), *others))


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    part: str  # Name of the part of the comparison, which is also that of the JSON file
    title: str  # Title
    text: str  # A paragraph
    tables: Callable[[Any], tuple[Table, ...]] = field(repr=False)  # Makes the tables of the file's contents


_RATIO = "Stoker is times as fast"
_MIB = 2**20


def _images(document: Sequence[Mapping[str, Any]]) -> tuple[Table, ...]:
    columns: Sequence[ColumnSpec] = (
        ("images/s", "most", ",.0f", "median_images_per_second"),
        ("CPU s per 1,000", "least", ".2f", "median_cpu_seconds_per_1000"),
        ("first batch, s", "least", ".2f", "first_batch_seconds"),
        ("peak MiB", "least", ",.0f", lambda peer: peer["peak_rss"] / _MIB),
    )
    titles = {section.part: section.title for section in SECTIONS}
    tables = []
    for one in document:
        title = titles.get(one["workload"], one["workload"])
        tables.append(make_table(f"{title}, images/s", columns, one["peers"], ours=_RATIO))
    return tuple(tables)


def _loaders(title: str, *columns: ColumnSpec) -> Callable[[Any], tuple[Table, ...]]:
    """Return a function that makes the table of a document's loaders; ``title`` may name its values."""

    def tables(document: Mapping[str, Any]) -> tuple[Table, ...]:
        return (make_table(title.format_map(document), columns, document["loaders"]),)

    return tables


_text = _loaders(
    "Million tokens/s, without padding",
    ("million tokens/s", "most", ".2f", "million_tokens_per_second"),
    ("CPU s a million", "least", ".3f", "cpu_seconds_per_million"),
    ("padding", "least", ".1%", "padding"),
    ("first batch, s", "least", ".2f", "first_batch_seconds"),
)
_resume = _loaders(
    "First batch of the second half, s",
    ("seconds", "least", ".2f", "seconds"),
    ("from", "", "", lambda one: "a saved state" if one["saves_state"] else "the start of the epoch"),
    ("samples repeated", "least", ",d", "repeated"),
    ("samples left out", "least", ",d", "omitted"),
)
_memory = _loaders(
    "MiB after {epochs} epochs",
    ("MiB after the last epoch", "least", ",.0f", lambda one: one["memory"][-1] / _MIB),
    ("after two epochs", "least", ",.0f", lambda one: one["memory"][1] / _MIB),
    ("growth since", "least", "+,.0f", lambda one: (one["memory"][-1] - one["memory"][1]) / _MIB),
)
_conversion = _loaders(
    "Images written a second",
    ("images/s", "most", ",.0f", "images_per_second"),
    ("CPU s per 1,000", "least", ".2f", "cpu_seconds_per_1000"),
    ("bytes over those of the JPEGs", "least", ".3f", "bytes_over_jpegs"),
)
_remote = _loaders(
    "First epoch, images/s",
    ("first epoch, images/s", "most", ",.0f", lambda one: one["images_per_second"][0]),
    ("later epochs", "most", ",.0f", lambda one: one["images_per_second"][1]),
    ("first batch, s", "least", ".2f", "first_batch_seconds"),
)
_disk = _loaders(
    "First epoch, images/s",
    ("first epoch, images/s", "most", ",.0f", "images_per_second"),
    ("MB read", "least", ",.0f", "megabytes"),
    ("requests", "least", ",d", "requests"),
    ("first batch, s", "least", ".2f", "first_batch_seconds"),
)

SECTIONS = (
    Section(
        "imagenet",
        "Photographs as they are",
        "Photographs with a long side of 500 pixels, quality 96, 110 KB on average.",
        _images,
    ),
    Section("imagenet256", "Short side 256", "The same photographs, resized once, at quality 90.", _images),
    Section("raw256", "Raw pixels", "Pixels of photographs at short side 256, without a codec.", _images),
    Section(
        "published",
        "What FFCV and SPDL publish",
        "FFCV's recipes for ImageNet write part of the images raw and part as JPEG of quality 90, and make "
        "uint8 batches of random crops and flips at 192 pixels. SPDL's example resizes whole images to 224 "
        "pixels, in order. Stoker does the same work on the same images; for FFCV's recipes it writes the "
        "same mix.",
        _images,
    ),
    Section(
        "text",
        "Text",
        "Sequences with the lengths of GSM8K's answers, in batches of 64, padded. Random batches pad most; "
        "buckets and sorted windows pad less, and move fewer bytes.",
        _text,
    ),
    Section(
        "resume",
        "Going on in the middle of an epoch",
        "A new process goes on after half of an epoch. Loaders without a state make the first half again "
        "with the same seed. A sample that comes twice is repeated; one that neither half has is left out.",
        _resume,
    ),
    Section(
        "memory",
        "Memory",
        "All processes of a loader, without pages of mapped files; images at short side 256.",
        _memory,
    ),
    Section(
        "conversion",
        "Writing the files",
        "The same JPEGs, written by the tools of each loader without a change of their bytes. Stoker reads "
        "loose files, checks each image and syncs its shards to the disk; the others get the bytes from the "
        "page cache.",
        _conversion,
    ),
    Section(
        "remote",
        "An object store",
        "A server of S3's protocol on the same cores, which waits before each answer and shares one link. "
        "The first epoch fetches the files; later ones find what the loader has cached.",
        _remote,
    ),
    Section(
        "disk",
        "A slow disk",
        "The kernel limits the bytes and the requests of each loader to those of a hard disk. Nothing of its "
        "files is in the page cache. Loose files cost a request each; a shuffle of blocks reads long runs.",
        _disk,
    ),
)
"""All sections in the order of the page."""
