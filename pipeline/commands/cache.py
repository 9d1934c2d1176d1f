"""The command ``stoker cache``, which lists and clears the indexes of sources that are read in place."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from stoker.formats.index_cache import cached_indexes, clear_indexes
from stoker.urls import is_url

from .console import human_bytes, out, plain


def cache(
    source: Annotated[
        str | None, typer.Argument(help="Folder or list of images, archive or URL; by default all sources.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the indexes.")] = False,
) -> None:
    """List the indexes of sources that are read in place, or clear them.

    A loader that reads images or archives in place keeps an index of them in the folder $STOKER_CACHE, by
    default ~/.cache/stoker. The cache keeps at most a hundred indexes of 4 GiB in all. If you remove an
    index, the source is listed again when it is opened.

    Examples:
      stoker cache
      stoker cache photos/train --clear
    """
    origin = source if source is None or is_url(source) else os.path.realpath(source)
    if clear:
        removed = clear_indexes(origin)
        out.print(f"removed {len(removed):,} of the indexes")
        return
    indexes = [index for index in cached_indexes() if origin in (None, index.origin)]
    if not indexes:
        out.print("the cache has no index" + ("" if source is None else f" of {plain(source)}"))
        return
    for index in indexes:
        out.print(f"{plain(index.origin)}: {human_bytes(index.bytes)} in {plain(str(index.folder))}")
