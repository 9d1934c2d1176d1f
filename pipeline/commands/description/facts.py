"""Descriptions of a dataset, as text and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from stoker.formats.codecs.codec import Codec
from stoker.formats.containers.registry import find_container
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.versions import Version

from ..shared.console import human_bytes, plain, table
from .annotations import annotation_facts, class_labels
from .conversion_gain import Gain
from .sequence_lengths import length_facts

_CLASSES_SHOWN = 20


def facts(dataset: Dataset) -> list[tuple[str, str]]:
    """Return name and value of each fact of the manifest and the index."""
    manifest = dataset.manifest
    in_files = find_container(manifest.container).payload_files is not None
    total = int(dataset.column("length").sum()) if in_files else sum(dataset.data_sizes)
    rows = [
        ("path", str(dataset.path)),
        ("kind", f"{manifest.sample_type} in {manifest.container}, format {manifest.version}"),
        ("samples", f"{len(dataset):,}"),
        ("files", f"{len(dataset):,}, {human_bytes(total)}")
        if in_files
        else ("shards", f"{len(manifest.shards):,}, {human_bytes(total)}"),
        ("classes", f"{dataset.num_classes:,}"),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in manifest.columns.items())),
        ("fingerprint", dataset.fingerprint),
        *([("version", str(manifest.dataset_version))] if manifest.dataset_version > 1 else []),
    ]
    if manifest.sample_type == "image" and len(dataset):
        rows[5:5] = _image_facts(dataset) + annotation_facts(dataset)
    rows[5:5] = length_facts(dataset)
    chosen = [f"{name}={value}" for name, value in manifest.options.items() if value or name == "seed"]
    rows += [("options", ", ".join(chosen))] if chosen else []
    rows += [(f"skipped, {reason}", f"{count:,}") for reason, count in manifest.skipped.items()]
    return rows


def _image_facts(dataset: Dataset) -> list[tuple[str, str]]:
    height, width = dataset.column("height"), dataset.column("width")
    lengths = dataset.column("length")
    codecs = np.bincount(dataset.column("codec"), minlength=256)
    names = ", ".join(f"{Codec(int(c)).name} {codecs[c]:,}" for c in np.flatnonzero(codecs))
    turned = int((dataset.column("orientation") > 1).sum())
    return [
        ("encoding", names + (f"; {turned:,} with an EXIF orientation" if turned else "")),
        ("height", _spread(height, " px")),
        ("width", _spread(width, " px")),
        ("bytes per sample", _spread(lengths)),
        *_restart_facts(dataset),
        *((f"array {name}", f"{one.dtype}, {_sides(one.shape)}") for name, one in dataset.arrays.items()),
    ]


def _sides(shape: tuple[int | None, ...]) -> str:
    return " x ".join("any" if side is None else str(side) for side in shape)


def _restart_facts(dataset: Dataset) -> list[tuple[str, str]]:
    """Return how many images have restart markers; nothing where the dataset was made without them."""
    if "jpeg_bands" not in dataset.columns:
        return []
    marked = np.count_nonzero(dataset.index.lists("jpeg_bands").counts[dataset.rows])
    return [("restart markers", f"in {marked:,} of {len(dataset):,} images")]


def _spread(values: npt.NDArray[Any], unit: str = "") -> str:
    low, middle, high = int(values.min()), int(np.median(values)), int(values.max())
    return f"{low:,} to {high:,}{unit}, median {middle:,}"


def class_table(dataset: Dataset) -> Table:
    """Return a table with the number of samples or objects of each of the first classes."""
    labels, what = class_labels(dataset)
    counts = np.bincount(labels, minlength=dataset.num_classes)
    rows = table("class", "label", what)
    for label, name in enumerate(dataset.classes[:_CLASSES_SHOWN]):
        rows.add_row(plain(name), str(label), f"{counts[label]:,}")
    if dataset.num_classes > _CLASSES_SHOWN:
        rows.add_row(
            f"and {dataset.num_classes - _CLASSES_SHOWN:,} more", "", f"{counts[_CLASSES_SHOWN:].sum():,}"
        )
    return rows


def gain_table(gains: list[Gain]) -> Table:
    """Return a table of what conversions would gain; the first row is of the images in place."""
    rows = table("random crops of 224 pixels", "images/s", "times", "all images")
    for gain in gains:
        times = gain.images_per_second / gains[0].images_per_second
        rows.add_row(gain.form, f"{gain.images_per_second:,.0f}", f"{times:.2f}", human_bytes(gain.bytes))
    return rows


def version_table(versions: list[Version]) -> Table:
    """Return a table of the versions of a dataset."""
    rows = table("change", "version", "time", "samples", "added", "left out")
    for version in versions:
        numbers = (f"{number:,}" for number in (version.samples, version.added, version.removed))
        rows.add_row(plain(version.change), str(version.version), version.time or "not known", *numbers)
    return rows
