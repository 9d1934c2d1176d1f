"""Files of keys, which ``stoker duplicates`` writes and ``stoker exclude`` reads.

Each line has a key, or a key, a tab and the folder of the dataset that it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stoker.errors import SourceError


def read_keys(file: Path, folder: Path) -> list[str]:
    """Return the keys in a file that belong to the dataset in ``folder``."""
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")  # spreadsheets write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"the file of keys cannot be read: {error}", path=file) from error
    pairs = [line.removesuffix("\r").rpartition("\t") for line in lines if line.strip()]
    keys = [key or last for key, tab, last in pairs if not tab or Path(last) == folder.resolve()]
    if pairs and not keys:
        raise SourceError(
            f"the file has only keys of other datasets, such as {pairs[0][2]}",
            path=file,
            hint=f"name the folder of that dataset, or a file with keys of {folder}",
        )
    return keys


def write_keys(file: Path, keys: Iterable[tuple[str, Path]]) -> None:
    """Write keys with the folders of their datasets."""
    file.write_text("".join(f"{key}\t{folder.resolve()}\n" for key, folder in keys), encoding="utf-8")
