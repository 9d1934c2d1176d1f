"""The check of a whole dataset, with all of its versions: ``stoker.verify``."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker._native import bands_match, crc32c
from stoker.arguments import check_progress
from stoker.errors import (
    ConfigError,
    CorruptRecordError,
    DatasetError,
    DecodeError,
    StaleIndexError,
    StokerError,
)

from .codecs.codec import CODECS, MAX_PIXELS, Codec
from .codecs.decode import decode_rgb
from .codecs.header import open_mask, read_header
from .codecs.npy import decode_npy
from .containers.container import Record, Sidecar, find_container
from .containers.external import image_header
from .containers.image_record import FeatureNames, LeftOutError
from .dataset.annotations import MASK_COLUMNS, from_columns, is_object_column
from .dataset.columns import ListColumn, range_columns
from .dataset.index import NO_CHECKSUM, Index, Samples, open_index
from .dataset.manifest import MANIFEST_NAME, IndexFile, Manifest, Shard
from .dataset.versions import (
    is_as_written,
    load_version,
    local_folder,
    read_sha256,
    retired_manifest,
    split_version,
    with_sha256,
)
from .files import check_resources, file_digest, file_digests, open_regular, read_at
from .in_place.class_names import ClassNames, Contradiction
from .threads import bounded_map, check_threads

_Check = tuple[int, Callable[[], list["Problem"]]]  # number of rows, and the check

_CHANGED = "{} is not as it was written: its digest differs; restore it, or make the dataset again"
_ROWS = 512
_ROWS_DECODED = 16  # few, because an interrupt waits for tasks in flight, and a progress bar moves with each
_AHEAD = 64
_MOST_PROBLEMS = 1000


@dataclass(frozen=True)
class Problem:
    """One problem, and the shard, record and sample that have it."""

    message: str  # The problem
    shard: str | None = None  # Name of the shard; None for a problem of the index or the manifest
    record: int | None = None  # Number of the record in the shard, from 0
    key: str | None = None  # The sample's name in its source

    def __str__(self) -> str:
        location = [
            f"{name} {value}" for name, value in vars(self).items() if name != "message" and value is not None
        ]
        return f"{', '.join(location)}: {self.message}" if location else self.message


@dataclass(frozen=True)
class Report:
    """The result of :func:`verify`."""

    path: Path  # The dataset's folder
    samples: int  # Number of samples checked; a sample that several versions have counts once
    bytes: int  # Bytes of the data files
    versions: int  # Number of versions checked
    decoded: bool  # Whether the images were decoded as well
    found: int  # Number of problems
    problems: tuple[Problem, ...]  # At most 1,000 of them, in the order of shards and records

    @property
    def ok(self) -> bool:
        return self.found == 0


def verify(
    path: str | os.PathLike[str],
    *,
    decode: bool = False,
    num_threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Check every byte of a dataset, with all of its versions.

    Args:
        path: The dataset's folder; ``shards/train@3`` checks only version 3.
        decode: Whether to decode every image as well, which takes far longer.
        num_threads: Threads that read; by default the cores that this process may use.
        progress: Called with samples done and samples in all, from the calling thread.

    Raises:
        ConfigError: ``num_threads`` is not a number of threads.
        DatasetError: The folder has no manifest that can be read. All other problems are in the report.
    """
    check_progress(progress)
    threads = check_threads(num_threads)
    path, version = split_version(path)
    folder = local_folder(path)
    manifest = load_version(folder, version)
    versions, problems = _checked_versions(folder, manifest, earlier=version is None)
    problems += [problem for checked in versions for problem in checked.problems]
    total = sum(len(rows) for checked in versions for rows in checked.rows)
    classes = RecordClasses(manifest)
    found, done = len(problems), 0
    checks = chain.from_iterable(_checks(checked, classes, decode) for checked in versions)
    with ThreadPoolExecutor(threads, thread_name_prefix="stoker-verify") as pool:
        # An interrupt waits for the tasks in flight, so they are few.
        for count, new_problems in bounded_map(pool, checks, _AHEAD):
            found += len(new_problems)
            problems += new_problems[: _MOST_PROBLEMS - len(problems)]
            done += count
            if progress is not None:
                progress(done, total)
    contradictions = [
        Problem(f"records contradict each other: {message}", manifest.shards[shard].name, record)
        for shard, record, message in classes.contradictions()
    ]
    found += len(contradictions)
    problems += contradictions[: _MOST_PROBLEMS - len(problems)]
    return Report(
        path=folder,
        samples=total,
        bytes=manifest.data_bytes,
        versions=len(versions),
        decoded=decode,
        found=found,
        problems=tuple(sorted(problems, key=_sort_key)),
    )


