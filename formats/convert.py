"""Converting a source into shards: plan, run, publish; and go on where a killed conversion stopped."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stoker.errors import ConfigError, SampleError, SourceError
from stoker.formats.conversion_state import ConversionState
from stoker.formats.filelist import list_file
from stoker.formats.folder import list_folder
from stoker.formats.header import MAX_PIXELS
from stoker.formats.listing import inside
from stoker.formats.options import ConvertOptions, Encoding, parse_resize, parse_share, parse_size
from stoker.formats.plan import ConversionPlan, plan_conversion
from stoker.formats.publish import folder_lock, os_errors
from stoker.formats.shards import Cancelled, ShardResult, write_shard

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["Progress", "Summary", "check_workers", "convert", "execute", "no_progress", "shard_bytes"]

Progress = Callable[[int, int, int, str], None]
"""Called from the converting thread with samples done, samples in all, source bytes done, and the stage:
listing, converting, publishing."""

_TICK = 0.1  # seconds between two looks at progress, and to an interrupt


@dataclass(frozen=True)
class Summary:
    """What a conversion did.

    Attributes:
        written: Samples in the shards.
        skipped: How many files or lines were left out, by reason; which ones is in ``skipped.jsonl``.
        bytes: Of all data files.
        seconds: This run took, without listing the source.
        images_per_second: Samples, whatever they are, that this run converted.
        shards: Number of shards.
        datasets: Folder of each dataset by split; under an empty name where there are no splits.
    """

    written: int
    skipped: Mapping[str, int]
    bytes: int
    seconds: float
    images_per_second: float
    shards: int
    datasets: Mapping[str, Path]


def convert(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    format: Literal["tfrecord", "lmdb"] = "tfrecord",  # noqa: A002 - the user's word for it
    seed: int | None = None,
    resize: str | None = None,
    encoding: Encoding = "keep",
    quality: int = 90,
    subsampling: str = "420",
    shard_size: str | int | None = None,
    shard_records: int | None = None,
    shards: int | None = None,
    val: str | float | Fraction = 0,
    test: str | float | Fraction = 0,
    strict: bool = False,
    num_workers: int | None = None,
    class_depth: int | None = None,
    max_pixels: int = MAX_PIXELS,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Convert an image folder or a list of images into a dataset of shards.

    The same source and options give the same bytes, whatever ``num_workers``. If the conversion is
    killed or the disk fills up, the same call goes on where it stopped and ends with the same bytes
    too. ``dst`` becomes a dataset (with splits: ``dst/train``, ``dst/val``, ``dst/test``) in the last
    moment; until then it is none.

    Args:
        src: A folder with one folder a class (see :mod:`stoker.formats.folder`), or a ``.csv``,
            ``.json`` or ``.jsonl`` list of path and label (see :mod:`stoker.formats.filelist`).
        dst: Folder to write; made if missing.
        format: Container of the shards.
        seed: Seed of a global shuffle; None keeps the sorted order.
        resize: ``shorter=N``, ``longer=N``, ``squash=HxW``, ``crop=HxW`` or ``fill=HxW``, see
            :func:`stoker.formats.options.parse_resize`. None leaves the bytes as they are.
        encoding: What is stored: ``keep`` (resized images are JPEG where they were JPEG or WebP, else
            PNG), ``jpeg``, ``png``, or ``raw`` for (H, W, 3) uint8 RGB pixels. EXIF orientation is
            applied when pixels are touched, and recorded in the index when not.
        quality: Of JPEG, 1 to 100.
        subsampling: Of JPEG: 444, 422 or 420.
        shard_size: Bytes that a shard has about, such as ``256MB``, which is the default.
        shard_records: Records that a shard has, instead of a size.
        shards: Number of shards of each split, instead of a size.
        val: Share of the samples of each class that becomes a dataset of its own: ``0.1`` or ``10%``.
            Which ones depends on their keys alone.
        test: Likewise.
        strict: Stop at the first file that is no intact image, instead of skipping it.
        num_workers: Threads; by default the cores that this process may use.
        class_depth: Number of leading folders that name the class; None for all of them.
        max_pixels: Larger images are skipped.
        overwrite: Replace a dataset, or what is left of another conversion, in ``dst``.
        progress: Called about ten times a second.

    Raises:
        ConfigError: An option cannot be meant as given.
        SourceError: The source cannot be used.
        DatasetError: There is a dataset or another unfinished conversion in ``dst``.
        LockedError: Another process is converting into ``dst``.
        DecodeError: ``strict``, and a file is no intact image.
        WriteError: The disk is full or refuses a write; the same call resumes.
    """
    mode, height, width = parse_resize(resize)
    options = ConvertOptions(
        container=format,
        seed=seed,
        mode=mode,
        height=height,
        width=width,
        encoding=encoding,
        quality=quality,
        subsampling=subsampling,
        shard_bytes=shard_bytes(shard_size, shard_records, shards),
        shard_records=shard_records or 0,
        shards=shards or 0,
        val=parse_share("val", val),
        test=parse_share("test", test),
        class_depth=class_depth,
        max_pixels=max_pixels,
        strict=strict,
    )
    report = progress or no_progress
    report(0, 0, 0, "listing")
    workers = check_workers(num_workers)
    plan = _plan(Path(src), Path(dst), options)
    return execute(plan, Path(dst), workers, overwrite=overwrite, report=report)


