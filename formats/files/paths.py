"""Questions about paths, which readers of sources and writers of folders ask alike."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

__all__ = ["is_inside", "is_regular", "printable_name"]


def is_regular(status: os.stat_result) -> bool:
    """Whether a file is a plain one: no folder, link, FIFO, socket or device."""
    return stat.S_ISREG(status.st_mode)


def is_inside(path: str, folder: str) -> bool:
    """Whether a resolved path lies in a resolved folder."""
    return path.startswith(folder.rstrip("/") + "/")


def printable_name(name: str) -> str:
    """A file name as text, with escapes for bytes that are not UTF-8."""
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can spell it, and it stands for no byte
        return name.encode("utf-8", "backslashreplace").decode()
