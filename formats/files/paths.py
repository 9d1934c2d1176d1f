"""Properties of paths and files that readers of sources and writers of folders need."""

from __future__ import annotations

import os
import stat


def is_regular(status: os.stat_result) -> bool:
    """Return whether a file is a regular file, not a folder, link, FIFO, socket or device."""
    return stat.S_ISREG(status.st_mode)


def is_inside(path: str, folder: str) -> bool:
    """Return whether a resolved path lies in a resolved folder."""
    return path.startswith(folder.rstrip("/") + "/")


def leaves_folder(name: str) -> bool:
    """Return whether a path relative to a folder is absolute or names something outside, as ``../x`` does."""
    return os.path.normpath(name).startswith(("/", "../")) or os.path.normpath(name) == ".."


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode a text, which may have half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable_name(name: str) -> str:
    """Return a file name as text, with escapes for bytes that are not UTF-8."""
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can spell it, and it stands for no byte
        return name.encode("utf-8", "backslashreplace").decode()