def shard_bytes(shard_size: str | int | None, shard_records: int | None, shards: int | None) -> int:
    """Bytes of a shard as asked for, by default 256 MB; 0 where shards are made by another rule."""
    if shard_size is None:
        return 0 if shard_records is not None or shards is not None else 256_000_000
    return parse_size("shard_size", shard_size)


def check_workers(num_workers: int | None) -> int:
    """Number of threads: as given, or the cores that this process may use."""
    workers = len(os.sched_getaffinity(0)) if num_workers is None else num_workers
    if workers < 1:
        raise ConfigError(f"num_workers must be at least 1, not {num_workers}")
    return workers


def no_progress(done: int, total: int, size: int, stage: str) -> None:
    """Nobody wants to know."""


def _plan(src: Path, dst: Path, options: ConvertOptions) -> ConversionPlan:
    is_folder = src.is_dir()
    source = os.path.realpath(src)
    for split in options.splits:
        target = os.path.realpath(dst / split)
        if is_folder and (target == source or inside(target, source)):
            raise ConfigError(
                "the target lies in the source, whose images would mix with shards",
                path=dst / split,
                hint="name a folder beside the source",
            )
    if is_folder:
        listing = list_folder(src, class_depth=options.class_depth)
    elif options.class_depth is not None:
        raise ConfigError("class_depth is for folders; a list names its labels itself")
    else:
        listing = list_file(src)
    if options.strict and listing.skipped:
        key, reason, detail = listing.skipped[0]
        raise SourceError(
            f"{reason}: {detail}" if detail else reason,
            path=src,
            key=key,
            hint="repair or remove the file, or convert without strict to skip it",
        )
    return plan_conversion(listing, options)


def execute(plan: ConversionPlan, dst: Path, workers: int, *, overwrite: bool, report: Progress) -> Summary:
    """Run a plan, or what is left of it, and publish its datasets.

    Raises: As :func:`convert`.
    """
    started = time.monotonic()
    with os_errors(dst):
        dst.mkdir(parents=True, exist_ok=True)
        with folder_lock(dst):
            state = ConversionState.enter(dst, plan, overwrite=overwrite)
            run = _Run(plan, state, workers, report)
            try:
                results = run.run()
            except (SampleError, SourceError):
                # Strict, and a sample is bad. Once it is repaired the source is another: nothing to resume.
                state.discard()
                raise
            datasets = state.publish(results)
    seconds = time.monotonic() - started
    skipped = Counter(skip.reason for skip in plan.listing.skipped)
    skipped.update(skip.reason for result in results for skip in result.skipped)
    return Summary(
        written=sum(result.records for result in results),
        skipped=dict(sorted(skipped.items())),
        bytes=sum(result.bytes for result in results),
        seconds=seconds,
        images_per_second=run.converted / seconds,
        shards=sum(1 for result in results if result.records),
        datasets=datasets,
    )


class _Run:
    """Makes the shards that are missing: a few at a time, all of them on one pool of threads.

    A shard that is being synced, which waits for the disk, then leaves the threads to the next one.
    """

    def __init__(self, plan: ConversionPlan, state: ConversionState, workers: int, report: Progress) -> None:
        self._plan = plan
        self._state = state
        self._workers = workers
        self._report = report
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._done = 0
        self._bytes = 0
        self.converted = 0

    def run(self) -> list[ShardResult]:
        """Results of all shards, in order."""
        total = len(self._plan.listing)
        missing = []
        for number, shard in enumerate(self._plan.shards):
            if self._state.finished(number) is None:
                missing.append(number)
            else:
                self._done += len(shard.rows)
                self._bytes += int(self._plan.listing.sizes[shard.rows].sum())
        with (
            ThreadPoolExecutor(self._workers, thread_name_prefix="stoker-encode") as encoders,
            ThreadPoolExecutor(_shards_at_once(self._workers), thread_name_prefix="stoker-shard") as writers,
        ):
            futures = {writers.submit(self._write, number, encoders) for number in missing}
            try:
                self._wait(futures, total)
            finally:
                self._stop.set()
                writers.shutdown(wait=True, cancel_futures=True)
        self._report(self._done, total, self._bytes, "publishing")
        return [self._state.result(number) for number in range(len(self._plan.shards))]

    def _write(self, number: int, encoders: ThreadPoolExecutor) -> None:
        write_shard(
            self._plan,
            number,
            self._state.folder,
            pool=encoders,
            ahead=self._workers + 2,
            tally=self._tally,
            stop=self._stop,
        )

    def _tally(self, samples: int, size: int) -> None:
        with self._lock:
            self._done += samples
            self._bytes += size
            self.converted += samples

    def _wait(self, futures: set[Future[None]], total: int) -> None:
        while futures:
            done, futures = wait(futures, timeout=_TICK, return_when=FIRST_COMPLETED)
            self._report(self._done, total, self._bytes, "converting")
            errors = [error for future in done if (error := future.exception()) is not None]
            # Cancelled only follows from the error of another shard, which may come after it in the set.
            for error in sorted(errors, key=lambda error: isinstance(error, Cancelled)):
                raise error


def _shards_at_once(workers: int) -> int:
    return 2 + workers // 8