@dataclass(frozen=True)
class _Version:
    """A version of a dataset, and the parts of it that are checked."""

    folder: Path  # The dataset's folder
    manifest: Manifest
    files: list[Path]  # Data file of every shard
    index: Index | None  # None if it cannot be used
    problems: list[Problem]  # Problems of manifest and index
    rows: Sequence[range] = ()  # Rows of the index to check, as ranges
    shards: Sequence[int] = ()  # Numbers of the shards to check


def _checked_versions(folder: Path, last: Manifest, *, earlier: bool) -> tuple[list[_Version], list[Problem]]:
    """Return ``last`` and, if ``earlier``, the versions before it, and problems of unreadable manifests."""
    unreadable: list[Problem] = []
    kept = None
    try:
        kept = read_sha256(folder)
        last = with_sha256(last, kept, folder)
    except DatasetError as error:
        kept, unreadable = None, [Problem(error.message)]
    if not is_as_written(last, kept):
        unreadable.append(Problem(_CHANGED.format(MANIFEST_NAME)))
    versions = [_version(folder, last, [], "")]
    for number in range(last.dataset_version - 1 if earlier else 0, 0, -1):
        if not (folder / retired_manifest(number)).exists():
            continue  # stoker stage copies only one version
        try:
            manifest = with_sha256(Manifest.load(folder, retired_manifest(number)), kept)
            versions.append(_version(folder, manifest, versions, f"version {number}: "))
            if not is_as_written(manifest, kept):
                unreadable.append(Problem(_CHANGED.format(retired_manifest(number))))
        except DatasetError as error:
            unreadable.append(Problem(f"version {number}: {error.message}"))
    return versions, unreadable


def _version(folder: Path, manifest: Manifest, later: list[_Version], words: str) -> _Version:
    """Return a version with the rows and shards that no later one has; its problems start with ``words``."""
    later_shards = {shard for version in later for shard in version.manifest.shards}
    shards = [number for number, shard in enumerate(manifest.shards) if shard not in later_shards]
    index, problems, rows = None, [], list[range]()
    try:
        index = open_index(folder, manifest)
        if manifest.sample_type == "image":
            index.check_sizes()
        index.check_shapes(manifest.arrays, range(len(index)))
        if differing := _differing_digest(folder / manifest.index.file, manifest.index):
            problems.append(f"the index is not the one of the manifest: its {differing} differs")
    except OSError as error:
        check_resources(error, folder)
        problems.append(f"the index cannot be read: {error}")
    except DatasetError as error:
        index, problems = None, [error.message]
    if index is not None:
        later_ids = [_record_ids(version.index) for version in later if version.index is not None]
        new = np.isin(_record_ids(index), np.concatenate([np.empty(0, np.int64), *later_ids]), invert=True)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], new, [False]))))
        rows = [range(start, stop) for start, stop in edges.reshape(-1, 2).tolist()]
    found = [Problem(f"{words}{problem}") for problem in problems]
    return _Version(folder, manifest, manifest.data_files(folder), index, found, rows, shards)


def _record_ids(index: Index) -> npt.NDArray[np.int64]:
    shard, record = index.column("shard"), index.column("record")
    return np.asarray((shard.astype(np.int64) << 40) + record)


def _differing_digest(path: Path, stated: Shard | IndexFile) -> str:
    """Return the name of a digest of a file that differs, "digest" or "SHA-256"; empty if none does."""
    if stated.sha256 is None:
        return "digest" if stated.digest not in (None, file_digest(path)) else ""
    digests = file_digests(path)
    if digests.crc != stated.digest:
        return "digest"
    return "SHA-256" if digests.sha256 != stated.sha256 else ""


def _sort_key(problem: Problem) -> tuple[str, int, str]:
    return problem.shard or "", -1 if problem.record is None else problem.record, problem.key or ""


def _checks(version: _Version, classes: RecordClasses, decode: bool) -> Iterator[_Check]:
    """Return tasks with their numbers of rows; checks of files lie between, so that progress is even."""
    count = len(version.shards)
    of_files = (
        (i / count, (0, partial(_verify_file, version, number, classes)))
        for i, number in enumerate(version.shards)
    )
    of_rows = iter(()) if version.index is None else _row_checks(version, version.index, decode)
    merged: Iterator[tuple[float, _Check]] = heapq.merge(of_files, of_rows, key=itemgetter(0))
    return (check for _, check in merged)


def _row_checks(version: _Version, index: Index, decode: bool) -> Iterator[tuple[float, _Check]]:
    decode = decode and version.manifest.sample_type == "image"
    step = _ROWS_DECODED if decode else _ROWS
    for run in version.rows:
        for start in range(run.start, run.stop, step):
            rows = range(start, min(start + step, run.stop))
            checked = _Rows(index, version.files, rows, version.manifest, decode)
            yield start / len(index), (len(rows), checked.verify)


