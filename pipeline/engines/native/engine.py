"""The native engine: one pass in C++ from bytes on disk to the finished batch."""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker import _native
from stoker.errors import EngineError
from stoker.formats.codecs.decode import engine_decodes

from ..base import ImageFormat, Result, Status, Work
from ..column_arrays import pack
from ..payload_decode import PayloadError, decode, described
from ..shard_files import matches_checksum, open_shards
from .batch import Batch
from .custom_steps import PIXELS, CustomSteps, split_work, work_after
from .image_memory import ImageMemory, clear_images
from .mean_image import subtract_means
from .needed_bytes import GAP, needed_bytes
from .steps import EXECUTES, pack_images

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from stoker.augment.params.image_params import ImageParams
    from stoker.augment.steps import Step
    from stoker.formats.dataset.reading.samples import Samples
    from stoker.types import Layout

    _Output = tuple[npt.NDArray[Any], int]
    """An array of images, and the number of its layout in C++."""

__all__ = ["NativeEngine"]

_LAYOUT: dict[Layout, int] = {"NCHW": 0, "NHWC": 1, "NHWC4": 2}
_GREY = 3  # the layout of one channel


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
        self._under_way: deque[Batch] = deque()
        self._closed = False

    def submit(self, work: Work) -> None:
        """Start a batch; returns at once.

        Raises:
            EngineError: The engine is closed.
        """
        if self._closed:
            raise EngineError("the engine is closed", hint="Make a new loader.")
        images = self._memory.arrays(work)
        batch = Batch(work, images, np.empty(len(work.samples), np.uint8))
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
        if batch.error:
            raise EngineError(f"the batch could not be started: {batch.error}") from batch.error
        for job, status in batch.jobs:
            self._wait_for(batch, job, status)
        subtract_means(batch.work.columns, batch.images, self._image_format.layout, self._python)
        for i, (found, _) in batch.failed.items():
            clear_images(batch.work, batch.images, i)
            batch.status[i] = found
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

    def _decode(self, batch: Batch, i: int) -> None:
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

    def _wait_for(self, batch: Batch, job: _native.Job, status: npt.NDArray[np.uint8]) -> None:
        """Wait for a job, and take down what is wrong with the samples that C++ could not execute."""
        job.wait()
        for image in np.flatnonzero(status).tolist():
            if (i := image % len(batch.status)) not in batch.failed:
                found = Status(int(status[image])), job.reason(image)
                batch.failed[i] = described(found, self._shards, batch.work.samples, i, self._max_pixels)

    def _one_less(self, batch: Batch) -> None:
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

    def _start(self, batch: Batch) -> None:
        """Start a batch, or what comes before its custom steps."""
        first, custom = split_work(batch.work)
        out = [
            self._before_custom(params) if steps else (images, self._layout)
            for params, steps, images in zip(first.columns, custom, batch.images, strict=True)
        ]
        job = self._execute(self._pool, first, out, status=batch.status, decoded=batch.decoded)
        if any(custom):
            pixels = [array for array, _ in out]
            self._waiter.submit(self._run_custom_steps, batch, custom, job, pixels)
            return
        batch.jobs.append((job, batch.status))
        batch.started.set()

    def _before_custom(self, params: ImageParams) -> _Output:
        """What a column of images is written to before its custom steps."""
        return self._pixels.array(PIXELS.shape(len(params), params.size), "uint8"), _LAYOUT[PIXELS.layout]

    def _run_custom_steps(
        self,
        batch: Batch,
        custom: Sequence[tuple[Step, ...]],
        job: _native.Job,
        pixels: Sequence[npt.NDArray[np.uint8]],
    ) -> None:
        """Wait for the pixels of a batch, run its custom steps on them, and start the rest of it."""
        try:
            self._wait_for(batch, job, batch.status)
            columns = zip(custom, batch.work.columns, pixels, batch.images, strict=True)
            for steps, params, before, images in columns:
                if steps:
                    changed = CustomSteps(steps, params, before, batch.status)
                    for future in changed.start(self._python, self._num_threads, lambda: self._closed):
                        future.result()
                    batch.step_errors.update(changed.errors)
                    self._start_rest(batch, params, images, changed.images)
        except BaseException as error:  # as above; a step may even raise SystemExit
            batch.error = error
        batch.started.set()

    def _start_rest(
        self,
        batch: Batch,
        params: ImageParams,
        images: npt.NDArray[Any],
        changed: dict[int, npt.NDArray[np.uint8]],
    ) -> None:
        """Start what makes ``images``, those of a column, of the pixels that custom steps have changed."""
        self._pool_after = self._pool_after or _native.Pool(self._num_threads)
        rest, status = work_after(batch.work.samples, params), np.empty(len(params), np.uint8)
        out = [(images, self._layout)]
        job = self._execute(self._pool_after, rest, out, status=status, decoded=changed)
        batch.jobs.append((job, status))

    def _execute(
        self,
        pool: _native.Pool,
        work: Work,
        out: Sequence[_Output],
        *,
        status: npt.NDArray[np.uint8],
        decoded: dict[int, npt.NDArray[np.uint8]],
    ) -> _native.Job:
        first, *others = map(self._pack, work.columns, out)
        return pool.submit(
            self._shards,
            pack(_native.SAMPLE_COLUMNS, work.samples),
            status=status,
            # Of large images, only those in shards are refused.
            max_pixels=self._max_pixels if pool is self._pool else math.prod(work.params.size),
            verify=self._verify,
            decoded=decoded,
            others=[_native.ImageArray(**options) for options in others],
            grey=self._image_format.color == "gray",
            **first,
        )

    def _pack(self, params: ImageParams, out: _Output) -> dict[str, Any]:
        """The arguments of ``_native.ImageArray``; grey is written as NCHW, the same memory as NHWC."""
        images, layout = out
        if layout == _GREY:
            images = images.reshape(params.image_count, 1, *params.size)
        return pack_images(params, images, layout, exact=self._exact)
