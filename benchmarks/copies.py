"""More files from few: a folder of photographs repeated under other names."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["copy_photographs"]


def copy_photographs(source: Path, target: Path, copies: int) -> Path:
    """Fill ``target`` with ``copies`` of every file of an image folder; links where disks allow them.

    Returns ``target``. What is there already stays, so that the call can be repeated at once.
    """
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        folder = target / file.relative_to(source).parent
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(copies):
            copy = folder / f"{file.stem}-{number:03}{file.suffix}"
            if not copy.exists():
                _link(file, copy)
    return target


def _link(file: Path, copy: Path) -> None:
    try:
        os.link(file, copy)
    except OSError:  # another disk, or a file system without links
        shutil.copyfile(file, copy)
