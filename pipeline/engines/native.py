"""The native engine: one pass in C++ from bytes on disk to the finished batch."""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment import steps as kinds
from stoker.augment.noise import quantiles
from stoker.augment.params import Erase, ImageParams
from stoker.augment.resampling import Interpolation
from stoker.augment.steps import BatchStep, Step, split_last_custom
from stoker.errors import EngineError, StokerError
from stoker.formats.codecs.codec import CODECS, Codec, engine_decodes, is_native
from stoker.formats.dataset.index import Samples
from stoker.formats.threads import starting_threads
from stoker.types import DType, Layout

from .base import (
    Engine,
    EngineSettings,
    ImageFormat,
    PayloadError,
    Result,
    Status,
    Work,
    checked_payload,
    decode,
    open_shards,
    pack,
)

Int64 = npt.NDArray[np.int64]
Pixels = npt.NDArray[np.uint8]
Images = npt.NDArray[np.float32]

_STEPS = frozenset(
    kind
    for kind in vars(kinds).values()
    if isinstance(kind, type) and issubclass(kind, kinds.Step) and kind.operation in _native.STEP_COLUMNS
)
"""The steps that C++ executes, each by its ``operation``."""

_QUANTILES = "quantiles"
"""The column of a box to erase that is not an attribute of :class:`Erase`."""

EXECUTES = frozenset(
    {"channels", "interpolation", "mean_matrix", "warp", "perspective", "nearest", "border", "erase", "noise"}
    | {"direct"}  # warps whose canvas is not made
    | {"antialias=False", "antialias=False beside other resizes, warps or bicubic"}
    | {"image_size", "sizes by step"}  # which DALI lacks, as it builds a pipeline for each size
    | {"composition"}  # images of several samples
    | {"mean_image"}  # which Python subtracts after C++
    | {kind.__name__ for kind in _STEPS}
)
"""What the engine executes of :attr:`stoker.augment.plan.ImagePlan.needs`."""


def pack_images(params: ImageParams, out: npt.NDArray[Any], layout: int, *, exact: bool) -> dict[str, Any]:
    """Return the arguments of ``_native.ImageArray`` for images written into ``out``."""
    return {
        "params": pack(_native.PARAMETER_COLUMNS, params),
        "out": out,
        "layout": layout,
        "steps": pack_steps(params.steps, len(params)) if params.steps else None,
        "erase": [_pack_erase(erase) for erase in params.erase or ()],
        "exact": exact,
        "composition": pack(_native.COMPOSITION_COLUMNS, params) if params.composition else {},
    }


def pack_steps(steps: Iterable[kinds.Step], n: int) -> _native.Steps:
    """Make the steps of a batch of ``n`` samples, without those that apply to none."""
    packed = _native.Steps(n)
    for step in steps:
        if not step.where.any():
            continue
        chains = (
            [pack_steps(chain, n) for chain in step.chains] if isinstance(step, kinds.WeightedSum) else []
        )
        packed.append(step.operation, pack(_native.STEP_COLUMNS[step.operation], step), chains)
    return packed


