"""``stoker index`` for a folder or a list of images: a dataset whose payloads stay in the files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._native import probe_jpeg_files
from stoker.arguments import check_progress
from stoker.errors import SourceError
from stoker.urls import is_url

from ..codecs.codec import MAX_PIXELS, Codec
from ..containers.listing import LISTING, LISTING_NAME, write_listing
from ..containers.registry import is_local_shard
from ..dataset.index import Index, write_index
from ..dataset.manifest import INDEX_NAME, IndexFile, Manifest, Shard
from ..dataset.versions import publish_index
from ..files import check_named, file_digest
from ..sources.classes import check_classes, number_classes
from ..sources.file_list import has_list_suffix
from ..sources.image_files import FoundFile, has_image_suffix, is_array_name, walk_images
from ..sources.listing import ListedFiles, Listing, Skip, no_images_error
from ..sources.options import SourceOptions
from ..sources.registry import find_format, list_source
from ..sources.source import Source
from ..sources.source_reader import SkippedError, check_image, read_source_file
from ..threads import available_cores, bounded_map, check_threads

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


_FORMATS = ("folder", "list")
_CONVERT = "convert the source, which reads all formats and makes faster shards: stoker convert SOURCE TARGET"
_MOST_NAMED = 5


def index_images(
    src: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    unlabelled: bool = False,
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Make a dataset of the images in a folder, or of those that a list names; no image is copied.

    The header of every image is read. Files that are not images, and images that are broken, are left out
    and counted in ``Manifest.skipped``. Each time a loader reads a file, it compares the size and the time of
    the last change with the listing.
    """
    check_progress(progress)
    check_named(source=src, into=into)
    if is_url(into):
        raise SourceError(
            "an index of image files lies on a local disk, and this is a URL", path=into, hint=_CONVERT
        )
    threads = check_threads(num_threads, max(8, 2 * available_cores()))
    listing = list_images(src, unlabelled=unlabelled)
    if names := check_classes(classes):
        listing = number_classes(listing, names, src)
    home = Path(into).resolve()
    return publish_index(
        Path(into), lambda folder: write_image_index(listing, folder, threads, progress, home=home)
    )


def is_image_source(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a list or a folder with images, by their names, and not a shard."""
    if is_url(path) or is_local_shard(Path(path)):
        return False
    if not os.path.isdir(path):  # noqa: PTH112 - a path or a string
        return has_list_suffix(path) and Path(path).is_file()
    files = walk_images(os.path.realpath(path), follow_links=True)
    names = (file.key for file in files if isinstance(file, FoundFile))
    return any(has_image_suffix(name) or is_array_name(name) for name in names)


def list_images(src: str | os.PathLike[str], *, unlabelled: bool = False) -> Listing:
    """List the images of a source that can be read in place."""
    if is_url(src):
        raise SourceError(
            "a folder of images at a URL cannot be read in place: each image would take a request",
            path=src,
            hint="convert it, which reads every image once: stoker convert URL TARGET",
        )
    source_format = find_format(Source(src))
    if source_format.name not in _FORMATS:
        raise SourceError(
            f"the source has the format {source_format.name}, which cannot be read in place",
            path=src,
            hint=_CONVERT,
        )
    if source_format.name == "folder":
        flat = unlabelled or is_flat(src)
        source = Source(src, SourceOptions(class_depth=None if flat else 1, unlabelled=flat))
    else:
        source = Source(src, SourceOptions(unlabelled=unlabelled))
    listing = list_source(source, source_format)
    if missing := listing.missing_classes:
        named = ", ".join(f"{skip.key} ({skip.message})" for skip in missing[:_MOST_NAMED])
        raise SourceError(
            f"classes without an image: {named}{', ...' if len(missing) > _MOST_NAMED else ''}",
            path=src,
            hint="repair or remove them, or convert the others: stoker convert --allow-missing-classes",
        )
    return listing


def is_flat(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has no folders in it, and so no classes."""
    with os.scandir(folder) as entries:
        return not any(entry.is_dir() for entry in entries if not entry.name.startswith("."))


def write_image_index(
    listing: Listing,
    folder: Path,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    home: Path | None = None,
) -> Manifest:
    """Read the headers of listed images, and write their listing and their index into a folder."""
    headers = read_headers(listing, threads, progress or (lambda done, total: None))
    broken = [headers.skipped[i] for i in sorted(headers.skipped)]
    skipped: list[Skip] = [*listing.skipped, *broken]
    if len(broken) == len(listing):
        raise no_images_error("no file is an image", listing.root, skipped)
    if broken:
        intact = np.delete(np.arange(len(listing)), sorted(headers.skipped))
        listing, headers = listing.take(intact), headers.take(intact)
    _write_files(folder, listing, headers, _root(listing, home))
    del headers  # before the index is read again, so that a million files take less than 200 MB
    return _manifest(folder, listing, skipped)


def _write_files(folder: Path, listing: Listing, headers: ImageHeaders, root: str) -> None:
    """Write the listing and the index of intact images."""
    starts = write_listing(folder / LISTING_NAME, root, listing.keys, listing.sizes, listing.modified)
    columns: dict[str, Any] = {
        "shard": np.zeros(len(listing), np.int32),
        "record": np.arange(len(listing)),
        "offset": starts,
        "length": listing.sizes,
        "crc": np.zeros(len(listing), np.uint32),
        "key": listing.keys,
        **{name: getattr(headers, name) for name in ("codec", "height", "width", "orientation")},
        **({} if listing.labels is None else {"label": listing.labels}),
        **listing.columns,
    }
    write_index(folder / INDEX_NAME, columns)


def _root(listing: Listing, home: Path | None) -> str:
    root = str(listing.root)
    return os.path.relpath(root, home) if home and Path(root).is_relative_to(home.parent) else root


def _manifest(folder: Path, listing: Listing, skipped: list[Skip]) -> Manifest:
    files, path = folder / LISTING_NAME, folder / INDEX_NAME
    index = Index.open(path)
    return Manifest(
        container=LISTING.name,
        sample_type="image",
        columns=index.types,
        shards=(Shard(LISTING_NAME, files.stat().st_size, len(index), file_digest(files)),),
        index=IndexFile.of(path, len(index)),
        classes=listing.classes,
        options={"made_by": "index", "source": str(listing.root)},
        skipped=dict(Counter(skip.reason for skip in skipped)),
    )
