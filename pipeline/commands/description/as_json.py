"""Descriptions of a dataset and of its verification for programs, as values that JSON has."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.formats.codecs.codec import Codec
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.verify import Report

from .annotations import class_labels
from .sequence_lengths import lengths_json


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    """Return the facts of the manifest and the index; sizes are in bytes, heights and widths in pixels."""
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
        described |= {name: _spread(dataset.column(name)) for name in ("height", "width", "length")}
    return {**described, **lengths_json(dataset)}


def _classes(dataset: Dataset) -> list[dict[str, str | int]]:
    """Return the name of each class, by label, and its number of samples or objects."""
    labels, what = class_labels(dataset)
    counts = np.bincount(labels, minlength=dataset.num_classes) if dataset.num_classes else ()
    named = zip(dataset.classes, counts, strict=False)
    return [{"name": name, what: int(count)} for name, count in named]


def _spread(values: npt.NDArray[Any]) -> dict[str, float]:
    return {"min": int(values.min()), "median": float(np.median(values)), "max": int(values.max())}


def report_json(report: Report) -> dict[str, Any]:
    """Return a report of a verification, and whether it found no problem."""
    return {"ok": report.ok, **asdict(report), "path": str(report.path)}
