"""Samples of a selection with some of the classes, or some of the objects, of its dataset."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..columns.annotations import Annotations
from ..columns.list_column import ListColumn
from ..reading.stored_samples import StoredSamples
from .classes import Numbering
from .object_choice import ObjectChoice, objects_matching


def _object_indexes(owner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return (M,) int64, the index of each object within its image; owners ascend."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)


_Samples = TypeVar("_Samples", bound="ChosenSamples")


class ChosenSamples(StoredSamples):
    """Stored samples with the new numbers of classes, and only the objects, of a selection."""

    _numbering: Numbering | None = None
    _objects: ObjectChoice | None = None
    _object_index: npt.NDArray[np.int64] | None = None
    """(N,) int64, the index of each sample's object in its image, if samples are objects; otherwise None."""

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the (N,) values of an index column of numbers."""
        return self._numbered(name, super().column(name))

    def values(self, name: str, positions: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the (M,) values of an index column of numbers for samples at ``positions``."""
        return self._numbered(name, super().values(name, positions))

    def lists(self, name: str, positions: npt.ArrayLike) -> ListColumn:
        """Return the lists of M samples in an index column of lists, such as several labels a sample.

        Raises:
            StaleIndexError: A list lies beyond the column, because the index is damaged.
        """
        if name == "object_labels" and (self._objects or self._numbering or self._object_index is not None):
            objects, n = self.annotations(positions, ()), np.size(np.asarray(positions))
            return ListColumn.of_counts(np.bincount(objects.owner, minlength=n), objects.labels)
        lists = super().lists(name, positions)
        return lists if self._numbering is None or name != "label" else self._numbering.of_lists(lists)

    def annotations(self, positions: npt.ArrayLike, parts: Collection[str] | None = None) -> Annotations:
        """See :meth:`StoredSamples.annotations`; only the objects of the selection are returned."""
        objects = super().annotations(positions, parts)
        if self._objects is not None:
            objects = objects.take(self._objects.of_rows(self._to_rows(positions)))
        if self._numbering is not None:
            labels = self._numbering.of_labels(objects.labels)
            objects = replace(objects, labels=labels).take(labels >= 0)
        if self._object_index is None:
            return objects
        chosen = self._object_index[np.asarray(positions, np.int64)]
        return objects.take(_object_indexes(objects.owner) == chosen[objects.owner])

    def repeat_factors(self, threshold: float = 0.001) -> npt.NDArray[np.float64]:
        """Return a weight for each image, so that rare classes of objects are drawn more often.

        This is the repeat-factor sampling of LVIS (Gupta et al., "LVIS", CVPR 2019). A class in a share f of
        the images has the factor max(1, sqrt(threshold / f)). An image has the largest factor of its objects.
        :class:`stoker.Weighted` takes the factors as weights.

        Args:
            threshold: Share of the images below which a class counts as rare.

        Returns:
            (N,) float64, from 1; 1 for an image without objects.

        Raises:
            ConfigError: The dataset has no objects, or ``threshold`` is not above 0 and at most 1.
        """
        self._check_has_objects("repeat_factors")
        if not 0 < threshold <= 1:
            raise ConfigError(f"threshold must be a share above 0 and at most 1, not {threshold!r}")
        n, objects = len(self), self.annotations(np.arange(len(self)), ())
        pairs = np.unique(np.stack((objects.labels, objects.owner)), axis=1)
        images = np.bincount(pairs[0]) if len(objects) else np.zeros(0)
        factors = np.ones(n)
        of_class = np.sqrt(threshold * n / np.maximum(images, 1))
        np.maximum.at(factors, pairs[1], of_class[pairs[0]])
        return factors

    def _each_object(self: _Samples) -> _Samples:
        """Return a sample for each object, in the order of the samples."""
        self._check_has_objects("each=")
        owner = self.annotations(np.arange(len(self)), ()).owner
        selection = copy(self)
        selection._rows, selection._object_index = self.rows[owner], _object_indexes(owner)
        return selection

    def _numbered(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self._numbering is None or name != "label" else self._numbering.of_labels(values)

    def _with_objects(self: _Samples, rule: str) -> _Samples:
        """Return all samples with the objects that meet a rule."""
        self._check_has_objects("objects=")
        if not isinstance(rule, str):
            raise ConfigError(f"objects must be a condition in words, not {type(rule).__name__}")
        if self._numbering is not None:
            raise self._renumbered()
        selection = copy(self)
        keypoints = len(self.manifest.annotations.keypoints)
        selection._objects = objects_matching(self.index, keypoints, rule, self._objects)
        selection._rows = self.rows
        return selection

    def _check_has_objects(self, name: str) -> None:
        if "boxes" not in self.tasks:
            raise ConfigError(f"{name} is for objects, and the dataset has none", path=self.path)

    def _renumbered(self) -> ConfigError:
        return ConfigError(
            "a condition compares labels of the index, but the labels of this selection are renumbered",
            hint="give both at once: select(condition, classes=..., renumber=True)",
        )
