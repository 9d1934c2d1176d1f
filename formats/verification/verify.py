"""The check of a whole dataset: digests, framing, the checksum of every payload, decodability.

Data files are read, never mapped, and every number in them is checked before it is used: whatever the files
contain, the result is a report.
"""

from __future__ import annotations

import heapq
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from stoker.arguments import check_progress
from stoker.errors import CorruptRecordError, DatasetError

from ..concurrency.bounded_map import bounded_map
from ..concurrency.cores import check_threads
from ..containers.registry import find_container
from ..dataset.consistency import local_folder, open_index
from ..dataset.manifest import Manifest
from ..files.reading import file_digest, open_regular, read_at
from .annotations import object_problems
from .class_labels import RecordClasses, label_problems
from .listed_files import listed_file_problems
from .payloads import payload_problems

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..containers.base import Container, Record, Sidecar
    from ..dataset.index import Index
    from ..dataset.manifest import Shard

    _Check = tuple[int, Callable[[], list["Problem"]]]

__all__ = ["Problem", "Report", "verify"]

_ROWS = 512
_ROWS_DECODED = 16  # few, because an interrupt waits for tasks in flight, and a bar moves with each
_AHEAD = 64
_MOST_PROBLEMS = 1000


@dataclass(frozen=True)
class Problem:
    """One problem and its position.

    Attributes:
        message: The problem.
        shard: Name of the shard; None for a problem of the index or the manifest.
        record: Position of the record in the shard, from 0.
        key: The sample's name in its source.
    """

    message: str
    shard: str | None = None
    record: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        where = [
            f"{name} {value}" for name, value in vars(self).items() if name != "message" and value is not None
        ]
        return f"{', '.join(where)}: {self.message}" if where else self.message


@dataclass(frozen=True)
class Report:
    """The result of :func:`verify`.

    Attributes:
        path: The dataset's folder.
        samples: Number of samples checked.
        bytes: Bytes of the data files.
        decoded: Whether the images were decoded as well.
        found: Number of problems.
        problems: At most 1,000 of them, in the order of shards and records.
    """

    path: Path
    samples: int
    bytes: int
    decoded: bool
    found: int
    problems: tuple[Problem, ...]

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
    """Check every byte of a dataset.

    Args:
        path: The dataset's folder.
        decode: Whether to decode every image as well, which takes far longer.
        num_threads: Threads that read; by default the cores that this process may use.
        progress: Called with samples done and samples in all, from the calling thread.

    Raises:
        ConfigError: ``num_threads`` is no number of threads.
        DatasetError: The folder has no manifest that can be read. The report has all other problems.
    """
    check_progress(progress)
    threads = check_threads(num_threads)
    folder = local_folder(path)
    manifest = Manifest.load(folder)
    index, problems = _verify_index(folder, manifest)
    dataset = _Dataset(folder, manifest, manifest.data_files(folder), index)
    rows = 0 if index is None else len(index)
    classes = RecordClasses(manifest)
    found, done = len(problems), 0
    with ThreadPoolExecutor(threads, thread_name_prefix="stoker-verify") as pool:
        # An interrupt waits for the tasks in flight, so they are few.
        for checked, some in bounded_map(pool, _checks(dataset, classes, decode), _AHEAD):
            found += len(some)
            problems += some[: _MOST_PROBLEMS - len(problems)]
            done += checked
            if progress is not None:
                progress(done, rows)
    contradictions = [
        Problem(f"records contradict each other: {message}", manifest.shards[shard].name, record)
        for shard, record, message in classes.contradictions()
    ]
    found += len(contradictions)
    problems += contradictions[: _MOST_PROBLEMS - len(problems)]
    return Report(
        path=folder,
        samples=rows,
        bytes=sum(shard.bytes for shard in manifest.shards),
        decoded=decode,
        found=found,
        problems=tuple(sorted(problems, key=_place)),
    )


def _place(problem: Problem) -> tuple[str, int, str]:
    return problem.shard or "", -1 if problem.record is None else problem.record, problem.key or ""


@dataclass(frozen=True)
class _Dataset:
    """The dataset that is checked.

    Attributes:
        folder: Its folder.
        manifest: Its manifest.
        files: Data file of every shard.
        index: Its index; None if it cannot be used.
    """

    folder: Path
    manifest: Manifest
    files: list[Path]
    index: Index | None


def _checks(dataset: _Dataset, classes: RecordClasses, decode: bool) -> Iterator[_Check]:
    """Yield tasks with their numbers of rows; checks of files come between, so that a bar moves evenly."""
    count = len(dataset.files)
    of_files = ((i / count, (0, partial(_verify_file, dataset, i, classes))) for i in range(count))
    index = dataset.index
    of_rows = iter(()) if index is None else _row_checks(dataset, index, decode)
    placed: Iterator[tuple[float, _Check]] = heapq.merge(of_files, of_rows, key=itemgetter(0))
    return (check for _, check in placed)


def _row_checks(dataset: _Dataset, index: Index, decode: bool) -> Iterator[tuple[float, _Check]]:
    step = _ROWS_DECODED if decode else _ROWS
    for start in range(0, len(index), step):
        rows = range(start, min(start + step, len(index)))
        yield start / len(index), (len(rows), partial(_verify_rows, dataset, index, rows, decode))


def _verify_index(folder: Path, manifest: Manifest) -> tuple[Index | None, list[Problem]]:
    try:
        index = open_index(folder, manifest)
        if manifest.sample_type == "image":
            index.check_sizes()
        if file_digest(folder / manifest.index.file) == manifest.index.digest:
            return index, []
        return index, [Problem("the index is not the one of the manifest: its digest differs")]
    except OSError as error:
        return None, [Problem(f"the index cannot be read: {error}")]
    except DatasetError as error:
        return None, [Problem(error.message)]


def _verify_file(dataset: _Dataset, number: int, classes: RecordClasses) -> list[Problem]:
    """Check the size, the digest and the framing of a data file, and the sidecar files of its shard."""
    manifest, file = dataset.manifest, dataset.files[number]
    shard = manifest.shards[number]
    problems = []
    try:
        with open_regular(file) as (_, size):
            pass
        if size != shard.bytes:
            return [Problem(f"the file has {size} bytes where the manifest says {shard.bytes}", shard.name)]
        if file_digest(file) != shard.digest:
            problems.append(Problem("the file is not as it was written: its digest differs", shard.name))
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
            words = f"the {sidecar.suffix} file, which {sidecar.reader} reads, is not that of the shard"
            yield Problem(words, shard.name)


def _is_content(path: Path, expected: bytes) -> bool:
    """Return whether a file has this content, or does not exist: only its own reader misses a sidecar."""
    try:
        with open_regular(path) as (descriptor, size):
            return size == len(expected) and read_at(descriptor, 0, size) == expected
    except FileNotFoundError:
        return True


def _verify_rows(dataset: _Dataset, index: Index, rows: range, decode: bool) -> list[Problem]:
    """Check payloads, masks, labels and objects of some rows."""
    manifest, files = dataset.manifest, dataset.files
    decode = decode and manifest.sample_type == "image"
    if (payloads := find_container(manifest.container).payload_files) is not None:
        problems = list(listed_file_problems(index, files, rows, payloads, decode=decode))
    else:
        problems = list(payload_problems(index, files, rows, manifest.arrays, decode=decode))
    problems += label_problems(index, rows, manifest)
    problems += object_problems(index, rows, manifest)
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
