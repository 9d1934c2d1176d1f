"""Names of classes in the records of external shards, and the contradictions among them.

Records name their class twice: by a number and by a name. Shards of two datasets may use one number for two
classes; then the number alone would give samples of one class the name of another.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["ClassNames", "Contradiction", "LabelName"]


class LabelName(NamedTuple):
    """The number and the name of a class in a record."""

    label: int
    name: str


class Contradiction(NamedTuple):
    """A record whose class contradicts other records, or the names that the dataset gives its classes.

    Attributes:
        shard: Position of the shard.
        record: Position of the record in the shard.
        message: The contradiction.
    """

    shard: int
    record: int
    message: str


class ClassNames:
    """Collects the classes that records name, shard by shard.

    Attributes:
        names: Name of each label.

    Args:
        classes: Names of the classes by label, if the user or a manifest gives them. Records may use other
            names, but none of these for another label.
    """

    def __init__(self, classes: Sequence[str] = ()) -> None:
        self.names: dict[int, str] = {}
        self._labels_of = defaultdict[str, set[int]](set)
        for label, name in enumerate(classes):
            self._labels_of[name].add(label)
        # The labels of a name, joined where one shard has several of them.
        self._groups = defaultdict[str, list[set[int]]](list)
        self._first: dict[LabelName, tuple[int, int]] = {}

    def add(self, shard: int, seen: Mapping[LabelName, int]) -> Iterator[Contradiction]:
        """Add the classes of a shard, and yield those that contradict the classes or earlier records.

        Args:
            shard: Position of the shard.
            seen: Each class in the shard, with the position of the first record that has it.
        """
        in_shard = defaultdict[str, set[int]](set)
        for (label, name), record in seen.items():
            self._first.setdefault(LabelName(label, name), (shard, record))
            in_shard[name].add(label)
            known = self.names.setdefault(label, name)
            if known != name:
                yield Contradiction(shard, record, f"label {label} is {name!r} here and {known!r} before")
            elif name in self._labels_of and label not in self._labels_of[name]:
                right = min(self._labels_of[name])
                yield Contradiction(shard, record, f"label {label} is {name!r} here, which is class {right}")
        for name, labels in in_shard.items():
            apart = [group for group in self._groups[name] if not group & labels]
            joined = labels.union(*(group for group in self._groups[name] if group & labels))
            self._groups[name] = [*apart, joined]

    def names_of_several_labels(self) -> Iterator[Contradiction]:
        """Yield a contradiction for each name that has one label in some shards and another in others.

        Two labels with one name in the same shard are two classes: ImageNet has two cranes.
        """
        for name, groups in self._groups.items():
            if len(groups) > 1:
                labels = sorted(map(min, groups))
                shard, record = self._first[LabelName(labels[1], name)]
                words = f"{name!r} is label {labels[1]} here and label {labels[0]} in other shards"
                yield Contradiction(shard, record, words)
