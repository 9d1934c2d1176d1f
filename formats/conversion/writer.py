"""``stoker.Writer``: a dataset of images that a program writes one by one."""

from __future__ import annotations

import os
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import pyarrow as pa

from stoker.arguments import NamedArguments
from stoker.errors import ConfigError, DatasetError, LockedError, SourceError, StokerError, StorageError
from stoker.log import EventLog
from stoker.processes import Cleanup, OwnerProcess
from stoker.urls import is_url

from ..containers.container import DEFAULT_CONTAINER
from ..dataset.annotations import AnnotationInfo
from ..dataset.columns import ORIGIN_COLUMNS, array_types, has_origins
from ..dataset.index import BAND_COLUMNS, IMAGE_COLUMNS, REQUIRED_COLUMNS
from ..dataset.joining import Part, add_part
from ..dataset.manifest import MANIFEST_NAME, Manifest
from ..dataset.versions import check_unchanged, remove_remains
from ..files import check_named, os_errors
from ..sources.classes import check_classes
from ..sources.listing import Listing, Skip, skipped_lines
from ..threads import check_threads
from ..token_columns import CAPTION_COLUMNS
from .captions import Captions, written_captions
from .execution import open_target
from .options import ConvertArguments, ConvertOptions, ImageStorage, WriterOptions
from .plan import DatasetPlan, EncodedRecord, PlannedShard
from .publishing import SplitOutput, Summary
from .sample_encoder import SampleEncoder
from .samples import BOX_FORMATS, CheckedSample, ColumnType, SampleChecker, SampleForm
from .shard import ShardFile, ShardResult, new_attempt, shard_files
from .unfinished import WRITER_FINGERPRINT

W = TypeVar("W", bound="WriterContext")
Outcome = EncodedRecord | Skip | StokerError

_CHUNK_SAMPLES = 32  # in one task: the overhead of a task is small, and several in flight take little memory
_CHUNK_BYTES = 1 << 20
_FILE_BYTES = 1 << 15  # taken for an image at a path, whose size is not asked for


class WriterContext(NamedArguments, ABC):
    """A writer of images or text, whose ``with`` block closes it, or abandons its dataset after an error."""

    equivalents: ClassVar[str] = "conversion"
    _closed = False
    _summary: Summary | None = None

    def _begin(self, target: Path | str, free: Callable[..., None], *resources: object) -> None:
        """Take over resources, which ``free`` releases. Nothing after this may fail in a constructor."""
        self._target = target
        self._owner, self._lock = OwnerProcess(), threading.Lock()
        self._free = Cleanup(self, free, *resources)

    @abstractmethod
    def _publish(self) -> Summary:
        """Publish the dataset; the caller holds the lock."""

    def close(self) -> Summary:
        """Publish the dataset; a second call returns the same.

        Raises:
            SourceError: No sample was written.
            StokerError: As :meth:`write`; nothing is published then.
        """
        if self._summary is None:
            self._check_usable()
            try:
                with self._lock:
                    self._summary = self._publish()
            finally:
                self.abandon()
        return self._summary

    def abandon(self) -> None:
        """Give up the dataset and remove its files; after :meth:`close` it does nothing."""
        self._closed = True
        self._free()

    def _check_usable(self) -> None:
        """Raise an error that names the target if the writer is closed, or belongs to another process."""
        if not self._owner.is_current():
            raise LockedError(
                "this writer was made in another process, which writes into its folder",
                path=self._target,
                hint="Make a writer in each process, each with a folder of its own.",
            )
        if self._closed:
            raise ConfigError("the writer is closed", path=self._target, hint="Make another one.")

    def __enter__(self: W) -> W:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error_type is not None:
            self.abandon()
        elif not self._closed:
            self.close()


