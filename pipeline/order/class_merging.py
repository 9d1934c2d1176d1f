"""Checks that datasets can be mixed, and one list of classes for all of them; used by :mod:`.mixture`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError, DatasetError
from stoker.formats.dataset.annotations import AnnotationInfo
from stoker.formats.dataset.dataset import Dataset
from stoker.formats.dataset.manifest import Manifest
from stoker.formats.token_columns import IDS_COLUMN, trained_column

Int64 = npt.NDArray[np.int64]

# The options of a manifest that decide which text a sequence of ids is, by their names in errors.
_ENCODING: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "list of fields": lambda options: options.get("fields"),
    # One tokenizer can have two names, so the digest of its file identifies it.
    "tokenizer": lambda options: options.get("tokenizer_digest") or options.get("tokenizer"),
}


# The task of the annotations that a field of AnnotationInfo explains.
_TASKS = {
    "keypoints": "keypoints",
    "swap": "keypoints",
    "skeleton": "keypoints",
    "ignore": "segmentation",
    "mask_classes": "segmentation",
}
_LABELLED = {"label", "labels", "boxes"}  # tasks with classes


@dataclass(frozen=True, eq=False)
class MergedClasses:
    """The merged classes of several datasets; made by :func:`merge_classes`."""

    names: tuple[str, ...]  # Names of the merged classes, by label
    tables: tuple[Int64, ...] | None  # For each dataset (C,) int64, the merged label of each of its C classes

    def labels(self, number: int, labels: Int64, dataset: Dataset) -> Int64:
        """Return the merged labels, (M,) int64, of labels of a dataset."""
        # labels (M,) int64
        if self.tables is None:
            return labels
        table = self.tables[number]
        if labels.size and not 0 <= labels.min() <= labels.max() < len(table):
            raise DatasetError(
                f"labels go from {labels.min()} to {labels.max()}, but the dataset has {len(table)} classes",
                path=dataset.path,
                hint="Convert or index the dataset again with the names of all its classes.",
            )
        return table[labels]


def check_mixable(opened: Sequence[Dataset]) -> None:
    """Check that there are datasets, and that their samples, annotations and token ids have one meaning."""
    if not opened:
        raise ConfigError("a mixture needs at least one dataset")
    first = opened[0].manifest
    for dataset in opened:
        manifest = dataset.manifest
        if manifest.sample_type != first.sample_type:
            raise ConfigError(
                f"the datasets of a mixture hold {first.sample_type} and {manifest.sample_type}",
                path=dataset.path,
                hint="Mix datasets of images, or datasets of text.",
            )
        fields = _differing(opened[0], dataset)
        if fields:
            raise ConfigError(
                f"the annotations of the datasets have different meanings: {' and '.join(fields)} differ",
                path=dataset.path,
                hint=f"Convert both in the same way; the first is {opened[0].path}.",
            )
        differing = [name for name, of in _ENCODING.items() if of(manifest.options) != of(first.options)]
        has_ids = manifest.sample_type == "text"
        has_ids |= IDS_COLUMN in manifest.columns and IDS_COLUMN in first.columns
        if has_ids and differing:
            raise ConfigError(
                f"the datasets of a mixture differ in {' and '.join(differing)}, so a token id would have "
                "two meanings",
                path=dataset.path,
                hint="Convert both with the same fields and the same tokenizer, which each dataset has as "
                "tokenizer.json.",
            )
        if _states_trained_tokens(manifest) != _states_trained_tokens(first):
            raise ConfigError(
                "one dataset of the mixture states which tokens a model is trained on, and another does not",
                path=dataset.path,
                hint="Convert both with train_on (--train-on), or both without it.",
            )


def _differing(first: Dataset, second: Dataset) -> list[str]:
    """Names of the fields of AnnotationInfo that differ, among the tasks that both datasets have."""
    common = first.tasks & second.tasks
    names = [name for name, task in _TASKS.items() if task in common]
    infos = first.manifest.annotations, second.manifest.annotations
    return [name for name in names if getattr(infos[0], name) != getattr(infos[1], name)]


def common_info(datasets: Sequence[Dataset]) -> AnnotationInfo:
    """Return the meaning of the annotations that all datasets have."""
    common = frozenset.intersection(*(dataset.tasks for dataset in datasets))
    info, plain = datasets[0].manifest.annotations, AnnotationInfo()
    lost = {name: getattr(plain, name) for name, task in _TASKS.items() if task not in common}
    return info if len(datasets) == 1 else replace(info, **lost)


def _states_trained_tokens(manifest: Manifest) -> bool:
    """Whether the index says which tokens of a text a model is trained on."""
    fields_of_text = str(manifest.options.get("fields", "")).split(",")
    return any(trained_column(field) in manifest.columns for field in fields_of_text)


def merge_classes(datasets: Sequence[Dataset]) -> MergedClasses:
    """Merge the classes of datasets by name. The labels of the first dataset do not change."""
    # If samples and objects of all have no labels in common, there are no classes.
    lists = [dataset.classes for dataset in datasets]
    if all(names == lists[0] for names in lists):
        return MergedClasses(lists[0], None)
    tasks = frozenset.intersection(*(dataset.tasks for dataset in datasets))
    if not tasks & _LABELLED and any(dataset.tasks for dataset in datasets):
        return MergedClasses((), None)  # no column has classes
    for dataset, names in zip(datasets, lists, strict=True):
        repeated = [name for name, times in Counter(names).items() if times > 1]
        if not names or repeated:
            what = f"has the name {repeated[0]!r} for two classes" if repeated else "has no names of classes"
            raise ConfigError(
                f"the datasets of a mixture have different classes, which are merged by name, and one {what}",
                path=dataset.path,
                hint="Convert or index the dataset again with a different name for each class.",
            )
    merged = tuple(dict.fromkeys(name for names in lists for name in names))
    number = {name: label for label, name in enumerate(merged)}
    return MergedClasses(
        merged, tuple(np.array([number[name] for name in names], np.int64) for names in lists)
    )
