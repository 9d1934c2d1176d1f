"""The check of a whole dataset, with all of its versions: ``stoker.verify``."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stoker.arguments import check_progress
from stoker.errors import CorruptRecordError, DatasetError

from .containers.container import Container, Record, Sidecar, find_container
from .dataset.index import Index, open_index
from .dataset.manifest import IndexFile, Manifest, Shard
from .dataset.versions import (
    load_version,
    local_folder,
    read_sha256,
    retired_manifest,
    split_version,
    with_sha256,
)
from .files import file_digest, file_digests, open_regular, read_at
from .sample_checks import RecordClasses, row_problems
from .threads import bounded_map, check_threads

_Check = tuple[int, Callable[[], list["Problem"]]]  # number of rows, and the check

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
        """Whether there is no problem."""
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
    manifest: Manifest  # The manifest of the version
    files: list[Path]  # Data file of every shard
    index: Index | None  # Its index; None if it cannot be used
    problems: list[Problem]  # Problems of manifest and index
    rows: Sequence[range] = ()  # Rows of the index to check, as ranges
    shards: Sequence[int] = ()  # Numbers of the shards to check


def _checked_versions(folder: Path, last: Manifest, *, earlier: bool) -> tuple[list[_Version], list[Problem]]:
    """Return ``last`` and, if ``earlier``, the versions before it, and problems of unreadable manifests."""
    unreadable: list[Problem] = []
    kept = read_sha256(folder)
    try:
        last = with_sha256(last, kept, folder)
    except DatasetError as error:
        kept, unreadable = None, [Problem(error.message)]
    versions = [_version(folder, last, [], "")]
    for number in range(last.dataset_version - 1 if earlier else 0, 0, -1):
        if not (folder / retired_manifest(number)).exists():
            continue  # stoker stage copies only one version
        try:
            manifest = with_sha256(Manifest.load(folder, retired_manifest(number)), kept)
            versions.append(_version(folder, manifest, versions, f"version {number}: "))
        except DatasetError as error:
            unreadable.append(Problem(f"version {number}: {error.message}"))
    return versions, unreadable


def _version(folder: Path, manifest: Manifest, later: list[_Version], words: str) -> _Version:
    """Return a version with the rows and shards that no later one has; its problems start with ``words``."""
    index, problems = _open_index(folder, manifest, words)
    later_shards = {shard for version in later for shard in version.manifest.shards}
    shards = [number for number, shard in enumerate(manifest.shards) if shard not in later_shards]
    rows: list[range] = []
    if index is not None:
        later_ids = [_record_ids(version.index) for version in later if version.index is not None]
        ids = np.concatenate([np.empty(0, np.int64), *later_ids])
        new = np.isin(_record_ids(index), ids, invert=True)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], new, [False]))))
        rows = [range(start, stop) for start, stop in edges.reshape(-1, 2).tolist()]
    return _Version(folder, manifest, manifest.data_files(folder), index, problems, rows, shards)


def _record_ids(index: Index) -> npt.NDArray[np.int64]:
    """Return (N,) int64, a number for shard and record of each row, the same in all versions."""
    shard, record = index.column("shard"), index.column("record")
    return np.asarray((shard.astype(np.int64) << 40) + record)


def _open_index(folder: Path, manifest: Manifest, words: str) -> tuple[Index | None, list[Problem]]:
    try:
        index = open_index(folder, manifest)
        if manifest.sample_type == "image":
            index.check_sizes()
        differing = _differing_digest(folder / manifest.index.file, manifest.index)
        message = f"{words}the index is not the one of the manifest: its {differing} differs"
        return index, [Problem(message)] if differing else []
    except OSError as error:
        return None, [Problem(f"{words}the index cannot be read: {error}")]
    except DatasetError as error:
        return None, [Problem(f"{words}{error.message}")]


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


def _checks(dataset: _Version, classes: RecordClasses, decode: bool) -> Iterator[_Check]:
    """Return tasks with their numbers of rows; checks of files lie between, so that progress is even."""
    count = len(dataset.shards)
    of_files = (
        (i / count, (0, partial(_verify_file, dataset, number, classes)))
        for i, number in enumerate(dataset.shards)
    )
    index = dataset.index
    of_rows = iter(()) if index is None else _row_checks(dataset, index, decode)
    merged: Iterator[tuple[float, _Check]] = heapq.merge(of_files, of_rows, key=itemgetter(0))
    return (check for _, check in merged)


def _row_checks(dataset: _Version, index: Index, decode: bool) -> Iterator[tuple[float, _Check]]:
    step = _ROWS_DECODED if decode else _ROWS
    for run in dataset.rows:
        for start in range(run.start, run.stop, step):
            rows = range(start, min(start + step, run.stop))
            yield start / len(index), (len(rows), partial(_verify_rows, dataset, index, rows, decode))


def _verify_file(dataset: _Version, number: int, classes: RecordClasses) -> list[Problem]:
    """Check the size, the digest and the framing of a data file, and the sidecar files of its shard."""
    manifest, file = dataset.manifest, dataset.files[number]
    shard = manifest.shards[number]
    problems = []
    try:
        with open_regular(file) as (_, size):
            pass
        if size != shard.bytes:
            return [Problem(f"the file has {size} bytes where the manifest says {shard.bytes}", shard.name)]
        if differing := _differing_digest(file, shard):
            problems.append(
                Problem(f"the file is not as it was written: its {differing} differs", shard.name)
            )
        add = partial(classes.add, number)
        problems += _verify_records(dataset.folder, find_container(manifest.container), file, shard, add)
    except CorruptRecordError as error:
        problems.append(Problem(error.message, shard.name, error.record))
    except OSError as error:
        problems.append(Problem(f"the file cannot be read: {error}", shard.name))
    return problems


def _verify_records(
    folder: Path, container: Container, file: Path, shard: Shard, add: Callable[[Record], None]
) -> Iterator[Problem]:
    """Count the records of a data file, give each to ``add``, and compare the sidecar files with them."""
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
        path = folder / sidecar.name(shard.name, external=shard.path is not None)
        if not _is_content(path, b"".join(lines)):
            words = f"the {sidecar.suffix} file, which {sidecar.reader} reads, does not fit the shard"
            yield Problem(words, shard.name)


def _is_content(path: Path, expected: bytes) -> bool:
    """Return whether a sidecar file has this content or does not exist, as Stoker does not need it."""
    try:
        with open_regular(path) as (descriptor, size):
            return size == len(expected) and read_at(descriptor, 0, size) == expected
    except FileNotFoundError:
        return True


def _verify_rows(dataset: _Version, index: Index, rows: range, decode: bool) -> list[Problem]:
    """Check payloads, masks, labels and objects of some rows."""
    manifest = dataset.manifest
    decode = decode and manifest.sample_type == "image"
    problems = row_problems(index, dataset.files, rows, manifest, decode=decode)
    shards = dict(enumerate(shard.name for shard in manifest.shards))
    shard, record = index.column("shard"), index.column("record")
    return [
        Problem(message, shards.get(int(shard[row])), int(record[row]), _key(index, row))
        for row, message in ((rows[i], message) for i, message in sorted(problems))
    ]


def _key(index: Index, row: int) -> str | None:
    try:
        return index.keys([row])[0]
    except DatasetError:
        return None
