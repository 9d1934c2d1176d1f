"""Checks of payloads that lie in files of their own and have no checksums, which verify() runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import StaleIndexError

from .payloads import image_problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..containers.base import PayloadFiles
    from ..dataset.index import Index

__all__ = ["listed_file_problems"]


def listed_file_problems(
    index: Index, files: list[Path], rows: range, payloads: PayloadFiles, *, decode: bool
) -> Iterator[tuple[int, str]]:
    """Yield the position, and the problem, of each of some rows whose file is not as it was listed.

    Args:
        index: The dataset's index.
        files: Data file of every shard.
        rows: Rows of the index.
        payloads: How payloads are read.
        decode: Whether to decode the images as well.
    """
    try:
        samples = index.samples(rows)
    except StaleIndexError as error:
        yield 0, error.message
        return
    for i, shard in enumerate(samples.shard.tolist()):
        if not 0 <= shard < len(files):
            yield i, f"the index names shard {shard} of {len(files)}"
            continue
        try:
            data = payloads.read(files[shard], int(samples.offset[i]), int(samples.length[i]))
        except OSError as error:
            yield i, f"the file cannot be read: {error}"
            continue
        if decode and (message := image_problem(data, samples, i)):
            yield i, message
