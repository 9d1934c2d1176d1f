"""Names of classes as people give them: a line each in a file, with commas between, or those of a dataset."""

from __future__ import annotations

from pathlib import Path

from stoker.errors import ConfigError, SourceError

from ..dataset.manifest import Manifest
from ..files.reading import open_regular, read_at

__all__ = ["parse_class_names"]

_LONGEST = 1 << 24  # bytes


def parse_class_names(given: str) -> tuple[str, ...]:
    """Names of classes, that of label 0 first: ``cat,dog``, a file with a name a line, or a dataset's folder.

    Raises:
        ConfigError: It is none of these, or a name is empty: which label is it then that has none?
        DatasetError: The folder is no dataset.
        SourceError: The file cannot be read.
    """
    path = Path(given)
    if path.is_dir():
        lines = list(Manifest.load(path).classes)
    elif path.is_file():
        lines = _lines(path)
    elif "," in given:
        lines = given.split(",")
    else:
        raise ConfigError(
            "classes must be names with commas between, a file with a name a line, or a dataset, not "
            f"{given!r}"
        )
    names = tuple(line.strip() for line in lines) or ("",)
    if "" in names:
        raise ConfigError(f"there is no name for label {names.index('')} in classes: {given}")
    return names


def _lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as (descriptor, size):
            # utf-8-sig: spreadsheets write a byte order mark.
            return read_at(descriptor, 0, min(size, _LONGEST)).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"the names of classes cannot be read: {error}", path=path) from error
