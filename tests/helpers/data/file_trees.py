"""The content of a folder, for comparisons of datasets byte by byte."""

from __future__ import annotations

from pathlib import Path


def read_files(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of every file below a folder, by path relative to it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
