"""Local copies of the small files of a source, such as lists, that lie at URLs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stoker.errors import SourceError

from .store import Store, is_url


@contextmanager
def local_copies(paths: Sequence[str | os.PathLike[str]]) -> Iterator[list[Path]]:
    """Yield the local paths of files; those at URLs are copied to a temporary folder, under their names.

    A copy has the time of the last change of the original, if the storage states it. A SourceError in the
    block that names a copy names its URL instead.
    """
    with tempfile.TemporaryDirectory(prefix="stoker-convert-") as temporary:
        urls = {}
        local = []
        for number, path in enumerate(paths):
            file = Path(path)
            if is_url(path):
                folder, _, name = os.fspath(path).rpartition("/")
                file = Path(temporary, str(number), name)
                file.parent.mkdir()
                store = Store(folder)
                store.download(name, file)
                if changed := store.modified(name):
                    os.utime(file, ns=(changed, changed))
                urls[file] = os.fspath(path)
            local.append(file)
        try:
            yield local
        except SourceError as error:
            url = urls.get(Path(error.path or ""))
            if url is None:
                raise
            raise SourceError(error.message, path=url, key=error.key, hint=error.hint) from error