def _pack_erase(erase: Erase) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a box to erase; noise comes with the quantiles that it is drawn from."""
    columns = pack((column for column in _native.ERASE_COLUMNS if column.name != _QUANTILES), erase)
    if erase.noise is not None:
        columns[_QUANTILES] = quantiles()
    return columns


_LAYOUTS: dict[Layout, int] = {"NCHW": 0, "NHWC": 1, "NHWC4": 2}
"""The numbers of layouts in the C++ module."""
_GREY = 3  # the layout of one channel
_DECODES = engine_decodes("native", np.arange(256, dtype=np.uint8))  # by the numbers of codecs
_SPARE_BUFFERS = 2  # beside those of the batches in flight


class NativeEngine:
    """Executes batches in C++, on its own threads. Pillow decodes the codecs that C++ does not decode.

    C++ calls custom steps that come last, before it writes an image. Such a batch is executed on threads of
    Python.
    """

    name = "native"
    device = "cpu"

    def __init__(self, settings: EngineSettings) -> None:
        self.max_in_flight = settings.depth
        self._settings = settings
        self._is_grey = settings.image_format.color == "gray"
        self._layout = _GREY if self._is_grey else _LAYOUTS[settings.image_format.layout]
        self._shards = open_shards(
            settings.files, settings.sizes, mapped=settings.mapped, listing=settings.listing
        )
        self._reads_parts = settings.mapped and _native.jpeg_decoder() == "stoker"
        with starting_threads():
            self._pool = _native.Pool(settings.num_threads, settings.cached_samples)
        self._python = ThreadPoolExecutor(settings.num_threads, "stoker-python")
        self._buffers = _native.BufferPool(_SPARE_BUFFERS)
        self._empty = settings.allocate or self._buffers.array
        self._most: dict[int, int] = {}  # elements of the largest array so far, by image column
        self._step_memory = _native.BufferPool(2 * settings.num_threads)
        self._in_flight: deque[PendingBatch] = deque()
        self._closed = False

    def submit(self, work: Work) -> None:
        if self._closed:
            raise EngineError("the engine is closed", hint="Make a new loader.")
        self._buffers.keep_at_least(len(self._in_flight) + 1 + _SPARE_BUFFERS)
        images = tuple(self._array(*numbered) for numbered in enumerate(work.columns))
        batch = PendingBatch(work, images, np.empty(len(work.samples), np.uint8))
        by_pillow = np.flatnonzero(~_DECODES[work.samples.codec]).tolist()
        batch.waiting += len(by_pillow)
        with starting_threads():
            for i in by_pillow:
                self._python.submit(self._decode, batch, i)
        self._count_ready(batch)
        self._in_flight.append(batch)

    def collect(self) -> Result:
        if not self._in_flight:
            raise EngineError("no batch is in flight", hint="Submit one first.")
        batch = self._in_flight[0]
        batch.started.wait()
        if batch.job:
            self._wait_for(batch, batch.job)
        self._in_flight.popleft()
        if batch.error:
            raise EngineError(f"the batch could not be started: {batch.error}") from batch.error
        subtract_means(batch.work.columns, batch.images, self._settings.image_format.layout, self._python)
        for i, (status, _) in batch.failed.items():
            batch.clear(i)
            batch.status[i] = status
        reason = {i: text for i, (_, text) in batch.failed.items()}
        images, *others = batch.images
        return Result(images, batch.status, reason, batch.step_errors, tuple(others))

    def read_ahead(self, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        """Ask the kernel to read what the images need, neighbouring ranges in one request."""
        self._shards.will_need(*needed_bytes(samples, columns if self._reads_parts else ()), gap=_GAP)

    def close(self) -> None:
        self._closed = True
        self._pool.close()
        for batch in list(self._in_flight):
            if batch.job:
                batch.job.cancel()
        self._python.shutdown(wait=True, cancel_futures=True)
        self._in_flight.clear()
        self._shards.close()

    def _array(self, column: int, params: ImageParams) -> npt.NDArray[Any]:
        """The array of an image column, with undefined contents, in memory of the largest one so far."""
        # The pool reuses memory only for arrays of the same number of bytes, and new pages cost more than
        # writing.
        form = self._settings.image_format
        shape = form.shape(params.image_count, params.size)
        count = math.prod(shape)
        self._most[column] = most = max(count, self._most.get(column, 0))
        if count == most:
            return self._empty(shape, form.numpy_dtype)
        return self._empty((most,), form.numpy_dtype)[:count].reshape(shape)

    def _decode(self, batch: PendingBatch, i: int) -> None:
        samples, settings = batch.work.samples, self._settings
        try:
            data = checked_payload(self._shards, samples, i, verify=settings.verify)
            color = settings.image_format.color
            batch.decoded[i] = decode(data, samples, i, max_pixels=settings.max_pixels, color=color)
        except PayloadError as error:
            batch.failed[i] = (error.status, str(error))
        finally:
            self._count_ready(batch)

    def _wait_for(self, batch: PendingBatch, job: _native.Job) -> None:
        """Wait for a job, and record what is wrong with the samples that C++ could not execute."""
        job.wait()
        for i in np.flatnonzero(batch.status).tolist():
            if i not in batch.failed:
                try:
                    reason = job.reason(i)
                except UnicodeDecodeError:  # it has the path of a file, in a listing that is damaged
                    reason = "the name of the file is damaged"
                batch.failed[i] = Status(int(batch.status[i])), reason
                self._ask_pillow(batch, i)

    def _ask_pillow(self, batch: PendingBatch, i: int) -> None:
        """Record what Pillow says of a damaged sample, if it cannot decode the sample, either."""
        samples = batch.work.samples
        codec, (status, _) = int(samples.codec[i]), batch.failed[i]
        if status not in (Status.NOT_DECODABLE, Status.TRUNCATED) or not is_native(codec):
            return
        if not CODECS[Codec(codec)].strict:
            try:
                data = checked_payload(self._shards, samples, i, verify=False)
                decode(data, samples, i, max_pixels=self._settings.max_pixels, reference=True)
            except PayloadError as error:
                batch.failed[i] = error.status, str(error)

    def _count_ready(self, batch: PendingBatch) -> None:
        """Count down what the batch waits for, and start the batch when nothing is left."""
        with batch.lock:
            batch.waiting -= 1
            if batch.waiting:
                return
        try:
            self._start(batch)
        except Exception as error:  # whatever it is, collect() must raise it
            batch.error = error
            batch.started.set()

    def _start(self, batch: PendingBatch) -> None:
        """Start a batch: on the threads of C++, or of Python if C++ calls custom steps."""
        columns, steps = zip(*map(_split_custom, batch.work.columns), strict=True)
        images = [self._pack(*pair) for pair in zip(columns, batch.images, strict=True)]
        n, share = len(batch.status), 1
        for params, custom, packed in zip(columns, steps, images, strict=True):
            if custom:
                calls = CustomSteps(custom, batch, one_size=params.image_size is None)
                packed["last_steps"] = calls.for_cpp(self._step_memory)
                share = max(share, math.ceil(n / self._settings.num_threads)) if calls.together else share
        job = self._pool.submit(
            self._shards,
            pack(_native.SAMPLE_COLUMNS, batch.work.samples),
            status=batch.status,
            max_pixels=self._settings.max_pixels,
            verify=self._settings.verify,
            decoded=batch.decoded,
            others=[_native.ImageArray(**options) for options in images[1:]],
            grey=self._is_grey,
            share=share,
            start=not any(steps),
            **images[0],
        )
        if any(steps):
            for _ in range(self._settings.num_threads):
                self._python.submit(job.work)
        batch.job = job
        batch.started.set()

    def _pack(self, params: ImageParams, images: npt.NDArray[Any]) -> dict[str, Any]:
        """The arguments of ``_native.ImageArray``; grey is written as NCHW, the same memory as NHWC."""
        if self._is_grey:
            images = images.reshape(params.image_count, 1, *params.size)
        return pack_images(params, images, self._layout, exact=self._settings.exact)


@dataclass
class PendingBatch:
    work: Work  # Samples and parameters of the batch
    # Arrays that the images are written into, one for each of the work's columns
    images: tuple[npt.NDArray[Any], ...]
    status: npt.NDArray[np.uint8]  # (N,) uint8, the :class:`Status` of each sample, which C++ writes
    waiting: int = 1  # Samples that Pillow has not decoded, and one more until all of them are handed to it
    # Pixels that Pillow has decoded, by index in the batch
    decoded: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    # Status and message of each bad sample, from Pillow or C++, by index in the batch
    failed: dict[int, tuple[Status, str]] = field(default_factory=dict)
    # Errors of custom steps, by index in the batch
    step_errors: dict[int, StokerError] = field(default_factory=dict)
    job: _native.Job | None = None  # The batch in C++; None until it starts
    error: BaseException | None = None  # What kept the batch from starting
    # Set once ``job`` or ``error`` has a value
    started: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)  # Guards ``waiting``

    def clear(self, i: int) -> None:
        """Write zeros into all images of sample ``i``, or into the image that it is a part of."""
        if composition := self.work.params.composition:
            self.images[0][composition.image[i]] = 0
            return
        for array in self.images:
            array[i :: len(self.work.samples)] = 0


def _split_custom(params: ImageParams) -> tuple[ImageParams, tuple[Step, ...]]:
    """Split the parameters of a column into what C++ executes, and the custom steps at its end that apply."""
    steps, custom = split_last_custom(params.steps or ())
    return replace(params, steps=steps or None), tuple(step for step in custom if step.where.any())


class CustomSteps:
    """The custom steps of an image column, run one after the other."""

    def __init__(self, steps: tuple[Step, ...], batch: PendingBatch, *, one_size: bool) -> None:
        self._steps = steps
        self._samples = len(batch.status)
        # Errors refer to frames that refer to the batch in C++, which refers to this object.
        self._batch = weakref.ref(batch)
        self.together = one_size and any(isinstance(step, BatchStep) for step in steps)

    def for_cpp(self, memory: _native.BufferPool) -> _native.PythonSteps:
        """The steps as an argument for C++, which keeps their pixels in ``memory``."""
        where = reduce(np.logical_or, (step.where for step in self._steps))
        function = self._run_together if self.together else self._run_one
        return _native.PythonSteps(where, function, memory, takes_several=self.together)

    def _run_one(self, i: int, image: Pixels) -> Pixels:
        """Change image ``i``, (H, W, 3) uint8, and record the error of a step."""
        try:
            for step in self._steps:
                image = step.run(i, image)
        except BaseException as error:
            self._record(i, error)
        return np.ascontiguousarray(image)

    def _record(self, i: int, error: BaseException, *, only: bool = False) -> None:
        """Record the error of image ``i``, which C++ must not see; ``only`` if there is no other error."""
        if not isinstance(error, StokerError):
            ended = EngineError(f"a custom step ended with {type(error).__name__}: {error}")
            ended.__cause__, error = error, ended
        batch = self._batch()
        if batch and not (only and batch.step_errors):
            batch.step_errors.setdefault(i % self._samples, error)

    def _run_together(self, rows: Int64, pixels: Pixels) -> Pixels:
        """Change the images ``rows``, (M,), with one call of each :class:`BatchStep`; (M, H, W, 3) uint8."""
        # If a step fails, the images are run one by one, to find the sample on which it fails.
        images = pixels
        try:
            for step in self._steps:
                if isinstance(step, BatchStep):
                    images = step.run_batch(rows, images)
                else:
                    images = np.stack([step.run(*pair) for pair in zip(rows.tolist(), images, strict=True)])
        except BaseException as error:
            for i, image in zip(rows.tolist(), pixels, strict=True):
                self._run_one(i, image)
            self._record(int(rows[0]), error, only=True)
            return pixels
        return np.ascontiguousarray(images)


_SHARE = 8  # images that a thread does at a time


def subtract_means(
    columns: Sequence[ImageParams], arrays: Sequence[Images], layout: Layout, pool: Executor
) -> None:
    """Subtract the mean images of all columns of a batch in place, on the threads of a pool."""

    def share(params: ImageParams, images: Images, first: int) -> None:
        for i in range(first, min(first + _SHARE, len(params))):
            subtract_mean(params, i, images[i], layout)

    running = [
        pool.submit(share, params, images, first)
        for params, images in zip(columns, arrays, strict=True)
        if params.mean_image is not None
        for first in range(0, len(params), _SHARE)
    ]
    for future in running:
        future.result()


def subtract_mean(params: ImageParams, i: int, image: npt.NDArray[Any], layout: Layout) -> None:
    """Subtract the mean image of image ``i`` in place, if the parameters have one."""
    mean, chosen = params.mean_image, params.interpolation
    if mean is None or not mean.where[i]:
        return
    _native.subtract_mean(
        mean.levels,
        image,
        planar=layout == "NCHW",
        crop=mean.crop[i],
        region=mean.region[i],
        dest=params.dest[i],
        flip=params.flip[i],
        interpolation=int(Interpolation.BILINEAR if chosen is None else chosen[i]),
        scale=mean.units.scale,
    )


_GAP = 16 << 10  # bytes that an SSD reads in about the time of one more request
_MCU_HEIGHTS = (8, 16)  # the index does not say which one an image has


class ByteRanges(NamedTuple):
    shard: npt.NDArray[np.int32]  # (M,) int32, index of the data file
    offset: Int64  # (M,) int64, first byte
    length: Int64  # (M,) int64, number of bytes


def needed_bytes(samples: Samples, columns: Sequence[ImageParams]) -> ByteRanges:
    """Return the bytes that images need: parts of JPEGs with bands, other payloads whole."""
    whole = ByteRanges(samples.shard, samples.offset, samples.length)
    if samples.bands is None or not samples.bands.size or not columns:
        return whole
    starts = samples.bands[:, ::2].astype(np.int64)
    count = np.count_nonzero(starts[:, 1:], axis=1)  # the headers begin at 0
    at = np.flatnonzero((count > 1) & (samples.orientation == 1))
    count, starts = count[at], np.column_stack((starts[at], np.zeros(len(at), np.int64)))
    starts[np.arange(len(at)), count + 1] = samples.length[at]
    first, last = _bands(samples.height[at], count, *_rows(samples, columns, at))
    begin, end = (np.take_along_axis(starts, band[:, None] + 1, 1)[:, 0] for band in (first, last))
    offset, length = whole.offset.copy(), whole.length.copy()
    offset[at] += begin
    length[at] = end - begin
    return ByteRanges(
        np.concatenate((whole.shard, whole.shard[at])),
        np.concatenate((offset, whole.offset[at])),
        np.concatenate((length, starts[:, 1])),
    )


def _rows(samples: Samples, columns: Sequence[ImageParams], at: Int64) -> tuple[Int64, Int64]:
    """The rows of pixels that the images of samples need: the first, and the one after the last."""
    top = np.full(len(at), np.iinfo(np.int64).max)
    bottom = np.zeros(len(at), np.int64)
    for params in columns:
        crop = params.crop.reshape(-1, len(samples), 4)[:, at].astype(np.int64)
        # Rows beside the crop, of the size at which it is decoded, that colour upsampling looks at.
        height: npt.NDArray[np.integer[Any]] = np.array(params.size[0])
        if params.image_size is not None:
            height = params.image_size[:, 0].reshape(-1, len(samples))[:, at]
        margin = 4 + 2 * (crop[..., 2] // height)
        top = np.minimum(top, (crop[..., 0] - margin).min(0))
        bottom = np.maximum(bottom, (crop[..., 0] + crop[..., 2] + margin).max(0))
    return np.maximum(top, 0), np.minimum(bottom, samples.height[at])


def _bands(height: npt.NDArray[np.int32], count: Int64, top: Int64, bottom: Int64) -> tuple[Int64, Int64]:
    """The bands [first, last) that hold rows of pixels; see ``Bands`` in native/restarts/bands.h."""
    first, last = count.copy(), np.zeros_like(count)
    for mcu in _MCU_HEIGHTS:
        rows = (height + mcu - 1) // mcu
        per_band = mcu * ((rows + count - 1) // count)
        first = np.minimum(first, top // per_band)
        last = np.maximum(last, (bottom - 1) // per_band + 1)
    return np.minimum(first, count - 1), np.clip(last, 1, count)


PIXELS_DTYPE: DType = "uint8"
_PIXELS_LAYOUT: Layout = "NCHW"
_PART_BYTES = 1 << 20  # for larger arrays Ray starts threads, which cost more than they gain on busy cores


@dataclass(frozen=True, eq=False)
class UnfinishedImages:
    """M images before their colours."""

    # (K, 3, H, W) uint8, RGB, of one part of the images after the other
    pixels: Sequence[npt.NDArray[np.uint8]]
    params: ImageParams  # The parameters of the remaining steps: colours, and boxes to erase
    image_format: ImageFormat  # Form of the finished images

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.pixels)

    def finish(self, empty: Callable[[tuple[int, ...], str], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return the finished images, bit for bit as the engine makes them; ``empty`` makes the array."""
        # The calling thread does the work, without the interpreter's lock.
        form = self.image_format
        out = empty(form.shape(len(self.params), self.params.size), form.numpy_dtype)
        images = pack_images(self.params, out, _LAYOUTS[form.layout], exact=False)
        _native.ImageArray(**images).finish(self.pixels)
        return out


