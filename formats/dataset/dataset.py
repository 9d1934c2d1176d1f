"""Datasets: samples in shards, with their manifest and index; ``stoker.open`` returns one."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stoker._native import crc32c
from stoker.errors import (
    ConfigError,
    CorruptRecordError,
    DatasetError,
    DecodeError,
    SampleError,
    StaleIndexError,
)

from ..containers.container import find_container
from ..files import open_regular, read_at, reason_of, storage_error
from .annotations import MASK_COLUMNS, Annotations, columns_of, from_columns, is_object_column, tasks_of
from .columns import (
    ORIGIN_COLUMNS,
    ArrayColumn,
    ListColumn,
    Origins,
    has_origins,
    range_columns,
    shape_column,
    take_lists,
)
from .index import KNOWN_COLUMNS, NO_CHECKSUM, Index, Samples
from .manifest import BYTE_TOKENS, Manifest, read_tokenizer, token_ids, tokenizer_settings
from .selection import (
    Numbering,
    ObjectChoice,
    checked_positions,
    class_numbers,
    has_class,
    in_first_part,
    in_first_part_of_each,
    objects_matching,
    selected_positions,
)

_PAYLOAD = ("offset", "length", "crc")


class NoLabelsError(DatasetError, AttributeError):
    """Samples have several labels or none, so that ``labels`` and ``targets`` are attributes they lack."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample."""

    image: npt.NDArray[np.uint8]  # (H, W, 3) uint8 RGB, with the EXIF orientation applied
    # The class; a list of several classes; a float if labels are numbers; None without labels
    label: int | float | list[int] | None
    key: str  # The sample's name in its source
    # The other columns of numbers, strings and arrays, by name
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Choice:
    """What a selection has of its dataset; by default everything."""

    rows: npt.NDArray[np.int64] | None = None  # (N,) rows of the index
    numbering: Numbering | None = None  # new numbers of classes
    objects: ObjectChoice | None = None
    # (N,) index of each sample's object in its image, if samples are objects
    object_index: npt.NDArray[np.int64] | None = None


