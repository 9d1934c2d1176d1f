"""A table of the files of a source, which grows in any order and becomes sorted columns."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from ..dataset.columns import Strings, take_strings
from .listing import ListedFiles


class FileTable:
    """Files in the order in which they were added.

    A file takes the bytes of its name and 24 more; Python objects would take hundreds of bytes.
    """

    def __init__(self) -> None:
        self._names = Strings()
        self._sizes = array("q")
        self._modified = array("q")

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, key: str, size: int, modified: int) -> None:
        """Add a file: its path in the source, bytes, and time of change in nanoseconds since 1970."""
        self._names.add(key.encode())
        self._sizes.append(size)
        self._modified.append(modified)

    def sorted(
        self, root: Path | str, *, follow_links: bool = True
    ) -> tuple[ListedFiles, npt.NDArray[np.int64] | slice]:
        """The files sorted by key, and the number of each, (N,) int64, in the order in which they were added.

        In place of the numbers there is a slice if the files were added in order.

        Keys are sorted by their bytes, which in UTF-8 is the order of Python's strings; equal keys keep their
        order. The table is empty afterwards, so that files take memory once.
        """
        names, self._names = self._names.to_arrow(), Strings()
        sizes, self._sizes = np.frombuffer(self._sizes, np.int64), array("q")
        modified, self._modified = np.frombuffer(self._modified, np.int64), array("q")
        order: npt.NDArray[np.int64] | slice = slice(None)
        if len(names) and not pc.all(pc.less_equal(names[:-1], names[1:])).as_py():
            order = np.frombuffer(pc.sort_indices(names).buffers()[1], np.int64)  # to_numpy() imports pandas
            names = take_strings(names, order)
            sizes = sizes[order]  # one after the other, so that one column at a time is there twice
            modified = modified[order]
        return ListedFiles(root, names, sizes, modified, follow_links=follow_links), order
