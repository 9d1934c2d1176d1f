"""Local copies of the small files of a source, such as lists, that lie at URLs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stoker.errors import SourceError

from .store import Store, is_url

__all__ = ["local_copies"]


@contextmanager
def local_copies(paths: Sequence[str | os.PathLike[str]]) -> Iterator[list[Path]]:
    """Yield the local paths of files; those at URLs are copied to a temporary folder, under their names.

    A copy has the time of the last change of the original, if the storage states it. A SourceError in the
    block that names a copy names its URL instead.

    Raises:
        StorageError: A URL cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="stoker-convert-") as temporary:
        copies = {}
        found = []
        for number, path in enumerate(paths):
            found.append(Path(path))
            if is_url(path):
                folder, _, name = os.fspath(path).rpartition("/")
                found[-1] = Path(temporary, str(number), name)
                found[-1].parent.mkdir()
                store = Store(folder)
                store.download(name, found[-1])
                if changed := store.modified(name):
                    os.utime(found[-1], ns=(changed, changed))
                copies[found[-1]] = os.fspath(path)
        try:
            yield found
        except SourceError as error:
            url = copies.get(Path(error.path or ""))
            if url is None:
                raise
            raise SourceError(error.message, path=url, key=error.key, hint=error.hint) from error