class Dataset:
    """Samples in shards, in the order of their index; after :meth:`select`, some of them.

    Attributes:
        path: The dataset's folder.
        manifest: The content of ``dataset.json``.
        index: The whole index, even of a selection.
        data_files: Absolute path of every shard's data file, by the index column ``shard``.
    """

    is_remote = False  # whether parts of the data files may not be on this machine yet

    def __init__(self, path: Path, manifest: Manifest, index: Index, data_files: list[Path]) -> None:
        self.path = path
        self.manifest = manifest
        self.index = index
        self.data_files = data_files
        self.choice = Choice()

    def __len__(self) -> int:
        return len(self.index) if self.choice.rows is None else len(self.choice.rows)

    def __repr__(self) -> str:
        without = " without labels" if self.manifest.sample_type == "image" and not self.tasks else ""
        of = f" of {self.num_classes} classes" if self.num_classes else without
        return f"<Dataset {self.address!r}: {len(self)} samples{of}>"

    def __getitem__(self, position: int) -> Sample:
        """Return one sample with its image decoded, for loops and for PyTorch's ``DataLoader``."""
        from ..codecs.decode import decode_rgb  # opening a dataset needs no codec

        position = int(position)
        if self.manifest.sample_type != "image":
            hint = "dataset.read(position) has the tokens."
            raise DatasetError("a sample of text has no image", path=self.path, hint=hint)
        at = self.samples([position])
        data = self.read(position)
        try:
            image = decode_rgb(data, int(at.codec[0]), int(at.height[0]), int(at.width[0]))
        except (SampleError, MemoryError):
            raise
        # Pillow's decoders raise almost anything on a damaged image.
        except Exception as error:
            raise self.error(position, f"the image cannot be decoded: {error}", DecodeError) from error
        return Sample(image, self._label(position), self.keys([position])[0], self._own_columns(position))

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
        numbering = self.choice.numbering
        return self.manifest.classes if numbering is None else numbering.classes

    @property
    def category_ids(self) -> tuple[int | str, ...]:
        """The source's id of each class, as in COCO; -1 for a class without one, empty without any."""
        ids, numbering = self.manifest.category_ids, self.choice.numbering
        return ids if numbering is None or not ids else tuple(ids[i] for i in numbering.numbers)

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
        """Number of classes, and one more than the largest label where numbers have no names; 0 without."""
        return len(self.classes) or self.index.count_labels()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the index's columns."""
        return tuple(self.manifest.columns)

    @property
    def types(self) -> dict[str, str]:
        """Name and type of the index's columns."""
        return dict(self.manifest.columns)

    @property
    def arrays(self) -> Mapping[str, ArrayColumn]:
        """Dtype and shape of the array columns, by name; a side is None if arrays differ in it."""
        return self.manifest.arrays

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks that the samples have annotations for.

        They are some of: label (one for each sample), labels (several), boxes, keypoints, instances (polygons
        or run lengths of objects), segmentation (a mask of classes).
        """
        return tasks_of(self.manifest.columns)

    @property
    def data_sizes(self) -> list[int]:
        """Bytes of every data file, in the order of :attr:`data_files`."""
        return [shard.bytes for shard in self.manifest.shards]

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """(N,) int64: the row in the index of every sample of this dataset."""
        rows = self.choice.rows
        return np.arange(len(self.index), dtype=np.int64) if rows is None else rows

    @property
    def is_distinct(self) -> bool:
        """Whether no sample was selected twice."""
        rows = self.choice.rows
        # Rows from a mask or a condition ascend, and need no sorting.
        return rows is None or bool((rows[1:] > rows[:-1]).all()) or len(np.unique(rows)) == len(rows)

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """(N,) int64: the class of every sample; DatasetError where samples have several, or none.

        The error is also an AttributeError, so that ``hasattr(dataset, "labels")`` is False there.
        """
        if "label" not in self.types or "labels" in self.tasks:
            have, hint = "none", "Convert or index the source again with its labels."
            if "labels" in self.tasks:
                have, hint = "several", "dataset.lists('label', range(len(dataset))) has them."
            message = f"labels must be one number a sample, and the samples have {have}"
            raise NoLabelsError(message, path=self.path, hint=hint)
        return self.column("label")

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify these samples in this order, for checkpoints."""
        choice = self.choice
        if choice.rows is None:
            return self.manifest.fingerprint
        identity = self.manifest.fingerprint.encode() + choice.rows.tobytes()
        if choice.numbering is not None:
            identity += b"numbers" + choice.numbering.numbers.tobytes()
        if choice.objects is not None:
            identity += repr(choice.objects.rules).encode()
        if choice.object_index is not None:
            identity += b"each" + choice.object_index.tobytes()
        return hashlib.sha256(identity).hexdigest()[:32]

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return the (N,) values of an index column of numbers."""
        values = self.index.column(name)
        return self._renumbered(name, values if self.choice.rows is None else values[self.choice.rows])

    def values(self, name: str, positions: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the (M,) values of an index column of numbers for samples at ``positions``."""
        return self._renumbered(name, np.asarray(self.index.column(name)[self._to_rows(positions)]))

    def samples(self, positions: npt.ArrayLike) -> Samples:
        """Return the index rows of samples at (M,) ``positions``, which locate their payloads."""
        return self.index.samples(self._to_rows(positions))

    def keys(self, positions: npt.ArrayLike) -> list[str]:
        """Return the names of samples in their source."""
        return self.strings("key", positions)

    def strings(self, name: str, positions: npt.ArrayLike) -> list[str]:
        """Return the values of an index column of strings for samples at ``positions``."""
        return self.index.strings(name, self._to_rows(positions))

    def lists(self, name: str, positions: npt.ArrayLike) -> ListColumn:
        """Return the lists of M samples in an index column of lists, such as several labels a sample.

        Raises:
            StaleIndexError: A list lies beyond the column, because the index is damaged.
        """
        choice = self.choice
        if name == "object_labels" and (
            choice.objects or choice.numbering or choice.object_index is not None
        ):
            objects, n = self.annotations(positions, ()), np.size(np.asarray(positions))
            return ListColumn.of_counts(np.bincount(objects.owner, minlength=n), objects.labels)
        rows = self._to_rows(positions)
        try:
            lists = self.index.lists(name).take(rows)
        except ValueError as error:
            raise self._damaged(error) from error
        return lists if choice.numbering is None or name != "label" else choice.numbering.of_lists(lists)

    def annotations(self, positions: npt.ArrayLike, parts: Collection[str] | None = None) -> Annotations:
        """Return the objects of samples; of a selection only the objects that it has.

        Args:
            positions: (M,) integers from 0 to ``len(self) - 1``; ``Annotations.owner`` is 0 to M - 1.
            parts: The optional attributes to read: keypoints, polygons, runs, extra. None for all.

        Raises:
            StaleIndexError: The index contradicts itself.
        """
        rows = self._to_rows(positions)
        names = columns_of(self.manifest.columns, parts)
        try:
            taken = take_lists({name: self.index.lists(name) for name in names}, rows)
            objects = from_columns(taken, len(rows), len(self.manifest.annotations.keypoints))
        except ValueError as error:
            raise self._damaged(error) from error
        choice = self.choice
        if choice.objects is not None:
            objects = objects.take(choice.objects.of_rows(rows))
        if choice.numbering is not None:
            labels = choice.numbering.of_labels(objects.labels)
            objects = replace(objects, labels=labels).take(labels >= 0)
        if choice.object_index is None:
            return objects
        chosen = choice.object_index[np.asarray(positions, np.int64)]
        return objects.take(_object_indexes(objects.owner) == chosen[objects.owner])

    def origins(self, positions: npt.ArrayLike) -> Origins:
        """Return the way from stored images back to the images that a conversion has resized."""
        rows = self._to_rows(positions)
        names = ORIGIN_COLUMNS if has_origins(self.manifest.columns) else ("height", "width")
        height, width, *mapping = (self.index.column(name)[rows] for name in names)
        matrices = np.tile(np.eye(3), (len(rows), 1, 1))
        if mapping:
            matrices[:, 0, 2], matrices[:, 1, 2], matrices[:, 0, 0], matrices[:, 1, 1] = mapping
        return Origins(np.stack((height, width), axis=1).astype(np.int64), matrices)

    def read(self, position: int) -> bytes:
        """Return the payload of one sample; its checksum is verified.

        Raises:
            CorruptRecordError: The bytes are not those that were written, or an image file has changed since
                it was listed; names shard, record, key.
            StorageError: The data file cannot be read.
        """
        return self._read(position, _PAYLOAD, "payload")

    def mask(self, position: int) -> bytes:
        """Return the mask of one sample, a PNG of one channel with classes; its checksum is verified.

        Raises:
            DatasetError: The dataset has no masks.
            CorruptRecordError: The bytes are not those that were written; names shard, record, key.
            StorageError: The data file cannot be read.
        """
        return self._read(position, tuple(MASK_COLUMNS), "mask")

    def array(self, name: str, position: int) -> npt.NDArray[Any]:
        """Return one sample's array in the array column ``name``, read-only; its checksum is verified.

        ``arrays[name]`` has its dtype, and the number of sides of its shape.

        Raises:
            DatasetError: There is no such array column.
            CorruptRecordError: The bytes are not those that were written; names shard, record, key.
            StorageError: The data file cannot be read.
        """
        if name not in self.arrays:
            hint = f"It has {', '.join(self.arrays) or 'none'}."
            raise DatasetError(f"the dataset has no array column {name!r}", path=self.path, hint=hint)
        data = self._read(position, range_columns(name), f"array {name!r}")
        try:
            shape = self.index.lists(shape_column(name)).take(self._to_rows([position])).values
            if shape.min(initial=0) < 0:
                raise ValueError(f"{shape.tolist()}")
            return np.frombuffer(data, np.dtype(self.arrays[name].dtype).newbyteorder("<")).reshape(shape)
        except ValueError as error:
            raise self.error(position, f"the array {name!r} does not have its shape: {error}") from error

    def tokenizer_file(self) -> bytes:
        """Return the content of ``tokenizer.json`` of a dataset of text.

        Raises:
            DatasetError: There is no such file, or it cannot be read.
        """
        return read_tokenizer(self.path)

    def token_id(self, token: str) -> int:
        """Return the id of a token of the dataset's tokenizer.

        Args:
            token: The text of the token, such as ``"<|im_end|>"``; or the name of a special token that the
                tokenizer's settings have, such as ``"eos_token"``.

        Raises:
            ConfigError: The tokenizer has no such token.
            DatasetError: The dataset has no tokenizer, or its file cannot be read.
        """
        options = self.manifest.options
        if not options.get("tokenizer"):
            raise DatasetError("the dataset has no tokenizer", path=self.path)
        ids = token_ids(self.tokenizer_file()) if options.get("tokenizer_digest") else BYTE_TOKENS
        text = tokenizer_settings(options)[0].get(token) or token
        if text not in ids:
            raise ConfigError(f"token must be a token of the tokenizer, found {text!r}", path=self.path)
        return ids[text]

    def error(
        self,
        position: int,
        message: str,
        error_type: type[SampleError] = CorruptRecordError,
        hint: str | None = None,
    ) -> SampleError:
        """Return an error about one sample that names its shard, record and key."""
        (row,) = self._to_rows([position]).tolist()
        shard, record = (int(self.index.column(name)[row]) for name in ("shard", "record"))
        key = self.index.strings("key", [row])[0]
        if not 0 <= shard < len(self.data_files):
            path, name = self.path, f"number {shard}"
        elif (files := find_container(self.manifest.container).payload_files) is not None:
            return error_type(message, path=files.path(self.data_files[shard], record), key=key, hint=hint)
        else:
            path, name = self.data_files[shard], self.manifest.shards[shard].name
        return error_type(message, path=path, shard=name, record=record, key=key, hint=hint)

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
                (``"label < 10 and width >= 224"``, see :mod:`stoker.formats.dataset.selection`). None
                for all samples.
            where: A condition, in the same form, that samples must also meet; ``num_objects`` in it is the
                number of objects of an image.
            classes: Names of classes. A sample must also have one of them, as a label or, if samples have no
                labels, as the class of an object.
            renumber: Whether the selection has only these classes, numbered from 0 in the order of
                ``classes``. Other objects, and other labels of a sample with several, are left out.
            objects: A condition that each object must meet, such as ``"not crowd and area >= 16"``, see
                :func:`stoker.formats.dataset.selection.objects_matching`.
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
        self._check_selection(classes, renumber, objects, each)
        chosen = self if objects is None else self._with_objects(objects)
        chosen = chosen if which is None else chosen._select(which)
        chosen = chosen if where is None else chosen._select(_condition(where))
        chosen = chosen if has is None else chosen._with_classes_of_objects(has)
        chosen = chosen if classes is None else chosen._with_classes(classes, renumber=renumber)
        return chosen if each is None else chosen._each_object()

    def _check_selection(
        self, classes: str | Sequence[str] | None, renumber: bool, objects: str | None, each: str | None
    ) -> None:
        if renumber:
            reason = "renumber=True needs classes=" if classes is None else None
            if "boxes" in self.tasks and self.tasks & {"label", "labels"}:
                reason = "renumber=True is for labels or for objects, and this dataset has both"
            if reason:
                hint = "Leave renumber out: classes then keep their numbers."
                raise ConfigError(reason, path=self.path, hint=hint)
        if each not in (None, "object"):
            raise ConfigError(f"each must be 'object' or None, found {each!r}")
        if self.choice.object_index is not None:
            if each is not None:
                raise ConfigError("the samples are objects already", hint="Leave each='object' out.")
            if objects is not None or renumber:
                raise ConfigError(
                    "the samples are objects already, each as it was chosen",
                    hint="Give objects= and renumber=True together with each='object'.",
                )

    def _chosen(self, **changes: Any) -> Dataset:
        selection = copy(self)
        selection.choice = replace(self.choice, **changes)
        return selection

    def _select(self, which: npt.ArrayLike | str | pc.Expression) -> Dataset:
        choice = self.choice
        if choice.numbering is not None and (isinstance(which, str) or np.asarray(which).dtype == object):
            raise _compares_old_labels()
        counted = None if choice.objects is None else choice.objects.kept
        positions = selected_positions(self.index, self.rows, which, counted)
        index = None if choice.object_index is None else choice.object_index[positions]
        return self._chosen(rows=self._to_rows(positions), object_index=index)

    def _with_classes(self, classes: str | Sequence[str], *, renumber: bool) -> Dataset:
        """Return the samples with one of these classes, as a label or, without labels, of an object."""
        numbers = class_numbers(self.classes, classes)
        if "label" in self.tasks:
            selection = self._select(np.isin(self.labels, numbers))
        elif "labels" in self.tasks:
            selection = self._select(has_class(self.lists("label", np.arange(len(self))), numbers))
        elif "boxes" in self.tasks:
            selection = self._with_classes_of_objects(classes)
        else:
            raise ConfigError(
                "the samples have no labels, by which classes= could choose them",
                path=self.path,
                hint="Give a condition on the columns of the index, a mask, or positions.",
            )
        if not renumber:
            return selection
        before = self.choice.numbering
        known = numbers if before is None else before.numbers[numbers].tolist()
        return selection._chosen(numbering=Numbering.of([self.classes[at] for at in numbers], known))

    def _with_classes_of_objects(self, classes: str | Sequence[str]) -> Dataset:
        self._check_has_objects("has=")
        labels = self.lists("object_labels", np.arange(len(self)))
        return self._select(has_class(labels, class_numbers(self.classes, classes)))

    def _with_objects(self, rule: str) -> Dataset:
        self._check_has_objects("objects=")
        if not isinstance(rule, str):
            raise ConfigError(f"objects must be a condition in words, found {type(rule).__name__}")
        if self.choice.numbering is not None:
            raise _compares_old_labels()
        keypoints = len(self.manifest.annotations.keypoints)
        objects = objects_matching(self.index, keypoints, rule, self.choice.objects)
        return self._chosen(objects=objects, rows=self.rows)

    def _each_object(self) -> Dataset:
        self._check_has_objects("each=")
        owner = self.annotations(np.arange(len(self)), ()).owner
        return self._chosen(rows=self.rows[owner], object_index=_object_indexes(owner))

    def _check_has_objects(self, name: str) -> None:
        if "boxes" not in self.tasks:
            raise ConfigError(f"{name} is for objects, and the dataset has none", path=self.path)

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
            raise ConfigError(f"fraction must be from 0 to 1, found {fraction}")
        keys = self.keys(np.arange(len(self)))
        if stratified and self.tasks & {"label", "labels"}:
            first = in_first_part_of_each(keys, self._strata(), fraction, seed)
        else:
            first = in_first_part(keys, fraction, seed)
        return self.select(first), self.select(~first)

    def _strata(self) -> npt.NDArray[np.int64]:
        """Return (N,) int64, the stratum of each sample: its class, or the stratum of all without a label."""
        if "label" in self.tasks:
            labels = self.labels
        else:
            lists = self.lists("label", np.arange(len(self)))
            labels, labelled = np.full(len(self), -1, np.int64), lists.counts > 0
            labels[labelled] = lists.values[lists.starts[:-1][labelled]]
        return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)

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
            raise ConfigError(f"threshold must be a share above 0 and at most 1, found {threshold!r}")
        n, objects = len(self), self.annotations(np.arange(len(self)), ())
        pairs = np.unique(np.stack((objects.labels, objects.owner)), axis=1)
        images = np.bincount(pairs[0]) if len(objects) else np.zeros(0)
        factors = np.ones(n)
        of_class = np.sqrt(threshold * n / np.maximum(images, 1))
        np.maximum.at(factors, pairs[1], of_class[pairs[0]])
        return factors

    def _to_rows(self, positions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        at = checked_positions(positions, len(self))
        return at if self.choice.rows is None else self.choice.rows[at]

    def _renumbered(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        numbering = self.choice.numbering
        return values if numbering is None or name != "label" else numbering.of_labels(values)

    def _damaged(self, error: ValueError) -> StaleIndexError:
        hint = "Run stoker verify, which says where."
        return StaleIndexError(f"the index is damaged: {error}", path=self.path, hint=hint)

    def _read(self, position: int, byte_range: tuple[str, ...], what: str) -> bytes:
        """Return bytes of a sample, verified; ``byte_range`` names columns of offset, length and checksum."""
        (row,) = self._to_rows([position]).tolist()
        shard, offset, length, crc = (int(self.index.column(name)[row]) for name in ("shard", *byte_range))
        if not 0 <= shard < len(self.data_files):
            raise StaleIndexError(f"the index names shard {shard} of {len(self.data_files)}", path=self.path)
        try:
            if (files := find_container(self.manifest.container).payload_files) is not None:
                return files.read(self.data_files[shard], offset, length)
            if not 0 <= offset <= offset + length <= self.data_sizes[shard]:
                raise self.error(position, "the index points outside the shard")
            with open_regular(self.data_files[shard]) as (descriptor, _):
                data = read_at(descriptor, offset, length)
        except OSError as error:
            if error.errno is None:
                raise self.error(position, f"the {what} cannot be read: {error}") from error
            place = self.error(position, "")
            raise storage_error(
                reason_of(error), place.path, key=place.key, hint="Make the file readable."
            ) from error
        if len(data) != length or crc not in (NO_CHECKSUM, crc32c(data)):
            raise self.error(position, f"the {what}'s checksum does not match")
        return data

    def _label(self, position: int) -> Any:
        if "labels" in self.tasks:
            return self.lists("label", [position]).values.tolist()
        return self.values("label", [position])[0].item() if "label" in self.types else None

    def _own_columns(self, position: int) -> dict[str, Any]:
        columns: dict[str, Any] = {name: self.array(name, position) for name in self.arrays}
        known = {*KNOWN_COLUMNS, "label"}
        known.update(part for name in self.arrays for part in (*range_columns(name), shape_column(name)))
        for name, arrow_type in self.types.items():
            if name in known or is_object_column(name, arrow_type):
                continue
            if arrow_type == "large_string":
                columns[name] = self.strings(name, [position])[0]
            elif arrow_type.startswith("large_list"):
                columns[name] = self.lists(name, [position]).values
            else:
                columns[name] = self.values(name, [position])[0].item()
        return columns


def _object_indexes(owner: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return (M,) int64, the index of each object within its image; owners ascend."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)


def _condition(where: str | pc.Expression) -> str | pc.Expression:
    if isinstance(where, str) or np.asarray(where).dtype == object:
        return where
    raise ConfigError(
        f"where must be a condition, found {type(where).__name__}",
        hint="Give positions and masks as the first argument: select(positions, where=...).",
    )


def _compares_old_labels() -> ConfigError:
    return ConfigError(
        "a condition compares labels of the index, but the labels of this selection are renumbered",
        hint="Give both at once: select(condition, classes=..., renumber=True).",
    )