_NUMBERS = {"double": "float64", "float": "float32", "halffloat": "float16"}
_NUMBERS |= {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_TYPES = {**_NUMBERS, "large_string": "str"}
_OF_ALL = {*REQUIRED_COLUMNS, *IMAGE_COLUMNS, *BAND_COLUMNS, *CAPTION_COLUMNS}
# The columns that arguments of a sample become.
_COLUMNS = {
    ("boxes", "box_labels"): {f"object_{name}" for name in ("boxes", "labels", "crowd", "area", "id")},
    ("keypoints",): {"object_keypoints"},
    ("corners",): {"object_corners"},
    ("masks",): {
        f"object_{name}" for name in ("polygons", "polygon_sizes", "polygon_owner", "runs", "run_counts")
    },
    ("segmentation",): {f"mask_{name}" for name in ("offset", "length", "crc")},
}


def _existing_manifest(target: str | os.PathLike[str], *, overwrite: bool) -> Manifest | None:
    """Manifest of the dataset to append to; None if there is none."""
    if overwrite:
        raise ConfigError("append and overwrite contradict each other", hint="Leave one of them out.")
    if is_url(target):
        raise ConfigError(
            "append adds to a dataset in a folder, and the target is a URL",
            path=target,
            hint="Copy the dataset to a folder with stoker stage, and append to that.",
        )
    folder = Path(target)
    return Manifest.load(folder) if (folder / MANIFEST_NAME).exists() else None


def _form_of(manifest: Manifest, folder: Path) -> SampleForm:
    """Return the form of the samples of a dataset, so that more of them can be written."""
    if manifest.sample_type != "image" or any(shard.path is not None for shard in manifest.shards):
        raise DatasetError(
            "a writer appends only to a dataset of images whose shards lie in its folder, which this dataset "
            "is not",
            path=folder,
        )
    arrays = {name: ColumnType(array.dtype, len(array.shape)) for name, array in manifest.arrays.items()}
    made_by_writers = {*_OF_ALL, *(column for name in arrays for column in array_types(name))}
    if has_origins(manifest.columns):
        made_by_writers |= set(ORIGIN_COLUMNS)
    types = {name: arrow for name, arrow in manifest.columns.items() if name not in made_by_writers}
    label = types.pop("label", None)
    given: set[str] = set()
    for arguments, columns in _COLUMNS.items():
        if columns <= types.keys():
            given.update(arguments)
            types = {name: arrow for name, arrow in types.items() if name not in columns}
    if unknown := sorted(name for name, arrow in types.items() if arrow not in _TYPES):
        raise DatasetError(
            f"a writer cannot write the columns {', '.join(unknown)} of the dataset",
            path=folder,
            hint="Write another dataset, and load both: stoker.mix.",
        )
    kind = "no label" if label is None else "one label" if label == "int64" else "several labels"
    values = {name: ColumnType(_TYPES[arrow]) for name, arrow in types.items()}
    return SampleForm(kind, frozenset(given - {"segmentation"}), "segmentation" in given, values, arrays)


_LOG = EventLog("conversion")
_NAMED = 5  # classes that a warning names


def appended_classes(classes: tuple[str, ...] | None, manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the classes: ``classes``, or the dataset's if they are None."""
    if classes is None:
        return manifest.classes
    if classes[: len(manifest.classes)] != manifest.classes:
        raise ConfigError(
            f"classes do not begin with the {len(manifest.classes)} of the dataset: labels would change",
            hint="Take stoker.open(target).classes and add names at the end.",
        )
    return classes


class EncodingPool:
    """Encodes samples on threads ahead of their storing, a bounded number of chunks at a time."""

    def __init__(self, encoder: SampleEncoder, num_threads: int) -> None:
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="stoker-write")
        self._ahead = num_threads + 2
        self._chunk: list[CheckedSample] = []
        self._bytes = 0
        self._in_flight: deque[Future[list[Outcome]]] = deque()

    def add(self, sample: CheckedSample) -> Iterator[Outcome]:
        """Add a sample; yield the outcomes that are due: records, skips, and errors of samples."""
        self._chunk.append(sample)
        image = sample.image
        size = len(image) if isinstance(image, bytes) else getattr(image, "nbytes", _FILE_BYTES)
        self._bytes += int(size) + sum(len(array.data) for array in sample.arrays)
        if len(self._chunk) >= _CHUNK_SAMPLES or self._bytes >= _CHUNK_BYTES:
            yield from self.outcomes(self._ahead)

    def outcomes(self, most: int) -> Iterator[Outcome]:
        """Encode the waiting samples; yield outcomes until at most ``most`` chunks are in flight."""
        if self._chunk:
            chunk, self._chunk, self._bytes = self._chunk, [], 0
            self._in_flight.append(self._pool.submit(_encode, self._encoder, chunk))
        while len(self._in_flight) > most:
            yield from self._in_flight.popleft().result()

    def close(self) -> None:
        """End the threads; samples in flight are lost."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _encode(encoder: SampleEncoder, chunk: list[CheckedSample]) -> list[Outcome]:
    return [_encode_one(encoder, sample) for sample in chunk]


def _encode_one(encoder: SampleEncoder, sample: CheckedSample) -> Outcome:
    try:
        return encoder.encode(sample)
    except StokerError as error:
        return error


class Writer(WriterContext):
    """Writes samples into a dataset of images.

    The samples become a dataset in :meth:`close`, or at the end of a ``with`` block. Until then, and if the
    block raises or the process is killed, the folder holds no dataset. A writer may be used from several
    threads; it stores samples in the order of the calls. The first sample fixes the form of all samples: a
    label, several or none; objects; a mask; and the names and types of the columns.

    Args:
        target: Folder to write, made if missing; or a URL, to which finished shards are uploaded.
        classes: Names of the classes, label 0 first. None numbers names in the order in which they
            first occur, and takes numbers as they are.
        keypoints: Names of the keypoints of an object; a mirrored image swaps ``left_eye`` and ``right_eye``.
        box_format: "XYXY" (left, top, right, bottom), "XYWH" (left, top, width, height; COCO's) or "CXCYWH"
            (centre, width, height), in pixels.
        ignore_index: Value in masks for pixels without a class; None if there is none.
        container: Container of the shards: ``tfrecord`` or ``lmdb``.
        resize: This and the next three as for :func:`stoker.convert`; boxes, keypoints and masks are resized,
            too.
        encoding: With ``keep``, arrays and images of Pillow become PNG files.
        quality: JPEG quality of images that are encoded again.
        shard_size: Approximate bytes of a shard.
        strict: Raise an error for a broken image; else it is left out, and ``skipped.jsonl`` names it.
        num_threads: Threads that check and encode; by default the cores that this process may use.
        append: Add the samples to the dataset in ``target``, if there is one, as its next version. They must
            have the fields of its samples; ``classes`` may add names after its classes.
        overwrite: Replace a dataset, or an unfinished conversion, in ``target``.
        captions: The tokenizer of captions, and the name under which :meth:`write` takes one or several.
        storage: Further options of shards and of stored images, see :class:`stoker.ImageStorage`.

    Raises:
        ConfigError: An option has a value that it cannot have.
        DatasetError: There is a dataset, or an unfinished conversion, in ``target``.
        LockedError: Another writer or conversion writes into ``target``.
        WriteError: The disk is full or refuses a write.
        StorageError: A URL cannot be read or written.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        classes: Sequence[str] | None = None,
        keypoints: Sequence[str] | None = None,
        box_format: Literal["XYXY", "XYWH", "CXCYWH", "xyxy", "xywh", "cxcywh"] = "XYXY",
        ignore_index: int | None = 255,
        container: str = DEFAULT_CONTAINER,
        resize: str | None = None,
        encoding: str = "keep",
        quality: int | None = None,
        shard_size: str | int | None = None,
        strict: bool = False,
        num_threads: int | None = None,
        append: bool = False,
        overwrite: bool = False,
        captions: Captions | None = None,
        storage: ImageStorage | None = None,
    ) -> None:
        check_named(target=target)
        if str(box_format).upper() not in BOX_FORMATS:
            raise ConfigError(f"box_format must be one of {', '.join(BOX_FORMATS)}, found {box_format!r}")
        storage = storage or ImageStorage()
        if storage.shards:
            raise ConfigError("shards cannot be counted before the samples of a writer are there")
        names, names_of_keypoints, form = check_classes(classes), tuple(keypoints or ()), None
        keeps_origins = resize is not None
        existing = _existing_manifest(target, overwrite=overwrite) if append else None
        if existing is not None:  # the samples get the form that those of the dataset have
            container, form = existing.container, _form_of(existing, Path(target))
            names = appended_classes(names, existing) or None
            names_of_keypoints = existing.annotations.keypoints
            ignore_index = existing.annotations.ignore
            keeps_origins = has_origins(existing.columns)
            storage = replace(storage, restarts=set(BAND_COLUMNS) <= existing.columns.keys())
        arguments = ConvertArguments(
            container=container,
            resize=resize,
            encoding=encoding,
            quality=quality,
            shard_size=shard_size,
            strict=strict,
            storage=storage,
        )
        written = written_captions(captions or Captions(), existing, Path(target))
        options = WriterOptions.resolve(arguments, "folder", written and written.options)
        self._checker = SampleChecker(
            list(names or ()),
            names is not None,
            box_format.upper(),
            len(names_of_keypoints) or None,
            form,
            written and written.options.caption_column,
        )
        self._encoder = SampleEncoder(
            options,
            self._checker,
            names_of_keypoints,
            ignore_index,
            keeps_origins,
            written and written.tokenizer,
        )
        threads = check_threads(num_threads)
        # Samples that were left out of a dataset later keep their keys, so they count.
        self._first = sum(shard.records for shard in existing.shards) if existing else 0
        self._count = 0
        self._given_labels, self._stored_labels = set[int](), set[int]()
        self._started = time.monotonic()
        self._output = ShardedOutput(target, self._encoder, options, existing, overwrite=overwrite)
        self._pool = EncodingPool(self._encoder, threads)
        self._begin(str(target) if is_url(target) else Path(target), _abandon, self._pool, self._output)

    def __len__(self) -> int:
        """Number of samples so far."""
        return self._count

    def write(self, image: Any, *, label: Any = None, key: str | None = None, **columns: Any) -> None:
        """Write a sample.

        Args:
            image: The bytes of an image file, or its path: the bytes are stored as they are. Or an image of
                Pillow; an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) of uint8 or uint16; or a tensor of
                PyTorch of uint8 with the channels first.
            label: Name or number of a class, or a list of them. None for samples without a label.
            key: Name of the sample; by default its number, from ``00000000``.
            columns: The rest of the sample by name, the same names in all samples:

                - ``boxes``: (M, 4) numbers, and ``box_labels``: M names or numbers, of the M objects of the
                  image. For each object also ``crowd`` (M,) bool, ``area`` (M,), ``object_id`` (M,) int64,
                  ``keypoints`` (M, K, 3) of x, y and visibility, or (M, 3K), and ``corners`` (M, 4, 2), x and
                  y of the corners of oriented boxes; and ``masks``: (M, H, W), or M arrays (H, W), lists of
                  polygons, or run lengths as COCO has them.
                - ``segmentation``: a mask of classes, (H, W) uint8 or uint16, or a file of it, or its path.
                - The name ``caption_column``: a text or several.
                - Any other name is a column: a number, a text, or an array of numbers of any shape.

        Raises:
            ConfigError: The sample does not fit the first one, or cannot be stored; names key and column.
            DecodeError: An image is broken or cannot be read, and ``strict``. The error names its key. As
                threads encode, it may come with a later sample, or in :meth:`close`; all other samples are
                kept.
            LockedError: The process was forked from the one that made the writer.
            WriteError: The disk is full or refuses a write; nothing more can be written.
        """
        self._check_usable()
        with self._lock:
            name = f"{self._first + self._count:08d}" if key is None else key
            sample = self._checker.check(name, image, label, columns)
            self._count += 1
            self._given_labels.update(sample.labels or ())
            self._store(self._pool.add(sample))

    def skip(self, key: str, reason: str, detail: str = "") -> None:
        """Note a sample that is left out: it is counted by its reason, and ``skipped.jsonl`` names it.

        Args:
            key: Name of the sample.
            reason: The reason, in words that many samples share.
            detail: The exact finding; may be empty.
        """
        self._check_usable()
        with self._lock:
            self._output.add(Skip(key, reason, detail))

    def _publish(self) -> Summary:
        self._store(self._pool.outcomes(0))
        if not self._count and not self._first:
            raise SourceError("no sample was written", path=self._target)
        classes = self._checker.classes
        lost = self._given_labels - self._stored_labels
        if not self._first and (names := [name for label, name in enumerate(classes) if label in lost]):
            shown = f"{', '.join(names[:_NAMED])}{' ...' if len(names) > _NAMED else ''}"
            words = f"every image of these classes is left out, see skipped.jsonl: {shown}"
            _LOG.warning(f"classes of {self._target}", words)
        ignore, values = self._encoder.ignore, self._encoder.mask_values
        if ignore in values and len(values) < 3:
            shown = " and ".join(map(str, sorted(values)))
            words = f"the masks have no values but {shown}, and {ignore} is ignored; write numbers of classes"
            _LOG.warning(f"masks of {self._target}", words)
        published = self._output.publish(tuple(classes), self._encoder.info)
        return published.timed(self._started, published.written)

    def _store(self, outcomes: Iterable[Outcome]) -> None:
        """Store records; raise the first error of a sample when all others are stored."""
        failed: StokerError | None = None
        for outcome in outcomes:
            if isinstance(outcome, StokerError):
                failed = failed or outcome
                continue
            try:
                self._output.add(outcome)
                if isinstance(outcome, EncodedRecord):
                    self._stored_labels.update(outcome.details.sample.labels or ())
            except BaseException:
                self.abandon()  # a shard may end within a record
                raise
        if failed is not None:
            raise failed


def _abandon(pool: EncodingPool, output: ShardedOutput) -> None:
    pool.close()
    output.abandon()


_NOTHING = np.zeros(0, np.int64)


class ShardedOutput:
    """An unfinished dataset, whose folder is locked until it is published or abandoned; or one at a URL."""

    def __init__(
        self,
        target: str | os.PathLike[str],
        encoder: SampleEncoder,
        options: ConvertOptions,
        existing: Manifest | None,
        *,
        overwrite: bool,
    ) -> None:
        self._encoder = encoder
        self._existing = existing
        self._options = options
        self._fingerprint = f"{WRITER_FINGERPRINT}{secrets.token_hex(16)}"
        self._skipped: list[Skip] = []
        self._results: list[Future[ShardResult]] = []
        self._open: tuple[ShardFile, ExitStack] | None = None
        self._samples = 0
        self._released = False
        self._root = Path() if is_url(target) else Path(target)
        with ExitStack() as entering:
            plan = self._plan((), AnnotationInfo())
            self._state = entering.enter_context(open_target(target, plan, resumes=False))
            if existing is not None:
                check_unchanged(self._root, existing)
                remove_remains(self._root, existing)
            self._state.enter(overwrite=overwrite, appends=existing is not None)
            # One thread syncs a whole shard to the disk while the next one is written.
            self._finisher = ThreadPoolExecutor(1, thread_name_prefix="stoker-finish")
            entering.callback(self._finisher.shutdown)
            self._resources = entering.pop_all()

    def add(self, outcome: EncodedRecord | Skip) -> None:
        """Append a record to the shard, or to a new one if the shard is full; note a skip."""
        if isinstance(outcome, Skip):
            self._skipped.append(outcome)
            return
        with os_errors(self._state.target, resumes=False):
            if self._is_full(len(outcome.prefix) + len(outcome.payload) + len(outcome.suffix)):
                self._finish_shard()
            if self._open is None:
                self._open = self._new_shard()
            self._open[0].add(outcome, self._samples)
            self._samples += 1

    def _is_full(self, size: int) -> bool:
        if self._open is None:
            return False
        shard, options = self._open[0], self._options
        if options.shard_records:
            return len(shard) >= options.shard_records
        return shard.bytes + size > options.shard_bytes

    def _new_shard(self) -> tuple[ShardFile, ExitStack]:
        with ExitStack() as opening:
            attempt = opening.enter_context(new_attempt(self._state.folder))
            number = len(self._results)
            shard = opening.enter_context(ShardFile(attempt, number, self._options.container, self._encoder))
            return shard, opening.pop_all()

    def _finish_shard(self) -> None:
        """Hand the open shard to the finishing thread, after the one before it is finished."""
        if self._open is None:
            return
        if self._results:
            self._results[-1].result()  # if this fails, the open shard is closed with all others
        (shard, resources), self._open = self._open, None
        self._results.append(self._finisher.submit(self._finish, shard, resources, len(self._results)))

    def _finish(self, shard: ShardFile, resources: ExitStack, number: int) -> ShardResult:
        with resources:
            result = shard.finish(self._state.folder, number)
            self._state.keep(number)
            return result

    def publish(self, classes: tuple[str, ...], info: AnnotationInfo) -> Summary:
        """Make a dataset of all shards, or the next version of the existing one, and release the folder."""
        try:
            with os_errors(self._state.target, resumes=False):
                self._finish_shard()
                results = [result.result() for result in self._results]
                plan = self._plan(classes, info)
                if self._existing is None:
                    self._state.plan = plan
                    return Summary.of(plan, results, self._state.publish(results))
                if results:  # without a shard the last version stays
                    self._append(plan, self._existing, results)
                return Summary.of(plan, results, {"": self._root})
        finally:
            self.abandon()

    def _append(self, plan: DatasetPlan, existing: Manifest, results: list[ShardResult]) -> None:
        state = self._state.folder
        output = SplitOutput(plan, state, "", results)
        index = output.merge_index()
        add_part(
            Part.of(self._root, existing),
            Part(state, output.manifest(index), index),
            [shard_files(state, number, existing.container) for number in output.shards],
            classes=plan.listing.classes,
            skipped=skipped_lines(output.skipped),
            change="append by a writer",
            staging=state,
        )

    def abandon(self) -> None:
        """Remove the unpublished files and release the folder. Further calls do nothing."""
        if self._released:  # another writer may hold the folder by now
            return
        self._released = True
        with self._resources:
            if self._open is not None:
                self._open[1].close()
                self._open = None
            self._finisher.shutdown()
            with suppress(StorageError):  # the next writer removes the files at a URL
                self._state.discard()

    def _plan(self, classes: tuple[str, ...], info: AnnotationInfo) -> DatasetPlan:
        """The plan of the shards so far, whose listing has no files."""
        nothing = pa.array([], pa.large_string())
        listing = Listing(
            self._root, nothing, _NOTHING, _NOTHING, None, classes, skipped=tuple(self._skipped), info=info
        )
        shards = tuple(PlannedShard("", number, _NOTHING) for number in range(len(self._results)))
        return DatasetPlan(self._options, listing, self._encoder, shards, self._fingerprint)
