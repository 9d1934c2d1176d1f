"""The summary of a dataset, as lines, tables and JSON, for ``stoker info`` and the dataset's card."""

from __future__ import annotations

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


def class_counts(dataset: Dataset) -> tuple[list[int], str]:
    """The number of samples, or of objects, of each class; and which of them: "samples" or "objects"."""
    tasks = dataset.tasks
    name = "label" if {"label", "labels"} & tasks else "object_labels"
    if name not in dataset.columns or not dataset.classes:
        return [0] * len(dataset.classes), "samples"
    labels = dataset.labels if "label" in tasks else _lists(dataset, name).values
    counts = np.bincount(labels, minlength=dataset.num_classes)
    return counts.tolist(), "samples" if name == "label" else "objects"


def _lists(dataset: Dataset, name: str) -> ListColumn:
    return dataset.index.lists(name).take(dataset.rows)


_PERCENTILES = (50, 90, 99)


def _lengths_of(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """The tokens of each field of a dataset of text, as JSON has them."""
    if dataset.manifest.sample_type != "text" or not len(dataset):
        return {}
    found = {}
    for field in str(dataset.manifest.options.get("fields", "")).split(","):
        lengths = dataset.column(length_column(field)).astype(np.int64)
        longest, trained = int(lengths.argmax()), None
        if trained_column(field) in dataset.columns:
            runs = dataset.lists(trained_column(field), np.arange(len(dataset))).values.astype(np.int64)
            trained = int((runs[1::2] - runs[::2]).sum())
        found[field] = {
            "tokens": int(lengths.sum()),
            "percentiles": _percentiles(lengths),
            "longest": int(lengths[longest]),
            "longest_key": dataset.keys([longest])[0],
            "trained": trained,  # None if a model is trained on all
        }
    return found


def _percentiles(lengths: npt.NDArray[Any]) -> dict[int, int]:
    """The smallest length that this percentage of the samples do not exceed, and that a sample has."""
    values = np.percentile(lengths, _PERCENTILES, method="inverted_cdf").tolist()
    return dict(zip(_PERCENTILES, map(int, values), strict=True))


def _in_words(percentiles: dict[int, int]) -> str:
    return ", ".join(f"{percent} % up to {length:,}" for percent, length in percentiles.items())


def _length_rows(dataset: Dataset) -> list[tuple[str, str]]:
    """The lines about numbers of tokens, of texts and of the captions of images."""
    rows = []
    for field, one in _lengths_of(dataset).items():
        tokens, longest = one["tokens"], f"longest {one['longest']:,} ({one['longest_key']})"
        rows.append((f"tokens, {field}", f"{tokens:,}: {_in_words(one['percentiles'])}, {longest}"))
        if (trained := one["trained"]) is not None:
            rows.append((f"trained, {field}", f"{trained:,}, {trained / tokens:.1%} of the tokens"))
    if LENGTHS_COLUMN in dataset.columns and len(dataset):
        lengths = dataset.lists(LENGTHS_COLUMN, np.arange(len(dataset))).values
        total, shares = int(lengths.sum()), _in_words(_percentiles(lengths))
        text = f"{len(lengths):,} of {total:,} tokens: {shares}, longest {int(lengths.max()):,}"
        rows.append(("captions", text))
    return rows


_CLASSES_SHOWN = 20


def summary_rows(dataset: Dataset) -> list[tuple[str, str]]:
    """Return name and value of each line of the summary."""
    manifest = dataset.manifest
    in_files = find_container(manifest.container).payload_files is not None
    total = int(dataset.column("length").sum()) if in_files else sum(dataset.data_sizes)
    unnamed = ", numbers without names" if dataset.num_classes and not dataset.classes else ""
    rows = [
        ("path", str(dataset.path)),
        ("kind", f"{manifest.sample_type} in {manifest.container}, format {manifest.version}"),
        ("samples", f"{len(dataset):,}"),
        ("files", f"{len(dataset):,}, {human_bytes(total)}")
        if in_files
        else ("shards", f"{len(manifest.shards):,}, {human_bytes(total)}"),
        ("classes", f"{dataset.num_classes:,}{unnamed}"),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in manifest.columns.items())),
        ("fingerprint", dataset.fingerprint),
        *([("version", str(manifest.dataset_version))] if manifest.dataset_version > 1 else []),
    ]
    if manifest.sample_type == "image" and len(dataset):
        rows[5:5] = _image_rows(dataset) + _annotation_rows(dataset)
    rows[5:5] = _length_rows(dataset)
    options = {name: value for name, value in manifest.options.items() if name != "tokenizer_settings"}
    chosen = [f"{name}={value}" for name, value in options.items() if value or name == "seed"]
    rows += [("options", ", ".join(chosen))] if chosen else []
    rows += [(f"skipped, {reason}", f"{count:,}") for reason, count in manifest.skipped.items()]
    return rows


