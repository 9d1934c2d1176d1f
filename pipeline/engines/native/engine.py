"""The native engine: one pass in C++ from bytes on disk to the finished batch."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker import _native
from stoker.augment.params import ImageParams
from stoker.errors import EngineError
from stoker.formats.codecs.decode import engine_decodes
from stoker.formats.dataset.index import Samples
from stoker.types import Layout

from ..base import EngineSettings, Result, Status, Work
from ..column_arrays import pack
from ..payload_decode import PayloadError, decode, describe_failure
from ..shard_files import matches_checksum, open_shards
from .custom_steps import CustomSteps, split_custom
from .image_memory import ImageMemory, clear_images
from .mean_image import subtract_means
from .needed_bytes import GAP, needed_bytes
from .pending_batch import PendingBatch
from .steps import EXECUTES, pack_images

LAYOUT_NUMBERS: dict[Layout, int] = {"NCHW": 0, "NHWC": 1, "NHWC4": 2}
"""The numbers of layouts in the C++ module."""
_GREY = 3  # the layout of one channel
_DECODES = engine_decodes("native", np.arange(256, dtype=np.uint8))  # by the numbers of codecs
_SPARE_BUFFERS = 2  # beside those of the batches in flight


class NativeEngine:
    """Executes batches in C++, on threads of its own. Pillow decodes the codecs that C++ does not decode.

    C++ calls custom steps that come last, before it writes an image. Such a batch is executed on threads of
    Python.
    """

    name = "native"
    device = "cpu"
    executes = EXECUTES

    def __init__(self, settings: EngineSettings) -> None:
        self.max_in_flight = settings.depth
        self._settings = settings
        self._is_grey = settings.image_format.color == "gray"
        self._layout = _GREY if self._is_grey else LAYOUT_NUMBERS[settings.image_format.layout]
        self._shards = open_shards(settings.files, settings.sizes, mapped=settings.mapped)
        self._reads_parts = settings.mapped and _native.jpeg_decoder() == "stoker"
        self._pool = _native.Pool(settings.num_threads, settings.cached_samples)
        self._python = ThreadPoolExecutor(settings.num_threads, "stoker-python")
        self._buffers = _native.BufferPool(_SPARE_BUFFERS)
        self._memory = ImageMemory(settings.image_format, settings.allocate or self._buffers.array)
        self._step_memory = _native.BufferPool(2 * settings.num_threads)
        self._in_flight: deque[PendingBatch] = deque()
        self._closed = False

    def submit(self, work: Work) -> None:
        """Start a batch; returns at once."""
        if self._closed:
            raise EngineError("the engine is closed", hint="Make a new loader.")
        self._buffers.keep_at_least(len(self._in_flight) + 1 + _SPARE_BUFFERS)
        images = self._memory.arrays(work)
        batch = PendingBatch(work, images, np.empty(len(work.samples), np.uint8))
        on_host = self._on_host(work.samples)
        batch.waiting += len(on_host)
        for i in on_host:
            self._python.submit(self._decode, batch, i)
        self._count_ready(batch)
        self._in_flight.append(batch)

    def collect(self) -> Result:
        """Wait for the oldest batch and return it."""
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
            clear_images(batch.work, batch.images, i)
            batch.status[i] = status
        reason = {i: text for i, (_, text) in batch.failed.items()}
        images, *others = batch.images
        return Result(images, batch.status, reason, batch.step_errors, tuple(others))

    def read_ahead(self, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        """Ask the kernel to read what the images need, neighbouring ranges in one request."""
        self._shards.will_need(*needed_bytes(samples, columns if self._reads_parts else ()), gap=GAP)

    def close(self) -> None:
        """Stop the threads and close the files; batches in flight are lost."""
        self._closed = True
        self._pool.close()
        for batch in list(self._in_flight):
            if batch.job:
                batch.job.cancel()
        self._python.shutdown(wait=True, cancel_futures=True)
        self._in_flight.clear()
        self._shards.close()

    def _on_host(self, samples: Samples) -> Sequence[int]:
        """Indices of the samples whose pixels Python hands to C++."""
        if self._settings.ablated.decoding:
            return range(len(samples))
        indices: list[int] = np.flatnonzero(~_DECODES[samples.codec]).tolist()
        return indices

    def _decode(self, batch: PendingBatch, i: int) -> None:
        samples = batch.work.samples

        def pixels() -> npt.NDArray[Any]:
            color = self._settings.image_format.color
            return decode(view, samples, i, max_pixels=self._settings.max_pixels, color=color)

        try:
            view = self._shards.view(int(samples.shard[i]), int(samples.offset[i]), int(samples.length[i]))
            if self._settings.verify and not matches_checksum(self._shards, view, samples, i):
                batch.failed[i] = (Status.CHECKSUM_MISMATCH, "CRC32C differs from the index")
            else:
                ablated = self._settings.ablated
                batch.decoded[i] = ablated.decode_once(samples, i, pixels) if ablated.decoding else pixels()
        except PayloadError as error:
            batch.failed[i] = (error.status, str(error))
        except (ValueError, OSError, MemoryError) as error:
            batch.failed[i] = (Status.READ_ERROR, str(error) or "no memory to read it")
        finally:
            self._count_ready(batch)

    def _wait_for(self, batch: PendingBatch, job: _native.Job) -> None:
        """Wait for a job, and record what is wrong with the samples that C++ could not execute."""
        job.wait()
        for i in np.flatnonzero(batch.status).tolist():
            if i not in batch.failed:
                failure, samples = (Status(int(batch.status[i])), job.reason(i)), batch.work.samples
                batch.failed[i] = describe_failure(
                    failure, self._shards, samples, i, self._settings.max_pixels
                )

    def _count_ready(self, batch: PendingBatch) -> None:
        """Count one of the things that the batch waits for as ready, and start the batch after the last."""
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
        """Start a batch: on the threads of C++, or on those of Python if C++ calls custom steps."""
        columns, steps = zip(*map(split_custom, batch.work.columns), strict=True)
        images = [self._pack(*pair) for pair in zip(columns, batch.images, strict=True)]
        if self._settings.ablated.augmentation:
            steps = ((),) * len(steps)
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
            decode_only=self._settings.ablated.augmentation,
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