class UnfinishedEngine(NativeEngine):
    """Leaves colours, dtype, layout and erased boxes to another process: its results are UnfinishedImages.

    These steps come last and need only the pixels of an image. A worker of a cluster leaves them to the
    trainer, because uint8 pixels are a quarter of the bytes of float32.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._finished = settings.image_format
        pixels = replace(settings.image_format, dtype=PIXELS_DTYPE, layout=_PIXELS_LAYOUT)
        super().__init__(replace(settings, image_format=pixels))
        self._left: deque[tuple[ImageParams, ...]] = deque()

    def submit(self, work: Work) -> None:
        made, *others = map(_before_colors, work.columns)
        super().submit(Work(work.samples, made, tuple(others)))
        self._left.append(work.columns)

    def collect(self) -> Result:
        result = super().collect()
        images, *others = (
            UnfinishedImages(_parts(pixels), _after_pixels(params), self._finished)
            for pixels, params in zip(result.columns, self._left.popleft(), strict=True)
        )
        return replace(result, images=images, others=tuple(others))


def _parts(pixels: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
    """The images of an array, (M, 3, H, W), in parts that Ray copies without new threads."""
    count = max(1, _PART_BYTES // max(1, pixels[:1].nbytes))
    return [pixels[i : i + count] for i in range(0, len(pixels), count)]


def _before_colors(params: ImageParams) -> ImageParams:
    """The parameters of all that comes before colours; the result is uint8."""
    unchanged = np.tile(np.eye(3, 4, dtype=np.float32), (len(params), 1, 1))
    return replace(params, color=unchanged, mean_matrix=None, erase=None)


def _after_pixels(params: ImageParams) -> ImageParams:
    """The parameters of colours and erased boxes, for images whose pixels are there."""
    n = len(params)
    whole = np.zeros((n, 4), np.int32)
    whole[:, 2:] = params.size if params.image_size is None else params.image_size
    return ImageParams(
        params.size,
        crop=whole,
        region=whole.astype(np.float64),
        dest=whole,
        flip=np.zeros((n, 2), np.bool_),
        color=params.color,
        fill=params.fill,
        mean_matrix=params.mean_matrix,
        erase=params.erase,
        image_size=params.image_size,
    )


def make_engine(settings: EngineSettings) -> Engine:
    return UnfinishedEngine(settings) if settings.unfinished else NativeEngine(settings)
