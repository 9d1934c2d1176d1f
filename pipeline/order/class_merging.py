"""Whether datasets go together, and their classes as one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker.errors import ConfigError, DatasetError
from stoker.formats.dataset.annotations import AnnotationInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from stoker.formats.dataset.dataset import Dataset

    Int64 = npt.NDArray[np.int64]

__all__ = ["MergedClasses", "check_together", "merge_classes"]

# What says which text a sequence of ids is, from a manifest's options.
_ENCODING: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "list of fields": lambda options: options.get("fields"),
    # A tokenizer with a file may have been named in two ways: by how it was made, and by the file.
    "tokenizer": lambda options: options.get("tokenizer_digest") or options.get("tokenizer"),
}


@dataclass(frozen=True, eq=False)
class MergedClasses:
    """Classes of several datasets; made by :func:`merge_classes`.

    Attributes:
        names: Of all classes, by joined label.
        tables: Of each dataset, (C,) int64, the joined label of each of its C classes; None where all have
            the same classes.
    """

    names: tuple[str, ...]
    tables: tuple[Int64, ...] | None

    def labels(self, number: int, labels: Int64, dataset: Dataset) -> Int64:
        """The joined labels of labels, (N,) int64, of dataset ``number``.

        Raises:
            DatasetError: A label is no class.
        """
        if self.tables is None:
            return labels
        table = self.tables[number]
        if labels.size and not 0 <= labels.min() <= labels.max() < len(table):
            raise DatasetError(
                f"labels go from {labels.min()} to {labels.max()}, and there are {len(table)} classes",
                path=dataset.path,
                hint="Convert or index it with the names of all its classes.",
            )
        return table[labels]


def check_together(opened: Sequence[Dataset]) -> None:
    """ConfigError where there is no dataset, or they are of different kinds or mean two things by one."""
    if not opened:
        raise ConfigError("a mixture needs at least one dataset")
    first = opened[0].manifest
    for dataset in opened:
        manifest = dataset.manifest
        if manifest.sample_type != first.sample_type:
            raise ConfigError(
                f"a mixture is of one kind, not {first.sample_type} and {manifest.sample_type}",
                path=dataset.path,
            )
        other = [
            item.name
            for item in fields(AnnotationInfo)
            if getattr(manifest.annotations, item.name) != getattr(first.annotations, item.name)
        ]
        if other:
            raise ConfigError(
                f"the annotations of the datasets mean two things: {' and '.join(other)} differ",
                path=dataset.path,
                hint=f"Convert both alike; the first is {opened[0].path}.",
            )
        differing = [name for name, of in _ENCODING.items() if of(manifest.options) != of(first.options)]
        if manifest.sample_type == "text" and differing:
            raise ConfigError(
                f"the datasets of a mixture have another {' and '.join(differing)}, so that a token id would "
                "mean two things",
                path=dataset.path,
                hint="Convert both with the same fields and one tokenizer; a dataset has its own as "
                "tokenizer.json.",
            )


def merge_classes(datasets: Sequence[Dataset]) -> MergedClasses:
    """Join the classes of datasets, by name. Labels of the first dataset stay what they are.

    Raises:
        ConfigError: Only some of the datasets have names of classes, or one has a name twice, and they are
            not all the same.
    """
    lists = [dataset.classes for dataset in datasets]
    if all(names == lists[0] for names in lists):
        return MergedClasses(lists[0], None)
    for dataset, names in zip(datasets, lists, strict=True):
        repeated = [name for name, times in Counter(names).items() if times > 1]
        if not names or repeated:
            what = f"has the name {repeated[0]!r} for two classes" if repeated else "has no names of classes"
            raise ConfigError(
                f"the datasets of a mixture have different classes, which are joined by name, and one {what}",
                path=dataset.path,
                hint="Convert or index it with names of its own for all classes.",
            )
    joined = tuple(dict.fromkeys(name for names in lists for name in names))
    number = {name: label for label, name in enumerate(joined)}
    return MergedClasses(
        joined, tuple(np.array([number[name] for name in names], np.int64) for names in lists)
    )
