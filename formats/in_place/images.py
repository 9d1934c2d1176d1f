"""``stoker index`` for a folder or a list of images: a dataset whose payloads stay in the files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._native import probe_jpeg_files
from stoker.arguments import check_progress, named_arguments
from stoker.errors import DatasetError, SourceError, with_details
from stoker.urls import is_url

from ..codecs.codec import MAX_PIXELS, Codec, ImageHeader
from ..containers.container import is_local_shard
from ..containers.listing import LISTING, LISTING_NAME, write_listing
from ..dataset.index import Index, write_index
from ..dataset.manifest import INDEX_NAME, IndexFile, Manifest, Shard
from ..dataset.versions import publish_index
from ..files import check_named, file_digest, is_hidden
from ..sources.classes import check_classes, number_classes
from ..sources.detection import has_list_suffix
from ..sources.image_files import (
    FileEntry,
    SkippedError,
    check_image,
    has_image_suffix,
    is_array_name,
    read_source_file,
    walk_folder,
)
from ..sources.listing import (
    ListedFiles,
    Listing,
    Skip,
    lost_classes,
    missing_classes_error,
    no_images_error,
    warn_unlabelled,
)
from ..sources.options import SourceOptions
from ..sources.registry import find_format, list_source
from ..sources.source import Source
from ..splits import Door
from ..threads import available_cores, check_threads, thread_map

_FORMATS = ("folder", "list")
_CONVERT = "Convert the source with stoker.convert, which reads all formats and makes faster shards."
_CONVERT_OTHERS = "Repair or remove them, or convert the others with allow_missing_classes."
_FILES = 1024  # files of a task
_AHEAD = 64


@named_arguments
def index_images(
    src: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    class_depth: int | None = None,
    unlabelled: bool = False,
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Manifest:
    """Make a dataset of the images in a folder, or of those that a list names; no image is copied."""
    # The header of every image is read. Files that are not images, and images that are broken, are left out
    # and counted in ``Manifest.skipped``. Each time a loader reads a file, it compares the size and the time
    # of the last change with the listing.
    check_progress(progress)
    check_named(source=src, into=into)
    if is_url(into):
        raise SourceError(
            "an index of image files lies on a local disk, and this is a URL", path=into, hint=_CONVERT
        )
    check_shadows_no_images(into, [src])
    threads = check_threads(num_threads, max(8, 2 * available_cores()))
    listing = list_images(src, class_depth, check_classes(classes), unlabelled=unlabelled, door="index")
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
    files = walk_folder(os.path.realpath(path), follow_links=True)
    names = (file.key for file in files if isinstance(file, FileEntry))
    return any(has_image_suffix(name) or is_array_name(name) for name in names)


def check_shadows_no_images(into: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse a folder of other images for an index: loaders would read the index, and not what it held."""
    if is_url(into) or not Path(into).is_dir():
        return
    home = Path(into).resolve()
    if not any(Path(one).resolve().is_relative_to(home) for one in sources) and is_image_source(into):
        raise DatasetError("the target holds other images", path=into, hint="Name another target.")


def list_images(
    src: str | os.PathLike[str],
    class_depth: int | None = None,
    classes: tuple[str, ...] | None = None,
    *,
    unlabelled: bool = False,
    door: Door = "open",
) -> Listing:
    """List the images of a source that can be read in place, with the classes of a conversion."""
    if is_url(src):
        raise SourceError(
            "a folder of images at a URL cannot be read in place: each image would take a request",
            path=src,
            hint="Convert it with stoker.convert, which reads every image once.",
        )
    # No image is copied, so that the paths of a list may lead anywhere.
    outside = not os.path.isdir(src)  # noqa: PTH112 - a path or a string
    options = SourceOptions(class_depth=class_depth, unlabelled=unlabelled, outside=outside)
    source_format = find_format(Source(src, options), door=door)
    if source_format.name not in _FORMATS:
        raise SourceError(
            f"the source has the format {source_format.name}, which cannot be read in place",
            path=src,
            hint=_CONVERT,
        )
    if source_format.name == "folder" and is_flat(src):
        options = SourceOptions(unlabelled=True)
    source = Source(src, options)
    try:
        listing = list_source(source, source_format)
        if classes is not None:  # they number the labels, whichever have no image
            return number_classes(listing, classes, src)
    except SourceError as error:
        names = ("class_map", "skip_other_classes", *("=" * (source_format.name == "list")))
        if not any(name in (error.hint or "") for name in names):
            raise
        hint = f"{error.hint} These are arguments of stoker.convert; in place, a list has path and label."
        raise with_details(error, hint=hint) from error
    if listing.missing_classes:
        raise missing_classes_error(
            listing.missing_classes,
            src,
            f"{_CONVERT_OTHERS} Classes that are named with classes may lack images.",
        )
    if listing.labels is None and not unlabelled:
        warn_unlabelled(src, "folders in it would name classes")
    return listing


