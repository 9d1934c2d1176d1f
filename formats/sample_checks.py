"""Checks of single samples for ``stoker.verify``: payloads, masks, arrays, labels and objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker._native import bands_match, crc32c
from stoker.errors import ConfigError, DatasetError, DecodeError, StaleIndexError, StokerError

from .codecs.codec import CODECS, MAX_PIXELS, Codec
from .codecs.decode import decode_rgb
from .codecs.header import open_mask, read_header
from .codecs.npy import decode_npy
from .containers.container import PayloadFiles, Record, find_container
from .containers.external import image_header
from .containers.image_record import FeatureNames, LeftOutError
from .dataset.annotations import MASK_COLUMNS, from_columns, is_object_column
from .dataset.columns import ListColumn, range_columns
from .dataset.index import NO_CHECKSUM, Index, Samples
from .dataset.manifest import Manifest
from .files import open_regular, read_at
from .in_place.class_names import ClassNames, Contradiction, LabelName, names_in

# Returns the problem of the bytes of the row with this index, or None.
_Check = Callable[[bytes, int], str | None]


def row_problems(
    index: Index, files: list[Path], rows: range, manifest: Manifest, *, decode: bool
) -> Iterator[tuple[int, str]]:
    """Yield the index in ``rows``, and the problem, of each row that is not intact."""
    # ``files`` has the data file of every shard. With ``decode``, images and masks are decoded as well.
    if (payloads := find_container(manifest.container).payload_files) is not None:
        yield from _listed_file_problems(index, files, rows, payloads, decode=decode)
    else:
        yield from _payload_problems(index, files, rows, manifest, decode=decode)
    yield from _label_problems(index, rows, manifest)
    yield from _object_problems(index, rows, manifest)


def _payload_problems(
    index: Index, files: list[Path], rows: range, manifest: Manifest, *, decode: bool
) -> Iterator[tuple[int, str]]:
    images: Samples | None = None
    bands: npt.NDArray[np.uint32] | None = None
    try:
        bands = index.bands(rows)
        images = index.samples(rows) if decode else None
    except StaleIndexError as error:
        yield 0, error.message

    def check_payload(data: bytes, i: int) -> str | None:
        if bands is not None and bands[i].any() and not bands_match(data, bands[i]):
            return "the checksums of its bands in the index do not match"
        return None if images is None else _image_problem(data, images, i)

    def check_mask(data: bytes, i: int) -> str | None:
        return None if images is None else mask_problem(data, (int(images.height[i]), int(images.width[i])))

    checks: dict[str, tuple[tuple[str, ...], _Check]] = {
        "payload": (("offset", "length", "crc"), check_payload)
    }
    if "mask_offset" in index.types:
        checks["mask"] = (tuple(MASK_COLUMNS), check_mask)
    for name in manifest.arrays:
        checks[f"array {name!r}"] = (range_columns(name), lambda data, i: None)
    for what, (byte_range, check) in checks.items():
        columns = [index.column(name)[rows.start : rows.stop] for name in ("shard", *byte_range)]
        yield from _damaged(what, files, columns, check)


def _damaged(
    what: str, files: list[Path], columns: list[npt.NDArray[Any]], check: _Check
) -> Iterator[tuple[int, str]]:
    """Yield the index and the problem of each row whose bytes are damaged, or have one that ``check`` finds.

    ``columns`` has the shard, offset, length and checksum of each row.
    """
    shard, *ranges = columns
    for number in np.unique(shard).tolist():
        indices = np.flatnonzero(shard == number).tolist()
        if 0 <= number < len(files):
            yield from _damaged_in_file(what, files[number], indices, ranges, check)
        elif what == "payload":
            yield from ((i, f"the index names shard {number} of {len(files)}") for i in indices)


def _damaged_in_file(
    what: str,
    file: Path,
    indices: list[int],
    ranges: list[npt.NDArray[Any]],
    check: _Check,
) -> Iterator[tuple[int, str]]:
    try:
        with open_regular(file) as (descriptor, size):
            for i in indices:
                offset, length, crc = (int(column[i]) for column in ranges)
                if offset < 0 or length < 0 or offset + length > size:
                    yield i, "the index points outside the shard"
                    continue
                data = read_at(descriptor, offset, length)
                if crc not in (NO_CHECKSUM, crc32c(data)):
                    yield i, f"the {what}'s checksum does not match"
                elif message := check(data, i):
                    yield i, message
    except OSError as error:
        if error.filename is None:  # verify() reports a file that cannot be opened
            yield indices[0], f"the file cannot be read: {error}"


def _image_problem(data: bytes, images: Samples, i: int) -> str | None:
    """Return the problem of an image in an intact payload, or None."""
    height, width = int(images.height[i]), int(images.width[i])
    if (codec := CODECS[Codec(images.codec[i])]).is_raw:
        fits = any(len(data) == height * width * count for count in codec.bytes_of_pixel)
        return None if fits else f"{len(data)} bytes are not {height} x {width} pixels"
    try:
        header = read_header(data)
        if header.codec == Codec.NPY:
            pixels = decode_npy(data, MAX_PIXELS)
        else:
            pixels = decode_rgb(data, header.codec, height, width)
    except DecodeError as error:
        return f"not decodable: {error.message}"
    # Pillow's decoders raise almost anything on a damaged image.
    except Exception as error:
        return f"not decodable: {error}"
    stated = (header.codec, header.height, header.width, header.orientation)
    if stated != (images.codec[i], height, width, images.orientation[i]):
        return f"the image is {header.width} x {header.height}, not as the index says"
    if pixels.shape[:2] != (height, width):
        size = f"{pixels.shape[1]} x {pixels.shape[0]}"
        return f"the decoded image is {size}, not {width} x {height} as its header says"
    return None


def mask_problem(data: bytes, size: tuple[int, int]) -> str | None:
    """Return the problem of an intact mask of an image of ``size``, height and width; None if it has none."""
    try:
        with open_mask(data) as image:
            image.load()
            mask_size, mode = (image.height, image.width), image.mode
    # Pillow's decoders raise almost anything on a damaged image.
    except Exception as error:
        return f"the mask is not decodable: {error}"
    if mask_size != size:
        return f"the mask is {mask_size[1]} x {mask_size[0]} where the image is {size[1]} x {size[0]}"
    return None if mode in ("L", "I;16", "I;16B", "I") else f"the mask has more than one channel: {mode}"


def _listed_file_problems(
    index: Index, files: list[Path], rows: range, payloads: PayloadFiles, *, decode: bool
) -> Iterator[tuple[int, str]]:
    """Yield the problems of images in files of their own, which may have changed since they were listed."""
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
        if decode and (message := _image_problem(data, samples, i)):
            yield i, message


def _label_problems(index: Index, rows: range, manifest: Manifest) -> Iterator[tuple[int, str]]:
    classes = len(manifest.classes)
    arrow_type = index.types.get("label", "")
    if not classes:
        return
    if arrow_type == "int64":
        labels = index.column("label")[rows.start : rows.stop]
        owner = np.arange(len(rows))
    elif arrow_type.startswith("large_list"):
        try:
            lists = index.lists("label").take(np.arange(rows.start, rows.stop))
        except ValueError as error:
            yield 0, f"the labels in the index are damaged: {error}"
            return
        labels, owner = lists.values, np.repeat(np.arange(len(rows)), lists.counts)
    else:
        return
    for i in np.flatnonzero((labels < 0) | (labels >= classes)):
        yield int(owner[i]), f"label {labels[i]} is none of the {classes} classes"


def _object_problems(index: Index, rows: range, manifest: Manifest) -> Iterator[tuple[int, str]]:
    names = [name for name, arrow_type in index.types.items() if is_object_column(name, arrow_type)]
    if not names:
        return
    try:
        columns = {name: index.lists(name) for name in names}
    except DatasetError as error:
        yield 0, error.message
        return
    for i, row in enumerate(rows):
        if message := _object_problem(index, columns, row, manifest):
            yield i, message


def _object_problem(index: Index, columns: dict[str, ListColumn], row: int, manifest: Manifest) -> str | None:
    try:
        of_row = {name: column.take([row]) for name, column in columns.items()}
        objects = from_columns(of_row, 1, len(manifest.annotations.keypoints))
        height, width = (int(index.column(name)[row]) for name in ("height", "width"))
    except (ValueError, DatasetError) as error:
        return f"the objects in the index contradict each other: {error}"
    if manifest.classes and ((objects.labels < 0) | (objects.labels >= len(manifest.classes))).any():
        return f"an object has a label outside the {len(manifest.classes)} classes"
    low, high = objects.boxes[:, :2], objects.boxes[:, 2:]
    if not ((low >= 0) & (low < high) & (high <= (width, height))).all():
        return f"an object has an empty box, or one that leaves the image of {width} x {height} pixels"
    pixels = height * width
    if any(len(runs) and int(runs.sum(dtype=np.int64)) != pixels for runs in objects.runs or ()):
        return f"an object has run lengths that do not fill {width} x {height} pixels"
    return None


class RecordClasses:
    """The classes that the records of external shards name; several threads add to it.

    Stoker's own records repeat what the index says. Records of other programs may contradict it.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._container = find_container(manifest.container)
        self._is_enabled = manifest.options.get("made_by") == "index"
        self._names = _names(manifest) if self._is_enabled else FeatureNames()
        self._classes = manifest.classes
        self._seen: dict[int, dict[LabelName, int]] = {}

    def add(self, shard: int, record: Record) -> None:
        """Add the class of a record of the shard with this number."""
        if not self._is_enabled:
            return
        try:
            sample = self._container.parse_image(record, self._names)
            image_header(record, sample)
        except (StokerError, LeftOutError):  # it is not in the index, or the check of its payload reports it
            return
        for label_name in names_in(sample):
            self._seen.setdefault(shard, {}).setdefault(label_name, record.number)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the contradictions, in the order of shards, once all records are added."""
        names = ClassNames(self._classes)
        for shard in sorted(self._seen):
            yield from names.add(shard, self._seen[shard])
        yield from names.names_of_several_labels()


def _names(manifest: Manifest) -> FeatureNames:
    """Return the feature names that the dataset was indexed with; the defaults if the manifest has none."""
    try:
        return FeatureNames.from_manifest(manifest.options)
    except ConfigError:
        return FeatureNames()
