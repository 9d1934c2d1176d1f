"""Names of classes in the records of external shards, and the contradictions among them.

Records name their class twice: by a number and by a name. Shards of two datasets may use one number for two
classes; then the number alone would give samples of one class the name of another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from stoker.errors import SourceError

from ..containers.image_record import ExternalSample, Label
from ..sources.classes import named_alike

Contradiction = tuple[int, int, str]
"""Shard and record whose class contradicts other records or the dataset's names, and a message."""


class ClassNames:
    """Collects the classes that records name, shard by shard."""

    def __init__(self, classes: Sequence[str] = ()) -> None:
        self.names: dict[int, str] = {}
        self._labels_of = defaultdict[str, set[int]](set)
        for label, name in enumerate(classes):
            self._labels_of[name].add(label)
        # The first record of each shard that has a number and name.
        self._seen = defaultdict[int, dict[tuple[int, str], int]](dict)
        # The labels of a name, joined where one shard has several of them.
        self._groups = defaultdict[str, list[set[int]]](list)
        self._first: dict[tuple[int, str], tuple[int, int]] = {}

    def see(self, shard: int, record: int, sample: ExternalSample) -> None:
        """Add the classes that a record names by a number and a name."""
        of_sample = [(sample.label, sample.text)] if isinstance(sample.label, int) and sample.text else []
        for pair in (*of_sample, *sample.named):
            self._seen[shard].setdefault(pair, record)

    def contradictions(self, shard: int) -> Iterator[Contradiction]:
        """Yield the contradictions of a shard whose records have all been seen, with it and earlier ones."""
        in_shard = defaultdict[str, set[int]](set)
        for (label, name), record in self._seen.pop(shard, {}).items():
            self._first.setdefault((label, name), (shard, record))
            in_shard[name].add(label)
            earlier = self.names.setdefault(label, name)
            if earlier != name:
                yield shard, record, f"label {label} is {name!r} here and {earlier!r} before"
            elif name in self._labels_of and label not in self._labels_of[name]:
                expected = min(self._labels_of[name])
                yield shard, record, f"label {label} is {name!r} here, which is class {expected}"
        for name, labels in in_shard.items():
            apart = [group for group in self._groups[name] if not group & labels]
            joined = labels.union(*(group for group in self._groups[name] if group & labels))
            self._groups[name] = [*apart, joined]

    def names_of_several_labels(self) -> Iterator[Contradiction]:
        """Yield a contradiction for each name that has one label in some shards and another in others."""
        # Two labels with one name in the same shard are two classes: ImageNet has two cranes.
        for name, groups in self._groups.items():
            if len(groups) > 1:
                labels = sorted(map(min, groups))
                words = f"{name!r} is label {labels[1]} here and label {labels[0]} in other shards"
                yield (*self._first[labels[1], name], words)


def check_class(label: int | str | float | None, classes: Sequence[str]) -> None:
    """Raise SourceError for a label that is not among the classes that the user names."""
    if label is None or isinstance(label, float):
        raise SourceError(
            "the record has no label, and classes are named",
            hint="Name the feature with the label, or name no classes.",
        )
    if isinstance(label, str) and label not in classes:
        raise SourceError(
            f"the record has the class {label!r}, which is not among the {len(classes)} named"
            f"{named_alike(label, classes)}",
            hint="Add its name to the classes, at the end so that other labels stay.",
        )
    if isinstance(label, int) and not 0 <= label < len(classes):
        raise SourceError(
            f"the record has label {label}, and {len(classes)} classes are named",
            hint="The first class has label 0: if labels count from 1, name a class for 0 as well.",
        )


def label_type_error(label: Label | None, before: type) -> SourceError:
    """Return the error about a label of another type than ``before``, the type of the earlier labels."""
    hint = None
    words = "no label" if label is None else "a label"
    if {type(label), before} == {int, str}:
        words = f"the {'name' if before is int else 'number'} {label} as its label"
    elif tuple in (type(label), before) and label is not None:
        words = "several labels" if isinstance(label, tuple) else "one label"
        hint = "With label_type several, every label is a list."
    return SourceError(f"the record has {words}, unlike those before it", hint=hint)