def _verify_file(version: _Version, number: int, classes: RecordClasses) -> list[Problem]:
    """Check the size, the digest and the framing of a data file, and the sidecar files of its shard."""
    shard, file = version.manifest.shards[number], version.files[number]
    problems = []
    try:
        with open_regular(file) as (_, size):
            pass
        if size != shard.bytes:
            return [Problem(f"the file has {size} bytes where the manifest says {shard.bytes}", shard.name)]
        if differing := _differing_digest(file, shard):
            message = f"the file is not as it was written: its {differing} differs"
            problems.append(Problem(message, shard.name))
        problems += _verify_records(version, file, shard, partial(classes.add, number))
    except CorruptRecordError as error:
        problems.append(Problem(error.message, shard.name, error.record))
    except OSError as error:
        check_resources(error, file)
        problems.append(Problem(f"the file cannot be read: {error}", shard.name))
    return problems


def _verify_records(
    version: _Version, file: Path, shard: Shard, add: Callable[[Record], None]
) -> Iterator[Problem]:
    """Count the records of a data file, give each to ``add``, and compare the sidecar files with them."""
    container = find_container(version.manifest.container)
    count = 0
    entries: dict[Sidecar, list[bytes]] = {sidecar: [] for sidecar in container.sidecars}
    for record in container.scan(file):
        count += 1
        add(record)
        for sidecar, lines in entries.items():
            lines.append(sidecar.entry(record.offset, record.length))
    if count != shard.records:
        yield Problem(f"{count} records where the manifest says {shard.records}", shard.name)
    for sidecar, lines in entries.items():
        path = version.folder / sidecar.name(shard.name, external=shard.path is not None)
        expected = b"".join(lines)
        with suppress(FileNotFoundError), open_regular(path) as (descriptor, size):  # Stoker does not need it
            if size != len(expected) or read_at(descriptor, 0, size) != expected:
                words = f"the {sidecar.suffix} file, which {sidecar.reader} reads, does not fit the shard"
                yield Problem(words, shard.name)


