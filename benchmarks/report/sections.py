"""The sections of the page of the comparison, made of the JSON files of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.benchmarks.report.page_tables import ColumnSpec, Table, make_table

__all__ = ["SECTIONS", "Section"]


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        part: Name of the part of the comparison, which is also that of the JSON file.
        title: Title.
        text: A paragraph.
        tables: Makes the tables of the file's contents.
    """

    part: str
    title: str
    text: str
    tables: Callable[[Any], tuple[Table, ...]] = field(repr=False)


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
    found = []
    for one in document:
        title = titles.get(one["workload"], one["workload"])
        found.append(make_table(f"{title}, images/s", columns, one["peers"], ours=_RATIO))
    return tuple(found)


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
