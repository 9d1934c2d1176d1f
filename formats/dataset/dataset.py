"""Datasets: samples in shards, with their manifest and index; ``stoker.open`` returns one."""

from __future__ import annotations

import hashlib
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from stoker.errors import ConfigError

from .sample import read_sample
from .selection.class_names import class_numbers, has_class
from .selection.positions import in_first_part, selected_positions
from .stored_samples import StoredSamples
from .tokenizer_file import read_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow.compute as pc

    from .sample import Sample

__all__ = ["Dataset"]


class Dataset(StoredSamples):
    """Samples in shards, in the order of their index; after :meth:`select`, some of them.

    Attributes:
        path: The dataset's folder.
        manifest: The content of ``dataset.json``.
        data_files: Absolute path of every shard's data file, by the index column ``shard``.
    """

    def __getitem__(self, position: int) -> Sample:
        """Return one sample with its image decoded; loops and ``DataLoader`` of PyTorch take a dataset so.

        Raises:
            IndexError: There is no such position.
            DatasetError: The dataset holds text.
            CorruptRecordError: The bytes are not those that were written.
            DecodeError: The image cannot be decoded.
        """
        return read_sample(self, int(position))

    def __repr__(self) -> str:
        return f"<Dataset {str(self.path)!r}: {len(self)} samples of {len(self.classes)} classes>"

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """The dataset itself; a mixture has several here."""
        return (self,)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, by label."""
        return self.manifest.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Number of each class by its name, as torchvision has it; of two classes of one name the first."""
        numbers: dict[str, int] = {}
        for number, name in enumerate(self.classes):
            numbers.setdefault(name, number)
        return numbers

    @property
    def targets(self) -> list[int]:
        """The class of every sample, as datasets of torchvision have it; :attr:`labels` is the array."""
        targets: list[int] = self.labels.tolist()
        return targets

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 where the dataset has none."""
        return len(self.classes)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the index's columns."""
        return tuple(self.manifest.columns)

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """(N,) int64: the class of every sample."""
        return self.column("label")

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that name these samples in this order, for checkpoints."""
        if self._rows is None:
            return self.manifest.fingerprint
        return hashlib.sha256(self.manifest.fingerprint.encode() + self._rows.tobytes()).hexdigest()[:32]

    def select(
        self,
        which: npt.ArrayLike | str | pc.Expression | None = None,
        *,
        classes: str | Sequence[str] | None = None,
    ) -> Dataset:
        """Return a dataset of some of the samples; shards are not touched.

        Classes keep their numbers, also if only some are left.

        Args:
            which: (N,) bool, a mask; or (M,) integers, positions in any order, repeats allowed; or
                a condition on the index's columns, of PyArrow (``pc.field("label") < 10``) or in words
                (``"label < 10 and width >= 224"``, see :mod:`stoker.formats.dataset.selection.select`). None
                for all samples.
            classes: Names of classes. A sample must also have one of them, as a label.

        Raises:
            ConfigError: The mask or the positions do not fit, or the condition is invalid for this index, or
                there is no such class.
        """
        if which is None and classes is None:
            raise ConfigError("select needs a condition, positions, a mask or classes")
        selection = self if which is None else self._select(which)
        if classes is None:
            return selection
        numbers = class_numbers(self.classes, classes)
        if "label" in self.tasks:
            return selection._select(np.isin(selection.labels, numbers))
        if "labels" in self.tasks:
            return selection._select(has_class(selection.lists("label", np.arange(len(selection))), numbers))
        raise ConfigError(
            "the samples have no labels, by which classes= could choose them",
            path=self.path,
            hint="Give a condition on the columns of the index, a mask, or positions.",
        )

    def _select(self, which: npt.ArrayLike | str | pc.Expression) -> Dataset:
        selection = copy(self)
        selection._rows = self._to_rows(selected_positions(self.index, self.rows, which))
        return selection

    def split(self, fraction: float, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Return two datasets, the first with about ``fraction`` of the samples.

        The part of a sample depends on its key and the seed alone: it stays the same when other samples are
        added or removed.

        Raises:
            ConfigError: ``fraction`` is not from 0 to 1.
        """
        if not 0 <= fraction <= 1:
            raise ConfigError(f"fraction must be from 0 to 1, not {fraction}")
        first = in_first_part(self.keys(np.arange(len(self))), fraction, seed)
        return self.select(first), self.select(~first)

    def tokenizer_file(self) -> bytes:
        """Return the content of ``tokenizer.json``, of a dataset of text.

        Raises:
            DatasetError: There is no such file, or it cannot be read.
        """
        return read_tokenizer(self.path)
