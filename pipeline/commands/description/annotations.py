"""Descriptions of the annotations of a dataset, as text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stoker.formats.dataset.columns import ListColumn
from stoker.formats.dataset.dataset import Dataset

# Largest areas in pixels of small and of medium objects in the evaluation of COCO (pycocotools,
# Params.areaRng).
_SMALL, _MEDIUM = 32**2, 96**2


def annotation_facts(dataset: Dataset) -> list[tuple[str, str]]:
    """Return name and value of each fact about objects and masks; none where there are no annotations."""
    tasks = dataset.tasks
    rows = [("tasks", ", ".join(sorted(tasks)))] if tasks - {"label"} else []
    if "boxes" in tasks:
        rows += _object_facts(dataset)
    info = dataset.manifest.annotations
    if info.keypoints:
        rows.append(("keypoints", f"{len(info.keypoints)}: {', '.join(info.keypoints)}"))
    if "segmentation" in tasks:
        lengths = dataset.column("mask_length")
        ignored = "" if info.ignore is None else f"; value {info.ignore} is ignored"
        rows.append(("masks", f"{len(lengths):,}, median {np.median(lengths):,.0f} bytes{ignored}"))
    return rows


def _object_facts(dataset: Dataset) -> list[tuple[str, str]]:
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
