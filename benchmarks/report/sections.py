"""The sections of the page of the comparison, made of the JSON files of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.benchmarks.report.page_tables import Table, make_table

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


def _images(document: Sequence[Mapping[str, Any]]) -> tuple[Table, ...]:
    columns = (
        ("images/s", "most", ",.0f"),
        ("CPU s per 1,000", "least", ".2f"),
        ("first batch, s", "least", ".2f"),
        ("peak MiB", "least", ",.0f"),
    )

    def values(peer: Mapping[str, Any]) -> Sequence[Any]:
        rate, cpu = peer["median_images_per_second"], peer["median_cpu_seconds_per_1000"]
        return rate, cpu, peer["first_batch_seconds"], peer["peak_rss"] / 2**20

    titles = {section.part: section.title for section in SECTIONS}
    found = []
    for one in document:
        title = titles.get(one["workload"], one["workload"])
        found.append(make_table(f"{title}, images/s", columns, one["peers"], values, ours=_RATIO))
    return tuple(found)


def _text(document: Mapping[str, Any]) -> tuple[Table, ...]:
    columns = (
        ("million tokens/s", "most", ".2f"),
        ("CPU s a million", "least", ".3f"),
        ("padding", "least", ".1%"),
        ("first batch, s", "least", ".2f"),
    )
    keys = ("million_tokens_per_second", "cpu_seconds_per_million", "padding", "first_batch_seconds")
    title = "Million tokens/s, without padding"
    return (make_table(title, columns, document["loaders"], lambda one: [one[key] for key in keys]),)


def _resume(document: Mapping[str, Any]) -> tuple[Table, ...]:
    columns = (
        ("seconds", "least", ".2f"),
        ("from", "", ""),
        ("samples repeated", "least", ",d"),
        ("samples left out", "least", ",d"),
    )

    def values(one: Mapping[str, Any]) -> Sequence[Any]:
        origin = "a saved state" if one["saves_state"] else "the start of the epoch"
        return one["seconds"], origin, one["repeated"], one["omitted"]

    return (make_table("First batch of the second half, s", columns, document["loaders"], values),)


def _memory(document: Mapping[str, Any]) -> tuple[Table, ...]:
    columns = (
        ("MiB after the last epoch", "least", ",.0f"),
        ("after two epochs", "least", ",.0f"),
        ("growth since", "least", "+,.0f"),
    )

    def values(one: Mapping[str, Any]) -> Sequence[Any]:
        second, last = (one["memory"][epoch] / 2**20 for epoch in (1, -1))
        return last, second, last - second

    return (make_table(f"MiB after {document['epochs']} epochs", columns, document["loaders"], values),)


def _conversion(document: Mapping[str, Any]) -> tuple[Table, ...]:
    columns = (
        ("images/s", "most", ",.0f"),
        ("CPU s per 1,000", "least", ".2f"),
        ("bytes over those of the JPEGs", "least", ".3f"),
    )
    keys = ("images_per_second", "cpu_seconds_per_1000", "bytes_over_jpegs")
    title = "Images written a second"
    return (make_table(title, columns, document["loaders"], lambda one: [one[key] for key in keys]),)


def _remote(document: Mapping[str, Any]) -> tuple[Table, ...]:
    columns = (
        ("first epoch, images/s", "most", ",.0f"),
        ("later epochs", "most", ",.0f"),
        ("first batch, s", "least", ".2f"),
    )

    def values(one: Mapping[str, Any]) -> Sequence[Any]:
        return *one["images_per_second"], one["first_batch_seconds"]

    return (make_table("First epoch, images/s", columns, document["loaders"], values),)


def _disk(document: Mapping[str, Any]) -> tuple[Table, ...]:
    columns = (
        ("first epoch, images/s", "most", ",.0f"),
        ("MB read", "least", ",.0f"),
        ("requests", "least", ",d"),
        ("first batch, s", "least", ".2f"),
    )
    keys = ("images_per_second", "megabytes", "requests", "first_batch_seconds")
    title = "First epoch, images/s"
    return (make_table(title, columns, document["loaders"], lambda one: [one[key] for key in keys]),)


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