def is_flat(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has no folders in it, and so no classes."""
    with os.scandir(folder) as entries:
        return not any(entry.is_dir() for entry in entries if not is_hidden(entry.name))


def read_headers(
    files: ListedFiles, threads: int, report: Callable[[int, int], None]
) -> tuple[npt.NDArray[np.int32], dict[int, Skip]]:
    """Return the headers of the N images of a local source, and why some files are left out, by row."""
    # Of a JPEG the start and the end are read. Files of other codecs are read whole, to check their checksums
    # and ends. ``report`` is called with the number of files done, and of all.
    # -> (4, N) int32: codec, height, width, orientation
    headers = np.zeros((4, len(files)), np.int32)
    skipped: dict[int, Skip] = {}
    _, starts, text = files.keys.buffers()
    names = np.frombuffer(starts, np.int64)[: len(files) + 1], np.frombuffer(text or b"", np.uint8)

    def read(start: int) -> None:
        end = min(start + _FILES, len(files))
        root, sizes = str(files.root), files.sizes[start:end]
        codec, height, width, orientation = probe_jpeg_files(
            root, names[0][start : end + 1], names[1], sizes
        ).T
        is_turned = orientation >= 5  # orientations 5 to 8 exchange height and width (Exif 2.32, tag 274)
        turned = np.where(is_turned, width, height), np.where(is_turned, height, width)
        headers[:, start:end] = codec, *turned, orientation
        too_large = height.astype(np.int64) * width > MAX_PIXELS
        for i in (start + np.flatnonzero((codec == Codec.OTHER) | too_large)).tolist():
            header = _read_whole(files, i)
            if isinstance(header, Skip):
                skipped[i] = header
            else:
                headers[:, i] = header

    for start, _ in thread_map(read, range(0, len(files), _FILES), "headers", threads, _AHEAD):
        report(min(start + _FILES, len(files)), len(files))
    return headers, skipped


def _read_whole(files: ListedFiles, i: int) -> ImageHeader | Skip:
    key, size = files.keys[i].as_py(), int(files.sizes[i])
    try:
        data = read_source_file(str(files.root), key, size, follow_links=files.follow_links)
        return check_image(data, MAX_PIXELS)
    except SkippedError as error:
        return Skip(key, *error.args)


def write_image_index(
    listing: Listing,
    folder: Path,
    threads: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    home: Path | None = None,
) -> Manifest:
    """Read the headers of listed images, and write their listing and their index into a folder."""
    # The listing names its folder relative to ``home``, if both may move together.
    headers, broken = read_headers(listing, threads, progress or (lambda done, total: None))
    skipped: list[Skip] = [*listing.skipped, *(broken[row] for row in sorted(broken))]
    if len(broken) == len(listing):
        raise no_images_error("no file is an image", listing.root, skipped)
    if broken:
        if missing := lost_classes(listing, np.array(sorted(broken)), broken.values()):
            raise missing_classes_error(missing, listing.root, _CONVERT_OTHERS)
        intact = np.delete(np.arange(len(listing)), sorted(broken))
        listing, headers = listing.take(intact), headers[:, intact]
    root = source = str(listing.root)
    if home is not None and Path(root).is_relative_to(home.parent):
        root = os.path.relpath(root, home)
    files, path = folder / LISTING_NAME, folder / INDEX_NAME
    starts = write_listing(files, root, listing.keys, listing.sizes, listing.modified)
    columns: dict[str, Any] = {
        "shard": np.zeros(len(listing), np.int32),
        "record": np.arange(len(listing)),
        "offset": starts,
        "length": listing.sizes,
        "crc": np.zeros(len(listing), np.uint32),
        "key": listing.keys,
        **dict(zip(("codec", "height", "width", "orientation"), headers, strict=True)),
        **({} if listing.labels is None else {"label": listing.labels}),
        **listing.columns,
    }
    write_index(path, columns)
    del headers, columns  # before the index is read again, so that a million files take less than 200 MB
    index = Index.open(path)
    return Manifest(
        container=LISTING.name,
        sample_type="image",
        columns=index.types,
        shards=(Shard(LISTING_NAME, files.stat().st_size, len(index), file_digest(files)),),
        index=IndexFile.of(path, len(index)),
        classes=listing.classes,
        options={"made_by": "index", "source": source},
        skipped=dict(Counter(skip.reason for skip in skipped)),
    )
