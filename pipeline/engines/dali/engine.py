"""The DALI engine: one graph for CPU and GPU, fed with bytes and with parameters drawn by us.

What DALI is not asked to do: to read, to shuffle, to draw. Every sample is checked before DALI sees
it (checksum, header, size), because a decode error costs DALI the whole batch and a damaged
payload may pass unnoticed.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stoker.errors import ConfigError, EngineError, MissingDependencyError
from stoker.formats.codecs.codec import Codec

from ..base import Output, Result, Status, Work
from ..bfloat16 import to_bfloat16
from .graph import define
from .inputs import Batch, Graph
from .payloads import PayloadReader
from .steps import STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stoker.formats.dataset.samples import Samples

__all__ = ["DaliEngine"]


class DaliEngine:
    """Executes batches with NVIDIA DALI.

    Args:
        files: Data files of the dataset, in the manifest's order.
        sizes: Bytes of each.
        output: Form of the images. bfloat16, which DALI lacks, leaves the GPU engine as float32.
        device: "cpu", or "cuda:0" and so on; on a GPU JPEGs are decoded there and results stay there.
        num_threads: DALI's CPU threads.
        depth: Batches in flight at once.
        batch_size: Samples in the largest batch.
        max_pixels: An image with more is refused by its header.
        verify: Compare each payload with its checksum.
        mapped: Map the files; otherwise read each payload, as suits network file systems.

    Raises:
        MissingDependencyError: DALI is not installed.
    """

    name = "dali"
    executes = frozenset({"interpolation", "mean", "warp", "perspective", "nearest", "erase"}) | STEPS

    def __init__(
        self,
        files: Sequence[str],
        sizes: Sequence[int],
        output: Output,
        *,
        device: str = "cpu",
        num_threads: int = 1,
        depth: int = 2,
        batch_size: int = 1,
        max_pixels: int,
        verify: bool = True,
        mapped: bool = True,
    ) -> None:
        _require_dali()
        self.device = device
        self.max_in_flight = max(1, depth)
        self._settings = _Settings(output, device, num_threads, max(1, depth), batch_size)
        self._reader = PayloadReader(files, sizes, max_pixels=max_pixels, verify=verify, mapped=mapped)
        self._pipes: dict[Graph, _Pipe] = {}
        self._in_flight: deque[Batch] = deque()
        self._color: npt.NDArray[np.float32] | None = None  # of the first batch: likely that of all

    def submit(self, work: Work) -> None:
        """Check the payloads of a batch and start it."""
        payloads = self._reader.read(work.samples)
        if self._color is None:
            self._color = work.params.color[0]
        # A bad sample's colours are not those of the others.
        color = None if payloads.bad else self._color
        graph = Graph.of(work.params, color, encoded=bool((work.samples.codec == Codec.JPEG).any()))
        batch = Batch(graph, work.params, payloads)
        self._pipe(batch).start(batch)
        self._in_flight.append(batch)

    def collect(self) -> Result:
        """Wait for the oldest batch."""
        batch = self._in_flight.popleft()
        try:
            images = self._pipe(batch).finish()
        except RuntimeError as error:
            images = self._salvage(batch, error)
        return Result(images, batch.payloads.status(), batch.payloads.reason())

    def read_ahead(self, samples: Samples) -> None:
        """Ask the kernel for the payloads of ``samples``."""
        self._reader.will_need(samples)

    def close(self) -> None:
        """Free the pipelines."""
        self._in_flight.clear()
        self._pipes.clear()
        self._reader.close()

    def _pipe(self, batch: Batch) -> _Pipe:
        if batch.graph not in self._pipes:
            self._pipes[batch.graph] = _Pipe(batch, self._settings)
        return self._pipes[batch.graph]

    def _salvage(self, batch: Batch, error: RuntimeError) -> Any:
        """Images of a batch that failed as a whole: find what DALI cannot decode and leave it out.

        A pipeline that raised is not used again, so the batches behind this one are started anew.
        """
        self._pipes.clear()
        for i in range(len(batch.payloads)):
            self._try_alone(batch, i)
        try:
            return self._run(replace(batch, graph=Graph.of(batch.params, encoded=batch.graph.encoded)))
        except RuntimeError:
            self._pipes.clear()
            raise EngineError(f"DALI failed: {_last_line(error)}") from error
        finally:
            for waiting in self._in_flight:
                self._pipe(waiting).start(waiting)

    def _try_alone(self, batch: Batch, i: int) -> None:
        """Reject sample ``i`` if DALI cannot decode it."""
        try:
            self._run(batch.alone(i))
        except RuntimeError as reason:
            batch.payloads.reject(i, Status.NOT_DECODABLE, _last_line(reason))
            self._pipes.clear()

    def _run(self, batch: Batch) -> Any:
        pipe = self._pipe(batch)
        pipe.start(batch)
        return pipe.finish()


@dataclass(frozen=True)
class _Settings:
    output: Output
    device: str
    num_threads: int
    depth: int
    batch_size: int

    @property
    def device_id(self) -> int | None:
        if self.device == "cpu":
            return None
        kind, _, number = self.device.partition(":")
        if kind != "cuda" or not (number or "0").isdigit():
            raise ConfigError(f"device must be 'cpu' or 'cuda:N', found {self.device!r}")
        return int(number or 0)


class _Pipe:
    """A DALI pipeline of one graph, that of ``batch``, with as many batches in flight as settings allow."""

    alive: ClassVar[weakref.WeakSet[_Pipe]] = weakref.WeakSet()

    def __init__(self, batch: Batch, settings: _Settings) -> None:
        self._settings = settings
        self._pipe = define(
            batch.graph,
            settings.output,
            device_id=settings.device_id,
            batch_size=settings.batch_size,
            num_threads=settings.num_threads,
            depth=settings.depth,
        )
        self._pipe.build()
        self.alive.add(self)
        # By a decoder's first batch nvImageCodec (0.8, image_generic_codec.h) settles how many samples of
        # every batch a GPU's JPEG hardware is given: behind one sample that is hardly any.
        self._prime(batch.black(1 if settings.device == "cpu" else settings.batch_size))

    def abandon(self) -> None:
        """Never free the pipeline: in a forked child its threads are gone, and freeing it waits for them."""
        inner, self._pipe._pipe = self._pipe._pipe, None
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inner))

    def start(self, batch: Batch) -> None:
        self._feed(batch)
        self._pipe.schedule_run()

    def _feed(self, batch: Batch) -> None:
        """Hand over the inputs as DALI's own lists, which it takes without a look at every sample."""
        from nvidia.dali.tensors import TensorCPU, TensorListCPU

        layout = "" if batch.graph.encoded else "HWC"
        lists = {"payload": TensorListCPU([TensorCPU(data, layout) for data in batch.data()])}
        lists |= {name: TensorListCPU(values, "") for name, values in batch.inputs().items()}
        # Behind all that may fail: a part of a batch would be taken for a part of the next.
        for name, values in lists.items():
            self._pipe.feed_input(name, values)

    def finish(self) -> Any:
        """Images of the oldest batch: a NumPy array, or a DALI tensor on the GPU, both speak DLPack."""
        (images,) = self._pipe.outputs()
        tensor = images.as_tensor()
        if self._settings.device != "cpu":
            return tensor
        # By the buffer protocol the array may be written to; np.from_dlpack would make it read-only.
        array = np.asarray(tensor)
        return to_bfloat16(array) if self._settings.output.dtype == "bfloat16" else array

    def _prime(self, batch: Batch) -> None:
        """Run a black batch through every slot of the queue.

        DALI's first ``schedule_run`` starts as many runs as the queue is deep and wants inputs for
        all of them; after this each call starts one.
        """
        for _ in range(self._settings.depth):
            self._feed(batch)
        self._pipe.schedule_run()
        for _ in range(self._settings.depth):
            self._pipe.outputs()


def _abandon_pipes() -> None:
    for pipe in _Pipe.alive:
        pipe.abandon()


os.register_at_fork(after_in_child=_abandon_pipes)


def _last_line(error: BaseException) -> str:
    """The sentence of a DALI error that says what happened, without its C++ traceback."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [
        line for line in lines if line.startswith("Error") or "failure" in line.lower() or "Assert" in line
    ]
    return next(iter(telling[1:2] or telling or lines), "no message")


def _require_dali() -> None:
    try:
        import nvidia.dali  # noqa: F401 - only to see that it is there
    except ImportError as error:
        raise MissingDependencyError(
            "The dali engine needs NVIDIA DALI, which is not installed",
            hint="pip install 'stoker[dali-cuda12]', or 'stoker[dali-cuda13]' with a driver of 580 or later.",
        ) from error
