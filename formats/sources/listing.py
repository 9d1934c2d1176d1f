"""The listing of a source: its files, their labels, objects and masks, and the files that were left out."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stoker.arguments import some_of
from stoker.errors import SourceError, StokerError, with_details
from stoker.log import EventLog
from stoker.urls import without_credentials

from ..containers.container import is_local_shard
from ..dataset.annotations import AnnotationInfo
from ..dataset.columns import each, take_strings
from ..dataset.manifest import Manifest


class Skip(NamedTuple):
    """A file, or an object of an image, that was left out."""

    key: str  # The file's name in the source; bytes that are not UTF-8 are written as backslash escapes
    reason: str  # The reason, in words that many files share, so that they can be counted
    detail: str = ""  # The exact finding; may be empty

    @property
    def message(self) -> str:
        """Reason and detail, for an error."""
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


def count_reasons(skipped: Iterable[Skip]) -> dict[str, int]:
    """How many files were left out, by reason, in the order of the reasons."""
    return dict(sorted(Counter(skip.reason for skip in skipped).items()))


def skipped_lines(skipped: Iterable[Skip]) -> bytes:
    """The content of ``skipped.jsonl``: one line of JSON for each file or sample that was left out."""
    lines = (json.dumps(skip._asdict(), ensure_ascii=False) + "\n" for skip in skipped)
    return "".join(lines).encode(errors="backslashreplace")  # as JSON writes half of a surrogate pair


BLANK, NO_TOKENS = "blank line", "no tokens"
"""Reasons to leave out a sample of text that has nothing to lose."""

_RowsT = TypeVar("_RowsT", bound="_Rows")


@dataclass(frozen=True)
class _Rows:
    """Columns of N rows: arrays, and values that have columns themselves; other values are of all rows."""

    def take(self: _RowsT, rows: npt.NDArray[np.int64]) -> _RowsT:
        """The rows at ``rows``, (M,) int64."""
        return replace(self, **{one.name: _taken(getattr(self, one.name), rows) for one in fields(self)})


def _taken(value: Any, rows: npt.NDArray[np.int64]) -> Any:
    if isinstance(value, np.ndarray):
        return value[rows]
    if isinstance(value, pa.LargeStringArray):
        return take_strings(value, rows)
    if isinstance(value, Mapping):
        return {name: _taken(column, rows) for name, column in value.items()}
    return value.take(rows) if isinstance(value, (pa.Array, _Rows)) else value


@dataclass(frozen=True)
class FileRanges(_Rows):
    """Byte ranges of images in larger files, such as archives."""

    files: tuple[str, ...]  # Path or URL of each file
    file_sizes: tuple[int, ...]  # Bytes of each file when it was listed
    file: npt.NDArray[np.int32]  # (N,) int32, the file of each image
    offset: npt.NDArray[np.int64]  # (N,) int64, first byte of each image in its file
    # (N,) int32, pieces in which each image lies in a RecordIO file; None where all lie in one
    pieces: npt.NDArray[np.int32] | None = None
    # (N,) uint32, CRC32C of each image; None where nothing states it
    crc: npt.NDArray[np.uint32] | None = None


@dataclass(frozen=True)
class ListedFiles(_Rows):
    """Files as columns, which take little more memory than their names."""

    root: Path | str  # Folder that keys are relative to, or its URL
    keys: pa.Array  # (N,) large_string, paths relative to ``root`` with ``/``, or absolute paths of a list
    sizes: npt.NDArray[np.int64]  # (N,) int64, bytes
    # (N,) int64, nanoseconds since 1970, by which a changed source is recognised
    modified: npt.NDArray[np.int64]
    follow_links: bool = field(default=True, kw_only=True)  # Whether files may be links when they are read
    # Byte range of each file, if they lie in larger files; keys are then names alone
    ranges: FileRanges | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.keys)

    def names(self) -> Iterator[str]:
        return each(self.keys)


@dataclass(frozen=True)
class ListedArrays(_Rows):
    """The arrays of a column; the column with their shapes is among those of the listing."""

    files: ListedFiles  # Their bytes, in C order, little-endian
    dtype: str  # NumPy's name of the type of their elements


@dataclass(frozen=True)
class ListedBlocks(_Rows):
    """Blocks and rows of images, in files that are read in blocks.

    Blocks are row groups of Parquet and record batches of Arrow; a compressed shard of MDS is one block.
    """

    files: tuple[str, ...]  # Path or URL of each file
    file_sizes: tuple[int, ...]  # Bytes of each file when it was listed
    column: str  # Name of the column of the images; of MDS empty for the only one
    file: npt.NDArray[np.int32]  # (N,) int32, the file of each image
    block: npt.NDArray[np.int32]  # (N,) int32, its block in the file
    row: npt.NDArray[np.int32]  # (N,) int32, its row in the block
    kind: Literal["table", "mds"] = "table"  # The form of the files


@dataclass(frozen=True)
class ListedObjects(_Rows):
    """Objects of the images of a source."""

    # Columns of the index, (N,) each, as ``OBJECT_COLUMNS`` of ``formats/dataset/columns`` lists them
    columns: Mapping[str, pa.Array]
    relative: bool  # Whether coordinates are shares of the image's width and height, instead of pixels
    # (N,) int32, height of each image in pixels by its annotations; 0 where they have none
    heights: npt.NDArray[np.int32]
    widths: npt.NDArray[np.int32]  # (N,) int32, width of each image in the same way
    # Name of an object in messages, such as "annotation {} of instances.json"; the first {} stands for its id
    name: str


@dataclass(frozen=True)
class Listing(ListedFiles):
    """The files of a source in sorted order, and what it states about them; no image has been read."""

    # (N,) int64, or large_list<int64> where samples have several labels; None where samples have no labels
    labels: pa.Array | None
    # Names of the classes; the index is the label. Empty where labels are plain numbers
    classes: tuple[str, ...]
    columns: Mapping[str, pa.Array] = field(default_factory=dict)  # Further columns of the index, (N,) each
    skipped: tuple[Skip, ...] = ()  # Files and objects that were left out while listing
    missing_classes: tuple[Skip, ...] = ()  # Classes of the source that have no image, with the reason
    damaged: tuple[StokerError, ...] = ()  # Why records, or files from some record on, cannot be used
    objects: ListedObjects | None = None  # Objects of the images, if the source has any
    masks: ListedFiles | None = None  # The mask of each image, if the source has masks
    arrays: Mapping[str, ListedArrays] = field(default_factory=dict)  # Arrays of the samples, by name
    # Block and row of each image, if such files are read in blocks; sizes are then estimates
    blocks: ListedBlocks | None = None
    info: AnnotationInfo = field(default_factory=AnnotationInfo)  # Meaning of the objects and masks
    category_ids: tuple[int | str, ...] = ()  # The source's id of each class; empty if it has none
    # (N,) int8, number of each image's split; None if the source names no splits
    split: npt.NDArray[np.int8] | None = None
    splits: tuple[str, ...] = ()  # Names of the splits, by number; empty if the source names none
    manifest: Manifest | None = None  # Manifest of the source, if it is a dataset of Stoker
    tokenizer: bytes | None = None  # The tokenizer's file of such a source, if it has one

    @property
    def place(self) -> Path | str:
        """The source in errors about all of it."""
        return self.root

    @property
    def multi_label(self) -> bool:
        """Whether a sample has a list of labels."""
        return self.labels is not None and bool(pa.types.is_large_list(self.labels.type))

    @property
    def bytes(self) -> npt.NDArray[np.int64]:
        """(N,) int64, bytes of each sample: of its image and of its mask."""
        return self.sizes if self.masks is None else self.sizes + self.masks.sizes

    @property
    def labelled_columns(self) -> dict[str, pa.Array]:
        """Labels, where samples have any, and the further columns of the index."""
        return {**({} if self.labels is None else {"label": self.labels}), **self.columns}

    def fingerprint(self) -> str:
        """SHA-256 of the whole listing, in hexadecimal."""
        digest = hashlib.sha256(repr((self.classes, sorted(self.columns))).encode())
        for skip in self.skipped:
            digest.update(repr(skip).encode())
        named = {"": self.keys, **self.labelled_columns}
        arrays: list[Any] = [self.sizes, self.modified]
        if self.objects is not None:
            digest.update(repr((self.objects.relative, sorted(self.objects.columns))).encode())
            named |= self.objects.columns
            arrays += [self.objects.heights, self.objects.widths]
        for name, files in {"mask": self.masks, **{n: one.files for n, one in self.arrays.items()}}.items():
            if files is not None:
                named[name] = files.keys
                arrays += [files.sizes, files.modified]
        if self.ranges is not None:
            digest.update(repr((_unsigned(self.ranges.files), self.ranges.file_sizes)).encode())
            arrays += [self.ranges.file, self.ranges.offset]
        if self.blocks is not None:
            digest.update(
                repr((_unsigned(self.blocks.files), self.blocks.file_sizes, self.blocks.column)).encode()
            )
            arrays += [self.blocks.file, self.blocks.block, self.blocks.row]
        arrays += [] if self.split is None else [self.split]
        for name in sorted(named):
            digest.update(str(named[name].type).encode())
            for buffer in filter(None, named[name].buffers()):
                digest.update(buffer)
        for array in arrays:
            digest.update(array.tobytes())
        digest.update(repr(self.info).encode())
        digest.update("".join(repr(values) for values in (self.category_ids, self.splits) if values).encode())
        return digest.hexdigest()


def _unsigned(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(without_credentials, files))  # a signature differs from day to day


# The next thing to do, by reason.
_REMEDIES = {
    "link": "Links are not followed, as follow_links=False asks.",
    "path that leaves the source": "Relative paths stay in the folder of the list: write absolute ones.",
    "absolute path outside the source": "Name a folder that holds the images with images, or allow absolute "
    "paths anywhere: outside=True.",
    "pickled record, which is never unpacked": "Read them in Python, and write them with stoker.Writer.",
    "URL in a list on a disk": "A list of images at URLs must lie at a URL, too: put it there.",
}
_LOG = EventLog("dataset")
_NAMED = 3  # files


def no_images_error(
    message: str, path: str | os.PathLike[str], skipped: Iterable[Skip], hint: str | None = None
) -> SourceError:
    """The error about a source without images, with the reasons why files were left out and their numbers."""
    skipped = list(skipped)
    if any(skip.key and is_local_shard(Path(path) / skip.key) for skip in skipped[:_NAMED]):
        return SourceError(message, path=path, hint="Name the shards themselves, or a pattern for them.")
    counts = Counter(skip.reason for skip in skipped)
    reasons = name_reasons(skipped)
    remedies = " ".join(_REMEDIES[reason] for reason in _REMEDIES if counts[reason])
    return SourceError(
        f"{message}; left out: {reasons}" if reasons else message, path=path, hint=remedies or hint
    )


_MOST_ERRORS = 100
UNUSABLE = "record or file that cannot be used"


def check_damage(
    errors: Sequence[StokerError], total: int, allowed: Fraction | None, remedy: str
) -> list[Skip]:
    """Return the skips of records and files that cannot be used, of ``total``.

    Raises the first error, which names all, if they are more than ``allowed``; None allows none.
    """
    if errors and (allowed is None or Fraction(len(errors), max(total, len(errors))) > allowed):
        also = [f"Also: {str(error).partition(chr(10))[0]}" for error in errors[1:_MOST_ERRORS]]
        if len(errors) > _MOST_ERRORS:
            also.append(f"And {len(errors) - _MOST_ERRORS:,} more.")
        percent = min(100, math.ceil(Fraction(100 * len(errors), max(total, len(errors)))))
        hint = "\n".join(
            filter(
                None,
                (errors[0].hint, *also, remedy.format(share=percent / 100) if total > len(errors) else ""),
            )
        )
        raise with_details(errors[0], hint=hint) from errors[0]
    return [Skip(error.key or error.shard or str(error.path), UNUSABLE, error.message) for error in errors]


def warn_unlabelled(source: str | os.PathLike[str], cure: str) -> None:
    """Say that no labels are found in a source whose user has not asked for that."""
    name = without_credentials(os.fspath(source))
    _LOG.warning(name, f"the images of {name} have no labels; {cure}")


_NAMED_CLASSES = 5
_CONVERT_OTHERS = "Repair or remove them, or convert the other classes alone: allow_missing_classes=True."


def missing_classes_error(
    missing: Sequence[Skip], path: str | os.PathLike[str], hint: str = _CONVERT_OTHERS
) -> SourceError:
    """The error about classes of a source that have no image, each with the reason."""
    named = some_of((f"{skip.key} ({skip.message})" for skip in missing), _NAMED_CLASSES)
    return SourceError(f"classes without an image: {named}", path=path, hint=hint)


def lost_classes(listing: Listing, rows: npt.NDArray[np.int64], skipped: Iterable[Skip]) -> tuple[Skip, ...]:
    """The named classes of which every sample is at ``rows``, (M,) int64, which are left out, and why."""
    if not len(rows) or listing.labels is None or not listing.classes:
        return ()
    number = len(listing.classes)
    lost = listing.take(rows)
    gone = class_counts(lost, number) == class_counts(listing, number)
    gone &= class_counts(lost, number) > 0
    reasons = {skip.key: skip for skip in skipped}
    classes = []
    for label in np.flatnonzero(gone).tolist():
        keys = lost.keys.filter(pc.equal(lost.labels, label)) if not listing.multi_label else lost.keys
        known = [reasons[key] for key in keys.to_pylist() if key in reasons]
        classes.append(Skip(listing.classes[label], name_reasons(known)))
    return tuple(classes)


def class_counts(listing: Listing, number: int) -> npt.NDArray[np.int64]:
    """How many samples have each of ``number`` labels, (number,) int64."""
    assert listing.labels is not None, "called for listings with labels"
    labels = listing.labels.flatten() if listing.multi_label else listing.labels
    return np.bincount(labels.to_numpy(zero_copy_only=False), minlength=number)


def name_reasons(skipped: Sequence[Skip]) -> str:
    """The reasons, each with the number of its files, and some files of the most frequent one."""
    counts = Counter(skip.reason for skip in skipped)
    reasons = []
    for reason, count in counts.most_common():
        # With the detail of the first file, which an example shows if others have another one.
        details = {skip.detail: None for skip in skipped if skip.reason == reason and skip.detail}
        first = next(iter(details), "")
        shown = f" ({first})" if len(details) > 1 else f": {first}" if first else ""
        reasons.append(f"{count:,} x {reason}{shown}")
    keys = [skip.key for skip in skipped if skip.key and skip.reason == counts.most_common(1)[0][0]]
    such_as = f", such as {', '.join(keys[:_NAMED])}" if keys else ""
    return f"{', '.join(reasons)}{such_as}"
