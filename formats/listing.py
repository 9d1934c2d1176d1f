"""What a source consists of: files, their labels, and what was left out."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

__all__ = ["LabelColumn", "Listing", "Skip", "inside", "is_regular", "printable"]

LabelColumn = Sequence[int] | Sequence[Sequence[int]]


class Skip(NamedTuple):
    """A file that was left out.

    Attributes:
        key: Its name in the source; bytes that are not UTF-8 are written as backslash escapes.
        reason: Why, in words that many files share, so that they can be counted.
        detail: What exactly was found; may be empty.
    """

    key: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Listing:
    """The files of a source in sorted order, as columns. Nothing but their names has been read.

    Attributes:
        root: Folder that keys are relative to.
        keys: (N,) large_string: path relative to ``root`` with ``/``; absolute where a list says so.
        sizes: (N,) int64, bytes.
        modified: (N,) int64, nanoseconds since 1970; tells a changed source from the same one.
        labels: (N,) int64, or large_list<int64> where samples have several labels.
        classes: Names of the classes; position is label. Empty where labels are plain numbers.
        columns: Further columns of the index, (N,) each.
        skipped: What was left out while listing.
    """

    root: Path
    keys: pa.Array
    sizes: npt.NDArray[np.int64]
    modified: npt.NDArray[np.int64]
    labels: pa.Array
    classes: tuple[str, ...]
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    skipped: tuple[Skip, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def multi_label(self) -> bool:
        """Whether a sample has a list of labels."""
        return bool(pa.types.is_large_list(self.labels.type))

    def fingerprint(self) -> str:
        """SHA-256 of all that is known of the files, in hexadecimal."""
        digest = hashlib.sha256(repr((self.classes, sorted(self.columns), self.skipped)).encode())
        arrays = [self.keys, self.labels, *(self.columns[name] for name in sorted(self.columns))]
        for array in arrays:
            for piece in _buffers(array):
                digest.update(piece)
        digest.update(self.sizes.tobytes())
        digest.update(self.modified.tobytes())
        return digest.hexdigest()


def _buffers(array: pa.Array) -> list[Any]:
    return [str(array.type).encode(), *(buffer for buffer in array.buffers() if buffer is not None)]


def is_regular(status: os.stat_result) -> bool:
    """Whether a file is a plain one: no folder, link, FIFO, socket or device."""
    return stat.S_ISREG(status.st_mode)


def inside(path: str, folder: str) -> bool:
    """Whether a resolved path lies in a resolved folder."""
    return path.startswith(folder.rstrip("/") + "/")


def printable(name: str) -> str:
    """A file name as text, with escapes for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