@dataclass(frozen=True)
class _Rows:
    """Some rows of an index, whose payloads, masks, labels and objects are checked.

    The checks yield the position of a row among these rows, and its problem.
    """

    index: Index
    files: list[Path]  # Data file of every shard
    rows: range
    manifest: Manifest
    decode: bool  # Whether images and masks are decoded as well

    def verify(self) -> list[Problem]:
        shards = dict(enumerate(shard.name for shard in self.manifest.shards))
        shard, record = self.index.column("shard"), self.index.column("record")
        is_listing = find_container(self.manifest.container).payload_files is not None
        payloads = self._listed_files() if is_listing else self._payloads()
        problems = []
        for i, message in sorted(chain(payloads, self._labels(), self._objects())):
            row, key = self.rows[i], None
            with suppress(DatasetError):
                key = self.index.keys([row])[0]
            problems.append(Problem(message, shards.get(int(shard[row])), int(record[row]), key))
        return problems

    def _payloads(self) -> Iterator[tuple[int, str]]:
        images: Samples | None = None
        bands: npt.NDArray[np.uint32] | None = None
        try:
            bands = self.index.bands(self.rows)
            images = self.index.samples(self.rows) if self.decode else None
        except StaleIndexError as error:
            yield 0, error.message

        def check_payload(data: bytes, i: int) -> str | None:
            if bands is not None and bands[i].any() and not bands_match(data, bands[i]):
                return "the checksums of its bands in the index do not match"
            return None if images is None else _image_problem(data, images, i)

        def check_mask(data: bytes, i: int) -> str | None:
            return (
                None if images is None else mask_problem(data, (int(images.height[i]), int(images.width[i])))
            )

        yield from self._damaged("payload", ("offset", "length", "crc"), check_payload)
        if "mask_offset" in self.index.types:
            yield from self._damaged("mask", tuple(MASK_COLUMNS), check_mask)
        for name in self.manifest.arrays:
            yield from self._damaged(f"array {name!r}", range_columns(name), lambda data, i: None)

    def _damaged(
        self, what: str, byte_range: tuple[str, ...], check: Callable[[bytes, int], str | None]
    ) -> Iterator[tuple[int, str]]:
        """Yield each row whose bytes are damaged, or have a problem that ``check`` finds."""
        shard, *ranges = (
            self.index.column(name)[self.rows.start : self.rows.stop] for name in ("shard", *byte_range)
        )
        for number in np.unique(shard).tolist():
            at = np.flatnonzero(shard == number).tolist()
            if not 0 <= number < len(self.files):
                if what == "payload":
                    yield from ((i, f"the index names shard {number} of {len(self.files)}") for i in at)
                continue
            try:
                with open_regular(self.files[number]) as (descriptor, size):
                    for i in at:
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
                check_resources(error, self.files[number])
                if error.filename is None:  # the check of the file reports one that cannot be opened
                    yield at[0], f"the file cannot be read: {error}"

    def _listed_files(self) -> Iterator[tuple[int, str]]:
        """Yield the problems of images in files of their own, which may have changed since."""
        payloads = find_container(self.manifest.container).payload_files
        assert payloads is not None, "the container is a listing"
        try:
            samples = self.index.samples(self.rows)
        except StaleIndexError as error:
            yield 0, error.message
            return
        for i, shard in enumerate(samples.shard.tolist()):
            if not 0 <= shard < len(self.files):
                yield i, f"the index names shard {shard} of {len(self.files)}"
                continue
            try:
                data = payloads.read(self.files[shard], int(samples.offset[i]), int(samples.length[i]))
            except OSError as error:
                check_resources(error, self.files[shard])
                yield i, f"the file cannot be read: {error}"
                continue
            if self.decode and (message := _image_problem(data, samples, i)):
                yield i, message

    def _labels(self) -> Iterator[tuple[int, str]]:
        arrow_type, classes = self.index.types.get("label", ""), len(self.manifest.classes)
        if not classes:
            return
        if arrow_type == "int64":
            labels = self.index.column("label")[self.rows.start : self.rows.stop]
            owner = np.arange(len(self.rows))
        elif arrow_type.startswith("large_list"):
            try:
                lists = self.index.lists("label").take(self.rows)
            except ValueError as error:
                yield 0, f"the labels in the index are damaged: {error}"
                return
            labels, owner = lists.values, np.repeat(np.arange(len(self.rows)), lists.counts)
        else:
            return
        for i in np.flatnonzero((labels < 0) | (labels >= classes)):
            yield int(owner[i]), f"label {labels[i]} is none of the {classes} classes"

    def _objects(self) -> Iterator[tuple[int, str]]:
        types = self.index.types.items()
        try:
            columns = {name: self.index.lists(name) for name, kind in types if is_object_column(name, kind)}
        except DatasetError as error:
            yield 0, error.message
            return
        for i, row in enumerate(self.rows if columns else ()):
            if message := self._object_problem(columns, row):
                yield i, message

    def _object_problem(self, columns: dict[str, ListColumn], row: int) -> str | None:
        classes = len(self.manifest.classes)
        try:
            of_row = {name: column.take([row]) for name, column in columns.items()}
            objects = from_columns(of_row, 1, len(self.manifest.annotations.keypoints))
            height, width = (int(self.index.column(name)[row]) for name in ("height", "width"))
        except (ValueError, DatasetError) as error:
            return f"the objects in the index contradict each other: {error}"
        if classes and ((objects.labels < 0) | (objects.labels >= classes)).any():
            return f"an object has a label outside the {classes} classes"
        low, high = objects.boxes[:, :2], objects.boxes[:, 2:]
        if not ((low >= 0) & (low < high) & (high <= (width, height))).all():
            return f"an object has an empty box, or one that leaves the image of {width} x {height} pixels"
        pixels = height * width
        if any(len(runs) and int(runs.sum(dtype=np.int64)) != pixels for runs in objects.runs or ()):
            return f"an object has run lengths that do not fill {width} x {height} pixels"
        return None


def _image_problem(data: bytes, images: Samples, i: int) -> str | None:
    height, width = int(images.height[i]), int(images.width[i])
    if (codec := CODECS[Codec(images.codec[i])]).bytes_of_pixel:
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
        check_resources(error, None)
        return f"not decodable: {error}"
    if header != (images.codec[i], height, width, images.orientation[i]):
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
        check_resources(error, None)
        return f"the mask is not decodable: {error}"
    if mask_size != size:
        return f"the mask is {mask_size[1]} x {mask_size[0]} where the image is {size[1]} x {size[0]}"
    return None if mode in ("L", "I;16", "I;16B", "I") else f"the mask has more than one channel: {mode}"


class RecordClasses:
    """The classes that the records of external shards name; several threads add to it.

    Stoker's own records repeat what the index says. Records of other programs may contradict it.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._container = find_container(manifest.container)
        self._is_enabled = manifest.options.get("made_by") == "index"
        self._names = FeatureNames()
        if self._is_enabled:
            with suppress(ConfigError):  # the manifest has no names that can be read
                self._names = FeatureNames.from_manifest(manifest.options)
        self._shards = len(manifest.shards)
        self._class_names = ClassNames(manifest.classes)

    def add(self, shard: int, record: Record) -> None:
        if not self._is_enabled:
            return
        try:
            sample = self._container.parse_image(record, self._names)
            image_header(record, sample)
        except (StokerError, LeftOutError):  # it is not in the index, or the check of its payload reports it
            return
        self._class_names.see(shard, record.number, sample)

    def contradictions(self) -> Iterator[Contradiction]:
        for shard in range(self._shards):
            yield from self._class_names.contradictions(shard)
        yield from self._class_names.names_of_several_labels()
