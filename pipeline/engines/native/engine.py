"""The native engine: one pass in C++ from bytes on disk to the finished batch."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker import _native
from stoker.errors import EngineError
from stoker.formats.codecs.decode import engine_decodes

from ..base import ImageFormat, Result, Status, Work
from ..column_arrays import pack
from ..payload_decode import PayloadError, decode, described
from ..shard_files import matches_checksum, open_shards
from .custom_steps import PIXELS, CustomSteps, split_work, work_after
from .image_memory import ImageMemory
from .mean_image import subtract_means
from .needed_bytes import GAP, needed_bytes
from .steps import EXECUTES, pack_images

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams
    from stoker.augment.steps import Step
    from stoker.errors import StokerError
    from stoker.formats.dataset.reading.samples import Samples
    from stoker.types import Layout

__all__ = ["NativeEngine"]

_LAYOUT: dict[Layout, int] = {"NCHW": 0, "NHWC": 1, "NHWC4": 2}
_GREY = 3  # the layout of one channel


@dataclass
class _Batch:
    """A batch from submit to collect.

    Attributes:
        work: What to execute.
        images: ImageFormat arrays, one for each of the work's columns.
        status: (N,) uint8.
        waiting: Samples that Pillow has not finished, and one more until all of them are handed over.
        decoded: Pixels from Pillow by position.
        failed: What Pillow said, or C++ before custom steps, by position.
        step_errors: Errors of custom steps, by position.
        started: Set when ``job`` or ``error`` is.
    """

    work: Work
    images: tuple[npt.NDArray[Any], ...]
    status: npt.NDArray[np.uint8]
    waiting: int = 1
    decoded: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    failed: dict[int, tuple[Status, str]] = field(default_factory=dict)
    step_errors: dict[int, StokerError] = field(default_factory=dict)
    job: _native.Job | None = None
    error: BaseException | None = None
    started: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


class NativeEngine:
    """Executes batches on threads of its own, in C++; codecs that C++ does not decode through Pillow.

    Custom steps that come last run in Python. Such a batch is executed by C++ up to these steps; a thread
    waits for that, lets the Python threads run the steps, and has C++ execute the rest.

    Args:
        files: Data files of the dataset, in the manifest's order.
        sizes: Bytes of each.
        image_format: Form of the images.
        num_threads: Threads that decode, from 1.
        depth: Batches under way that keep them busy.
        max_pixels: An image with more is refused by its header.
        verify: Compare each payload with its checksum.
        mapped: Map the files; otherwise read each payload, see :class:`~..base.EngineSettings`.
        exact: Whether every JPEG is decoded at its full size, also where it is then made much smaller.
        empty: Makes the array of a batch, of a shape and dtype; by default of memory that is used again.

    Raises:
        StaleIndexError: A file has another size.
        DatasetError: A file cannot be opened.
    """

    name = "native"
    device = "cpu"
    executes = EXECUTES

    def __init__(
        self,
        files: Sequence[str],
        sizes: Sequence[int],
        image_format: ImageFormat,
        *,
        num_threads: int,
        depth: int,
        max_pixels: int,
        verify: bool,
        mapped: bool = True,
        exact: bool = False,
        empty: Callable[[tuple[int, ...], str], npt.NDArray[Any]] | None = None,
    ) -> None:
        self.max_in_flight = max(1, depth)
        self._image_format = image_format
        self._layout = _GREY if image_format.color == "gray" else _LAYOUT[image_format.layout]
        self._max_pixels = max_pixels
        self._verify = verify
        self._exact = exact
        self._shards = open_shards(files, sizes, mapped=mapped)
        self._reads_parts = mapped and _native.jpeg_decoder() == "stoker"
        self._pool = _native.Pool(num_threads)
        # Apart, so that the end of a batch does not wait for the images of the batches behind it.
        self._pool_after: _native.Pool | None = None
        self._num_threads = num_threads
        self._python = ThreadPoolExecutor(num_threads, "stoker-python")
        self._waiter = ThreadPoolExecutor(1, "stoker-custom-steps")
        self._pixels = _native.BufferPool(self.max_in_flight + 2)  # before custom steps
        self._memory = ImageMemory(image_format, empty or _native.BufferPool(self.max_in_flight + 2).array)
        self._under_way: deque[_Batch] = deque()
        self._closed = False

    def submit(self, work: Work) -> None:
        """Start a batch; returns at once.

        Raises:
            EngineError: The engine is closed.
        """
        if self._closed:
            raise EngineError("the engine is closed", hint="Make a new loader.")
        images = self._memory.arrays(work)
        batch = _Batch(work, images, np.empty(len(work.samples), np.uint8))
        on_host = np.flatnonzero(~engine_decodes("native", work.samples.codec)).tolist()
        batch.waiting += len(on_host)
        for i in on_host:
            self._python.submit(self._decode, batch, i)
        self._one_less(batch)
        self._under_way.append(batch)

    def collect(self) -> Result:
        """Wait for the oldest batch and return it.

        Raises:
            EngineError: No batch is under way, or it could not be started.
        """
        if not self._under_way:
            raise EngineError("no batch is under way", hint="Submit one first.")
        batch = self._under_way.popleft()
        batch.started.wait()
        if batch.job is None:
            raise EngineError(f"the batch could not be started: {batch.error}") from batch.error
        batch.job.wait()
        self._collect_failures(batch, batch.job)
        subtract_means(batch.work.columns, batch.images, self._image_format.layout, self._python)
        for i, (status, _) in batch.failed.items():
            for array in batch.images:
                array[i :: len(batch.status)] = 0
            batch.status[i] = status
        reason = {i: text for i, (_, text) in batch.failed.items()}
        images, *others = batch.images
        return Result(images, batch.status, reason, batch.step_errors, tuple(others))

    def read_ahead(self, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        """Ask the kernel to read what the images need, neighbouring ranges in one request."""
        self._shards.will_need(*needed_bytes(samples, columns if self._reads_parts else ()), gap=GAP)

    def close(self) -> None:
        """Stop the threads and close the files; batches under way are lost."""
        self._closed = True
        self._pool.close()
        self._python.shutdown(wait=True, cancel_futures=True)
        self._waiter.shutdown(wait=True, cancel_futures=True)
        if self._pool_after:
            self._pool_after.close()
        self._under_way.clear()
        self._shards.close()

    def _decode(self, batch: _Batch, i: int) -> None:
        samples = batch.work.samples
        try:
            view = self._shards.view(int(samples.shard[i]), int(samples.offset[i]), int(samples.length[i]))
            if self._verify and not matches_checksum(self._shards, view, samples, i):
                batch.failed[i] = (Status.CHECKSUM_MISMATCH, "CRC32C differs from the index")
            else:
                color = self._image_format.color
                batch.decoded[i] = decode(view, samples, i, max_pixels=self._max_pixels, color=color)
        except PayloadError as error:
            batch.failed[i] = (error.status, str(error))
        except (ValueError, OSError, MemoryError) as error:
            batch.failed[i] = (Status.READ_ERROR, str(error) or "no memory to read it")
        finally:
            self._one_less(batch)

    def _collect_failures(self, batch: _Batch, job: _native.Job) -> None:
        """Take down what is wrong with the samples that C++ could not execute."""
        for i in set(np.flatnonzero(batch.status).tolist()) - batch.failed.keys():
            found = Status(int(batch.status[i])), job.reason(i)
            batch.failed[i] = described(found, self._shards, batch.work.samples, i, self._max_pixels)

    def _one_less(self, batch: _Batch) -> None:
        """Start the batch when nothing is waited for any more."""
        with batch.lock:
            batch.waiting -= 1
            if batch.waiting:
                return
        try:
            self._start(batch)
        except Exception as error:  # whatever it is, who collects must hear of it
            batch.error = error
            batch.started.set()

    def _start(self, batch: _Batch) -> None:
        """Start a batch, or what comes before its custom steps."""
        first, steps = split_work(batch.work)
        if not steps:
            batch.job = self._finish(self._pool, batch, first, batch.decoded)
            batch.started.set()
            return
        pixels = self._pixels.array(PIXELS.shape(len(batch.status), first.params.size), "uint8")
        job = self._execute(
            self._pool,
            first,
            out=(pixels,),
            status=batch.status,
            layout=_LAYOUT[PIXELS.layout],
            decoded=batch.decoded,
        )
        self._waiter.submit(self._run_custom_steps, batch, steps, job, pixels)

    def _run_custom_steps(
        self, batch: _Batch, steps: tuple[Step, ...], job: _native.Job, pixels: npt.NDArray[np.uint8]
    ) -> None:
        """Wait for the pixels of a batch, run its custom steps on them, and start the rest of it."""
        try:
            job.wait()
            self._collect_failures(batch, job)
            images = dict(enumerate(pixels))
            custom = CustomSteps(steps, images, batch.step_errors, lambda: self._closed)
            good = np.flatnonzero(batch.status == Status.OK)
            running = custom.start(self._python, self._num_threads, good)
            for future in running:
                future.result()
            self._pool_after = self._pool_after or _native.Pool(self._num_threads)
            batch.status = np.empty_like(batch.status)
            batch.job = self._finish(self._pool_after, batch, work_after(batch.work), images)
        except BaseException as error:  # as above; a step may even raise SystemExit
            batch.error = error
        batch.started.set()

    def _finish(
        self, pool: _native.Pool, batch: _Batch, work: Work, decoded: dict[int, npt.NDArray[np.uint8]]
    ) -> _native.Job:
        """Start what writes the images of a batch."""
        return self._execute(
            pool,
            work,
            out=tuple(map(self._planes, work.columns, batch.images)),
            status=batch.status,
            layout=self._layout,
            decoded=decoded,
        )

    def _planes(self, params: ImageParams, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Images in the form in which C++ writes them: grey as NCHW, which is the same memory as NHWC."""
        return images.reshape(len(params), 1, *params.size) if self._layout == _GREY else images

    def _execute(
        self,
        pool: _native.Pool,
        work: Work,
        *,
        out: tuple[npt.NDArray[Any], ...],
        status: npt.NDArray[np.uint8],
        layout: int,
        decoded: dict[int, npt.NDArray[np.uint8]],
    ) -> _native.Job:
        height, width = work.params.size
        pairs = zip(work.columns, out, strict=True)
        first, *others = (pack_images(*pair, layout, exact=self._exact) for pair in pairs)
        return pool.submit(
            self._shards,
            pack(_native.SAMPLE_COLUMNS, work.samples),
            status=status,
            # Of large images, only those in shards are refused.
            max_pixels=self._max_pixels if pool is self._pool else height * width,
            verify=self._verify,
            decoded=decoded,
            others=[_native.ImageArray(**options) for options in others],
            grey=self._image_format.color == "gray",
            **first,
        )