def _image_rows(dataset: Dataset) -> list[tuple[str, str]]:
    names = ", ".join(f"{name} {count:,}" for name, count in _codecs(dataset).items())
    turned = int((dataset.column("orientation") > 1).sum())
    rows = [
        ("encoding", names + (f"; {turned:,} with an EXIF orientation" if turned else "")),
        ("height", _spread(dataset.column("height"), " px")),
        ("width", _spread(dataset.column("width"), " px")),
        ("bytes per sample", _spread(dataset.column("length"))),
    ]
    if "jpeg_bands" in dataset.columns:  # the dataset was made with restart markers
        marked = np.count_nonzero(dataset.index.lists("jpeg_bands").counts[dataset.rows])
        rows.append(("restart markers", f"in {marked:,} of {len(dataset):,} images"))
    for name, one in dataset.arrays.items():
        sides = " x ".join("any" if side is None else str(side) for side in one.shape)
        rows.append((f"array {name}", f"{one.dtype}, {sides}"))
    return rows


def _codecs(dataset: Dataset) -> dict[str, int]:
    codecs, counts = np.unique(dataset.column("codec"), return_counts=True)
    return {Codec(code).name: count for code, count in zip(codecs.tolist(), counts.tolist(), strict=True)}


def _spread(values: npt.NDArray[Any], unit: str = "") -> str:
    low, middle, high = int(values.min()), int(np.median(values)), int(values.max())
    return f"{low:,} to {high:,}{unit}, median {middle:,}"


def class_table(dataset: Dataset) -> Table:
    """A table with the number of samples or objects of each of the first classes."""
    counts, what = class_counts(dataset)
    rows = table("class", "label", what)
    for label, name in enumerate(dataset.classes[:_CLASSES_SHOWN]):
        rows.add_row(plain(name), str(label), f"{counts[label]:,}")
    if dataset.num_classes > _CLASSES_SHOWN:
        more = dataset.num_classes - _CLASSES_SHOWN
        rows.add_row(f"and {more:,} more", "", f"{sum(counts[_CLASSES_SHOWN:]):,}")
    return rows


def gain_table(gains: list[Gain]) -> Table:
    """Return a table of what conversions would gain; the first row is of the images in place."""
    rows = table("random crops of 224 pixels", "images/s", "times", "all images")
    for gain in gains:
        times = gain.images_per_second / gains[0].images_per_second
        rows.add_row(gain.form, f"{gain.images_per_second:,.0f}", f"{times:.2f}", human_bytes(gain.bytes))
    return rows


def version_rows(versions: list[Version]) -> list[tuple[str, ...]]:
    """The titles and the rows of a table of the versions of a dataset."""
    rows: list[tuple[str, ...]] = [("change", "version", "time", "samples", "added", "left out")]
    for one in versions:
        numbers = (f"{number:,}" for number in (one.samples, one.added, one.removed))
        rows.append((one.change, str(one.version), one.time or "not known", *numbers))
    return rows


def version_table(versions: list[Version]) -> Table:
    """A table of the versions of a dataset."""
    titles, *lines = version_rows(versions)
    rows = table(*titles)
    for line in lines:
        rows.add_row(*map(plain, line))
    return rows


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    """Return the summary as JSON data; sizes are in bytes, heights and widths in pixels."""
    manifest = dataset.manifest
    counts, what = class_counts(dataset)
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
        "classes": [{"name": name, what: count} for name, count in zip(dataset.classes, counts, strict=True)],
        "options": dict(manifest.options),
        "skipped": dict(manifest.skipped),
        **({"tokens": tokens} if (tokens := _lengths_of(dataset)) else {}),
    }
    if manifest.sample_type == "image" and len(dataset):
        described["encodings"] = _codecs(dataset)
        for name in ("height", "width", "length"):
            values = dataset.column(name)
            numbers = {"min": int(values.min()), "median": float(np.median(values)), "max": int(values.max())}
            described[name] = numbers
    return described
