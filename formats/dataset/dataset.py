"""Datasets: samples in shards, with their manifest and index; ``stoker.open`` returns one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stoker.errors import ConfigError

from .manifest import read_tokenizer
from .reading.sample import Sample, read_sample
from .selection.chosen_samples import ChosenSamples
from .selection.classes import Numbering, class_numbers, has_class
from .selection.positions import in_first_part, in_first_part_of_each, selected_positions


class Dataset(ChosenSamples):
    """Samples in shards, in the order of their index; after :meth:`select`, some of them.

    Attributes:
        path: The dataset's folder.
        manifest: The content of ``dataset.json``.
        data_files: Absolute path of every shard's data file, by the index column ``shard``.
    """

    def __getitem__(self, position: int) -> Sample:
        """Return one sample with its image decoded, for loops and for PyTorch's ``DataLoader``."""
        return read_sample(self, int(position))

    def __repr__(self) -> str:
        return f"<Dataset {self.address!r}: {len(self)} samples of {len(self.classes)} classes>"

    @property
    def address(self) -> str:
        """The dataset's folder, or its URL without credentials if a cache holds parts of the dataset."""
        return str(self.path)

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """The dataset itself; a mixture has several."""
        return (self,)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, by label."""
        return self.manifest.classes if self._numbering is None else self._numbering.classes

    @property
    def category_ids(self) -> tuple[int | str, ...]:
        """The source's id of each class, as in COCO; -1 for a class without one, empty without any."""
        ids = self.manifest.category_ids
        return ids if self._numbering is None or not ids else tuple(ids[i] for i in self._numbering.numbers)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Number of each class by its name, as in torchvision; the first of two classes with one name."""
        numbers: dict[str, int] = {}
        for number, name in enumerate(self.classes):
            numbers.setdefault(name, number)
        return numbers

    @property
    def targets(self) -> list[int]:
        """The class of every sample as a list, as in torchvision; :attr:`labels` is the array."""
        targets: list[int] = self.labels.tolist()
        return targets

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 if the dataset has none."""
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
        """32 hexadecimal digits that identify these samples in this order, for checkpoints."""
        if self._rows is None:
            return self.manifest.fingerprint
        numbers = b"" if self._numbering is None else b"numbers" + self._numbering.numbers.tobytes()
        numbers += b"" if self._objects is None else repr(self._objects.rules).encode()
        numbers += b"" if self._object_index is None else b"each" + self._object_index.tobytes()
        identity = self.manifest.fingerprint.encode() + self._rows.tobytes() + numbers
        return hashlib.sha256(identity).hexdigest()[:32]

    def select(
        self,
        which: npt.ArrayLike | str | pc.Expression | None = None,
        *,
        where: str | pc.Expression | None = None,
        classes: str | Sequence[str] | None = None,
        renumber: bool = False,
        objects: str | None = None,
        has: str | Sequence[str] | None = None,
        each: Literal["object"] | None = None,
    ) -> Dataset:
        """Return a dataset of some of the samples; shards are not touched.

        Classes keep their numbers even if only some remain, unless ``renumber`` gives them new ones.
        ``objects`` leaves out objects, but no sample; the other arguments apply to the objects that remain.

        Args:
            which: (N,) bool, a mask; or (M,) integers, positions in any order, repeats allowed; or
                a condition on the index's columns, of PyArrow (``pc.field("label") < 10``) or in words
                (``"label < 10 and width >= 224"``, see :mod:`stoker.formats.dataset.selection.select`). None
                for all samples.
            where: A condition, in the same form, that samples must also meet; ``num_objects`` in it is the
                number of objects of an image.
            classes: Names of classes. A sample must also have one of them, as a label or, if samples have no
                labels, as the class of an object.
            renumber: Whether the selection has only these classes, numbered from 0 in the order of
                ``classes``. Other objects, and other labels of a sample with several, are left out.
            objects: A condition that each object must meet, such as ``"not crowd and area >= 16"``, see
                :func:`stoker.formats.dataset.selection.object_choice.objects_matching`.
            has: Names of classes. A sample must have an object of one of them.
            each: "object" makes a sample of each object that remains after all other arguments, with its
                image, in the order of the images. A later selection chooses among these samples.

        Raises:
            ConfigError: The mask, the positions or the condition do not fit the dataset; there is no such
                class; ``renumber`` is given without ``classes``, or for a dataset with labels and objects;
                ``objects`` or ``has`` is given for a dataset without objects.
        """
        if all(choice is None for choice in (which, where, classes, objects, has, each)):
            raise ConfigError("select needs a condition, positions, a mask or classes")
        if renumber:
            self._check_renumbering(classes)
        if each is not None:
            self._check_each(each)
            images = (which, where, classes, objects, has)
            chosen = self
            if any(choice is not None for choice in images):
                chosen = self.select(
                    which, where=where, classes=classes, renumber=renumber, objects=objects, has=has
                )
            return chosen._each_object()
        if self._object_index is not None and (objects is not None or renumber):
            raise ConfigError(
                "the samples are objects already, each as it was chosen",
                hint="Give objects= and renumber=True together with each='object'.",
            )
        selection = self if objects is None else self._with_objects(objects)
        selection = selection if which is None else selection._select(which)
        selection = selection if where is None else selection._select(_condition(where))
        selection = selection if has is None else selection._with_classes_of_objects(has)
        if classes is None:
            return selection
        numbers = class_numbers(self.classes, classes)
        if "label" in self.tasks:
            selection = selection._select(np.isin(selection.labels, numbers))
        elif "labels" in self.tasks:
            lists = selection.lists("label", np.arange(len(selection)))
            selection = selection._select(has_class(lists, numbers))
        elif "boxes" in self.tasks:
            selection = selection._with_classes_of_objects(classes)
        else:
            raise self._no_labels()
        return selection._renumber(classes, numbers) if renumber else selection

    def _check_each(self, each: str) -> None:
        if each != "object":
            raise ConfigError(f"each must be 'object' or None, not {each!r}")
        if self._object_index is not None:
            raise ConfigError("the samples are objects already", hint="Leave each='object' out.")

    def _check_renumbering(self, classes: str | Sequence[str] | None) -> None:
        reason = "renumber=True needs classes=" if classes is None else None
        if "boxes" in self.tasks and self.tasks & {"label", "labels"}:
            reason = "renumber=True is for labels or for objects, and this dataset has both"
        if reason:
            hint = "leave renumber out: classes then keep their numbers"
            raise ConfigError(reason, path=self.path, hint=hint)

    def _with_classes_of_objects(self, classes: str | Sequence[str]) -> Dataset:
        """Return the samples that have an object of one of these classes."""
        self._check_has_objects("has=")
        labels = self.lists("object_labels", np.arange(len(self)))
        return self._select(has_class(labels, class_numbers(self.classes, classes)))

    def _renumber(self, classes: str | Sequence[str], numbers: list[int]) -> Dataset:
        """Return this selection with numbers from 0 for some of its classes."""
        selection = copy(self)
        before = self._numbering
        known = numbers if before is None else before.numbers[numbers].tolist()
        selection._numbering = Numbering.of([classes] if isinstance(classes, str) else classes, known)
        return selection

    def _no_labels(self) -> ConfigError:
        return ConfigError(
            "the samples have no labels, by which classes= could choose them",
            path=self.path,
            hint="Give a condition on the columns of the index, a mask, or positions.",
        )

    def _select(self, which: npt.ArrayLike | str | pc.Expression) -> Dataset:
        if self._numbering is not None and (isinstance(which, str) or np.asarray(which).dtype == object):
            raise self._renumbered()
        selection = copy(self)
        counted = None if self._objects is None else self._objects.kept
        positions = selected_positions(self.index, self.rows, which, counted)
        selection._rows = self._to_rows(positions)
        if self._object_index is not None:
            selection._object_index = self._object_index[positions]
        return selection

    def split(self, fraction: float, seed: int = 0, *, stratified: bool = True) -> tuple[Dataset, Dataset]:
        """Return two datasets, the first with about ``fraction`` of the samples.

        The part of a sample depends on its key and the seed. If samples have classes, the first part gets
        its share of each class, as with ``--val`` of ``stoker convert``. A few samples may then change their
        part when others are added or removed.

        Args:
            fraction: Share of the first, from 0 to 1.
            seed: Another seed gives other parts.
            stratified: Whether the first dataset has this share of each class, rounded; if samples have
                several labels, the first label counts. False ignores classes, as releases before 0.2.0 did:
                a sample then keeps its part when others are added or removed.

        Raises:
            ConfigError: ``fraction`` is not from 0 to 1.
        """
        if not 0 <= fraction <= 1:
            raise ConfigError(f"fraction must be from 0 to 1, not {fraction}")
        keys = self.keys(np.arange(len(self)))
        if stratified and self.tasks & {"label", "labels"}:
            first = in_first_part_of_each(keys, self._strata(), fraction, seed)
        else:
            first = in_first_part(keys, fraction, seed)
        return self.select(first), self.select(~first)

    def _strata(self) -> npt.NDArray[np.int64]:
        """Return (N,) int64, the stratum of each sample: its class, or the stratum of all without a label."""
        labels = np.full(len(self), -1, np.int64)
        if "label" in self.tasks:
            labels = self.labels
        elif "labels" in self.tasks:
            lists = self.lists("label", np.arange(len(self)))
            labelled = lists.counts > 0
            labels[labelled] = lists.values[lists.starts[:-1][labelled]]
        return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def tokenizer_file(self) -> bytes:
        """Return the content of ``tokenizer.json`` of a dataset of text.

        Raises:
            DatasetError: There is no such file, or it cannot be read.
        """
        return read_tokenizer(self.path)


def _condition(where: str | pc.Expression) -> str | pc.Expression:
    """Return a condition; ConfigError for positions and masks."""
    if isinstance(where, str) or np.asarray(where).dtype == object:
        return where
    raise ConfigError(
        f"where must be a condition, not {type(where).__name__}",
        hint="Give positions and masks as the first argument: select(positions, where=...).",
    )
