"""The headers of the images of a source, which are read in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from stoker._native import probe_jpeg_files

from ..codecs.codec import Codec
from ..codecs.header import MAX_PIXELS
from ..concurrency.bounded_map import bounded_map
from ..sources.listing import ListedFiles, Skip
from ..sources.source_reader import SkippedError, check_image, read_source_file

_FILES = 1024  # files of a task
_AHEAD = 64


@dataclass(frozen=True)
class ImageHeaders:
    """The headers of N images."""

    codec: npt.NDArray[np.uint8]  # (N,) uint8, see :class:`stoker.formats.codecs.codec.Codec`
    height: npt.NDArray[np.int32]  # (N,) int32, pixels, after the EXIF orientation has been applied
    width: npt.NDArray[np.int32]  # (N,) int32, pixels, after the EXIF orientation has been applied
    orientation: npt.NDArray[np.uint8]  # (N,) uint8, 1 to 8
    # Reason why a file is left out, by its row in the listing; its header has no meaning
    skipped: dict[int, Skip]

    def take(self, rows: npt.NDArray[np.int64]) -> ImageHeaders:
        """Return the headers of the images at ``rows``, (M,) int64; no row may be a skipped image."""
        return ImageHeaders(self.codec[rows], self.height[rows], self.width[rows], self.orientation[rows], {})


def read_headers(files: ListedFiles, threads: int, report: Callable[[int, int], None]) -> ImageHeaders:
    """Return the headers of the images of a local source.

    Of a JPEG the start and the end are read. Files of other codecs are read whole, to check their checksums
    and ends. ``report`` is called with the number of files done, and of all.
    """
    total = len(files)
    codec, orientation = np.empty(total, np.uint8), np.empty(total, np.uint8)
    height, width = np.empty(total, np.int32), np.empty(total, np.int32)
    headers = ImageHeaders(codec, height, width, orientation, {})
    with ThreadPoolExecutor(threads, thread_name_prefix="stoker-headers") as pool:
        for end, _ in bounded_map(pool, _tasks(files, headers), _AHEAD):
            report(end, total)
    return headers


def _tasks(files: ListedFiles, headers: ImageHeaders) -> Iterator[tuple[int, Callable[[], None]]]:
    for start in range(0, len(files), _FILES):
        end = min(start + _FILES, len(files))
        yield end, partial(_read_headers, files, headers, start, end)


def _read_headers(files: ListedFiles, headers: ImageHeaders, start: int, end: int) -> None:
    root = str(files.root)
    starts, text = name_buffers(files)
    headers_of_jpegs = probe_jpeg_files(root, starts[start : end + 1], text, files.sizes[start:end])
    codec, height, width, orientation = headers_of_jpegs.T
    is_turned = orientation >= 5  # orientations 5 to 8 exchange height and width (Exif 2.32, tag 274)
    headers.codec[start:end] = codec
    headers.height[start:end] = np.where(is_turned, width, height)
    headers.width[start:end] = np.where(is_turned, height, width)
    headers.orientation[start:end] = orientation
    too_large = height.astype(np.int64) * width > MAX_PIXELS
    for i in (start + np.flatnonzero((codec == Codec.OTHER) | too_large)).tolist():
        _read_whole(files, headers, i)


def _read_whole(files: ListedFiles, headers: ImageHeaders, i: int) -> None:
    """Read a whole file, where its start and its end are not enough."""
    key = files.keys[i].as_py()
    try:
        data = read_source_file(str(files.root), key, int(files.sizes[i]), follow_links=files.follow_links)
        header = check_image(data, MAX_PIXELS)
    except SkippedError as error:
        headers.skipped[i] = Skip(key, *error.args)
        return
    headers.codec[i], headers.orientation[i] = header.codec, header.orientation
    headers.height[i], headers.width[i] = header.height, header.width


def name_buffers(files: ListedFiles) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the offset of the name of each file, (N + 1,), and the bytes of all names, without a copy."""
    _, starts, text = files.keys.buffers()
    return np.frombuffer(starts, np.int64)[: len(files) + 1], np.frombuffer(text or b"", np.uint8)
