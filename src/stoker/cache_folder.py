"""The user's cache folder, which holds indexes of sources that are read in place, and measured rates."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of Stoker's caches, which need not exist.

    It is ``$STOKER_CACHE``, or ``stoker`` in the user's cache folder, which is ``$XDG_CACHE_HOME`` or
    ``~/.cache`` (XDG Base Directory Specification 0.8). As there, relative paths are ignored.
    """
    if (folder := Path(os.environ.get("STOKER_CACHE", ""))).is_absolute():
        return folder
    if (folder := Path(os.environ.get("XDG_CACHE_HOME", ""))).is_absolute():
        return folder / "stoker"
    return Path.home() / ".cache" / "stoker"
