"""Checks that labels and names of classes match, which verify() runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stoker.errors import ConfigError, StokerError

from ..containers.base import Record
from ..containers.image_record import FeatureNames, LeftOutError
from ..containers.registry import find_container
from ..dataset.index import Index
from ..dataset.manifest import Manifest
from ..in_place.class_names import ClassNames, Contradiction, LabelName, names_in


def label_problems(index: Index, rows: range, manifest: Manifest) -> Iterator[tuple[int, str]]:
    """Yield the index in ``rows``, and the problem, of each row with a label that is not a class."""
    classes = len(manifest.classes)
    arrow_type = index.types.get("label", "")
    if not classes:
        return
    if arrow_type == "int64":
        labels = index.column("label")[rows.start : rows.stop]
        owner = np.arange(len(rows))
    elif arrow_type.startswith("large_list"):
        try:
            lists = index.lists("label").take(np.arange(rows.start, rows.stop))
        except ValueError as error:
            yield 0, f"the labels in the index are damaged: {error}"
            return
        labels, owner = lists.values, np.repeat(np.arange(len(rows)), lists.counts)
    else:
        return
    for i in np.flatnonzero((labels < 0) | (labels >= classes)):
        yield int(owner[i]), f"label {labels[i]} is none of the {classes} classes"


class RecordClasses:
    """The classes that the records of external shards name; several threads add to it.

    Stoker's own records repeat what the index says. Records of other programs may contradict it.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._container = find_container(manifest.container)
        self._is_enabled = manifest.options.get("made_by") == "index"
        self._names = _names(manifest) if self._is_enabled else FeatureNames()
        self._classes = manifest.classes
        self._seen: dict[int, dict[LabelName, int]] = {}

    def add(self, shard: int, record: Record) -> None:
        """Add the class of a record of the shard with this number."""
        if not self._is_enabled:
            return
        try:
            sample = self._container.parse_image(record, self._names)
        except (StokerError, LeftOutError):  # it is not in the index, or the check of its payload reports it
            return
        for label_name in names_in(sample):
            self._seen.setdefault(shard, {}).setdefault(label_name, record.number)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the contradictions, in the order of shards, once all records are added."""
        names = ClassNames(self._classes)
        for shard in sorted(self._seen):
            yield from names.add(shard, self._seen[shard])
        yield from names.names_of_several_labels()


def _names(manifest: Manifest) -> FeatureNames:
    """Return the feature names that the dataset was indexed with; the defaults if the manifest has none."""
    try:
        return FeatureNames.from_manifest(manifest.options)
    except ConfigError:
        return FeatureNames()
