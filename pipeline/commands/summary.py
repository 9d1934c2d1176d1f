"""The summary of a dataset, as lines, tables and JSON, for ``stoker info`` and the dataset's card."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from stoker.formats.codecs.codec import Codec
from stoker.formats.containers.container import find_container
from stoker.formats.dataset.columns import ListColumn
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.versions import Version
from stoker.formats.token_columns import LENGTHS_COLUMN, length_column, trained_column
from stoker.formats.verify import Report

from .console import human_bytes, plain, table
from .conversion_gain import Gain

# Largest areas in pixels of small and of medium objects in the evaluation of COCO (pycocotools,
# Params.areaRng).
_SMALL, _MEDIUM = 32**2, 96**2


def _annotation_rows(dataset: Dataset) -> list[tuple[str, str]]:
    """Return name and value of each line about objects and masks."""
    tasks = dataset.tasks
    rows = [("tasks", ", ".join(sorted(tasks)))] if tasks - {"label"} else []
    if "boxes" in tasks:
        rows += _object_rows(dataset)
    info = dataset.manifest.annotations
    if info.keypoints:
        rows.append(("keypoints", f"{len(info.keypoints)}: {', '.join(info.keypoints)}"))
    if "segmentation" in tasks:
        lengths = dataset.column("mask_length")
        ignored = "" if info.ignore is None else f"; value {info.ignore} is ignored"
        rows.append(("masks", f"{len(lengths):,}, median {np.median(lengths):,.0f} bytes{ignored}"))
    return rows


def _object_rows(dataset: Dataset) -> list[tuple[str, str]]:
    labels = _lists(dataset, "object_labels")
    counts = labels.counts
    objects = f"{counts.sum():,}"
    crowds = int(_lists(dataset, "object_crowd").values.sum())
    objects += f", {crowds:,} of them crowds" if crowds else ""
    empty = int((counts == 0).sum())
    spread = f"{counts.min():,} to {counts.max():,}, mean {counts.mean():.1f}"
    rows = [("objects", objects), ("objects per image", spread + (f"; {empty:,} without" if empty else ""))]
    area = _lists(dataset, "object_area").values
    if len(area):
        shares = np.histogram(area, (0, _SMALL, _MEDIUM, np.inf))[0] / len(area)
        sides = np.sqrt(np.quantile(area, (0.1, 0.5, 0.9)))
        rows.append(("object sizes", f"{shares[0]:.0%} small, {shares[1]:.0%} medium, {shares[2]:.0%} large"))
        words = ", ".join(f"{side:.0f} px" for side in sides)
        rows.append(("side of objects", f"{words} (square root of the area; 10th, 50th and 90th percentile)"))
    return rows


def class_labels(dataset: Dataset) -> tuple[npt.NDArray[np.int64], str]:
    """Return all labels of a dataset, and the noun of what has them: "samples" or "objects"."""
    tasks = dataset.tasks
    if "label" in tasks:
        return dataset.labels, "samples"
    name = "label" if "labels" in tasks else "object_labels"
    if name not in dataset.columns:
        return np.zeros(0, np.int64), "samples"
    return _lists(dataset, name).values, "samples" if name == "label" else "objects"


def _lists(dataset: Dataset, name: str) -> ListColumn:
    return dataset.index.lists(name).take(dataset.rows)


_PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class _Lengths:
    """The tokens of one field."""

    tokens: int  # Tokens of all samples
    percentiles: dict[int, int]  # Length that this percentage of the samples do not exceed
    longest: int  # Largest number of tokens of a sample
    longest_key: str  # Key of the first sample with so many
    trained: int | None  # Tokens that a model is trained on; None if it is trained on all


def _lengths_of(dataset: Dataset) -> dict[str, _Lengths]:
    if dataset.manifest.sample_type != "text" or not len(dataset):
        return {}
    return {
        field: _lengths(dataset, field)
        for field in str(dataset.manifest.options.get("fields", "")).split(",")
    }


def _lengths(dataset: Dataset, field: str) -> _Lengths:
    lengths = dataset.column(length_column(field)).astype(np.int64)
    longest = int(lengths.argmax())
    trained = None
    if trained_column(field) in dataset.columns:
        runs = dataset.lists(trained_column(field), np.arange(len(dataset))).values.astype(np.int64)
        trained = int((runs[1::2] - runs[::2]).sum())
    return _Lengths(
        int(lengths.sum()), _percentiles(lengths), int(lengths[longest]), dataset.keys([longest])[0], trained
    )


def _percentiles(lengths: npt.NDArray[Any]) -> dict[int, int]:
    """The smallest length that this percentage of the samples do not exceed, and that a sample has."""
    values = np.percentile(lengths, _PERCENTILES, method="inverted_cdf").tolist()
    return dict(zip(_PERCENTILES, map(int, values), strict=True))


def _in_words(percentiles: dict[int, int]) -> str:
    return ", ".join(f"{percent} % up to {length:,}" for percent, length in percentiles.items())


def length_rows(dataset: Dataset) -> list[tuple[str, str]]:
    """Return name and value of each line about numbers of tokens."""
    rows = []
    for field, lengths in _lengths_of(dataset).items():
        longest = f"longest {lengths.longest:,} ({lengths.longest_key})"
        rows.append((f"tokens, {field}", f"{lengths.tokens:,}: {_in_words(lengths.percentiles)}, {longest}"))
        if lengths.trained is not None:
            share = lengths.trained / lengths.tokens
            rows.append((f"trained, {field}", f"{lengths.trained:,}, {share:.1%} of the tokens"))
    return rows + _caption_rows(dataset)


def _caption_rows(dataset: Dataset) -> list[tuple[str, str]]:
    """Return what is known of the captions beside images; nothing without captions."""
    if LENGTHS_COLUMN not in dataset.columns or not len(dataset):
        return []
    lengths = dataset.lists(LENGTHS_COLUMN, np.arange(len(dataset))).values
    shares, longest = _in_words(_percentiles(lengths)), int(lengths.max())
    return [("captions", f"{len(lengths):,} of {int(lengths.sum()):,} tokens: {shares}, longest {longest:,}")]


def lengths_json(dataset: Dataset) -> dict[str, Any]:
    """Return the numbers of tokens by field, under the name "tokens"; nothing for images."""
    found = {field: asdict(one) for field, one in _lengths_of(dataset).items()}
    return {"tokens": found} if found else {}


_CLASSES_SHOWN = 20


def summary_rows(dataset: Dataset) -> list[tuple[str, str]]:
    """Return name and value of each line of the summary."""
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
        rows[5:5] = _image_rows(dataset) + _annotation_rows(dataset)
    rows[5:5] = length_rows(dataset)
    chosen = [f"{name}={value}" for name, value in manifest.options.items() if value or name == "seed"]
    rows += [("options", ", ".join(chosen))] if chosen else []
    rows += [(f"skipped, {reason}", f"{count:,}") for reason, count in manifest.skipped.items()]
    return rows


def _image_rows(dataset: Dataset) -> list[tuple[str, str]]:
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
        *_restart_rows(dataset),
        *((f"array {name}", f"{one.dtype}, {_sides(one.shape)}") for name, one in dataset.arrays.items()),
    ]


def _sides(shape: tuple[int | None, ...]) -> str:
    return " x ".join("any" if side is None else str(side) for side in shape)


def _restart_rows(dataset: Dataset) -> list[tuple[str, str]]:
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


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    """Return the summary as JSON data; sizes are in bytes, heights and widths in pixels."""
    manifest = dataset.manifest
    arrays = {name: {"dtype": one.dtype, "shape": one.shape} for name, one in manifest.arrays.items()}
    described: dict[str, Any] = {
        "path": str(dataset.path),
        "kind": manifest.sample_type,
        "container": manifest.container,
        "version": manifest.version,
        "dataset_version": manifest.dataset_version,
        "fingerprint": dataset.fingerprint,
        "samples": len(dataset),
        "shards": len(manifest.shards),
        "bytes": sum(dataset.data_sizes),
        "tasks": sorted(dataset.tasks),
        "columns": dict(manifest.columns),
        **({"arrays": arrays} if arrays else {}),
        "classes": _classes(dataset),
        "options": dict(manifest.options),
        "skipped": dict(manifest.skipped),
    }
    if manifest.sample_type == "image" and len(dataset):
        codecs, counts = np.unique(dataset.column("codec"), return_counts=True)
        described["encodings"] = {
            Codec(code).name: count for code, count in zip(codecs.tolist(), counts.tolist(), strict=True)
        }
        described |= {name: _spread_json(dataset.column(name)) for name in ("height", "width", "length")}
    return {**described, **lengths_json(dataset)}


def _classes(dataset: Dataset) -> list[dict[str, str | int]]:
    """Return the name of each class, by label, and its number of samples or objects."""
    labels, what = class_labels(dataset)
    counts = np.bincount(labels, minlength=dataset.num_classes) if dataset.num_classes else ()
    named = zip(dataset.classes, counts, strict=False)
    return [{"name": name, what: int(count)} for name, count in named]


def _spread_json(values: npt.NDArray[Any]) -> dict[str, float]:
    return {"min": int(values.min()), "median": float(np.median(values)), "max": int(values.max())}


def report_json(report: Report) -> dict[str, Any]:
    """Return a report of a verification, and whether it found no problem."""
    return {"ok": report.ok, **asdict(report), "path": str(report.path)}
