"""The DALI engine: one pipeline for CPU and GPU, whose inputs are the samples' bytes and drawn parameters.

DALI neither reads, nor shuffles, nor draws random numbers. The engine checks every sample before DALI sees it
(checksum, header, size): a decode error costs DALI the whole batch, and it may miss a damaged payload.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stoker.errors import ConfigError, EngineError, MissingDependencyError, install_hint
from stoker.formats.codecs.decode import engine_decodes

from ..base import ImageFormat, Result, Status, Work
from ..bfloat16 import to_bfloat16
from .inputs import DaliBatch
from .payloads import PayloadReader
from .pipeline import define_pipeline
from .spec import PipelineSpec
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
        image_format: Form of the images. DALI has no bfloat16, so on a GPU such images are left as float32.
        device: "cpu" or "cuda:N". On a GPU JPEGs are decoded there, and images stay there.
        num_threads: DALI's CPU threads.
        depth: Batches in flight at once.
        batch_size: Samples in the largest batch.
        max_pixels: An image with more pixels is TOO_LARGE, found in its header.
        verify: Whether each payload is compared with its checksum.
        mapped: Whether files are mapped; otherwise each payload is read, as suits network file systems.

    Raises:
        MissingDependencyError: DALI is not installed.
        StaleIndexError: A file has another size.
        DatasetError: A file cannot be opened.
    """

    name = "dali"
    executes = frozenset({"interpolation", "mean_matrix", "warp", "perspective", "nearest", "erase"}) | STEPS

    def __init__(
        self,
        files: Sequence[str],
        sizes: Sequence[int],
        image_format: ImageFormat,
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
        self._settings = _Settings(image_format, device, num_threads, max(1, depth), batch_size)
        self._reader = PayloadReader(files, sizes, max_pixels=max_pixels, verify=verify, mapped=mapped)
        self._pipelines: dict[PipelineSpec, _Pipeline] = {}
        self._in_flight: deque[DaliBatch] = deque()
        self._color: npt.NDArray[np.float32] | None = (
            None  # the first batch's, which all samples usually have
        )

    def submit(self, work: Work) -> None:
        """Check the payloads of a batch and start it."""
        payloads = self._reader.read(work.samples, work.params.crop)
        if self._color is None:
            self._color = work.params.color[0]
        # A bad sample has a colour matrix of its own.
        color = None if payloads.bad else self._color
        spec = PipelineSpec.of(
            work.params, color, encoded=bool(engine_decodes("dali", work.samples.codec).any())
        )
        batch = DaliBatch(spec, work.params, payloads)
        self._pipeline(batch).start(batch)
        self._in_flight.append(batch)

    def collect(self) -> Result:
        """Wait for the oldest batch."""
        batch = self._in_flight.popleft()
        try:
            images = self._pipeline(batch).finish()
        except RuntimeError as error:
            images = self._retry(batch, error)
        return Result(images, batch.payloads.status(), batch.payloads.reason())

    def read_ahead(self, samples: Samples) -> None:
        """Ask the kernel for the payloads of ``samples``."""
        self._reader.will_need(samples)

    def close(self) -> None:
        """Free the pipelines."""
        self._in_flight.clear()
        self._pipelines.clear()
        self._reader.close()

    def _pipeline(self, batch: DaliBatch) -> _Pipeline:
        if batch.spec not in self._pipelines:
            self._pipelines[batch.spec] = _Pipeline(batch, self._settings)
        return self._pipelines[batch.spec]

    def _retry(self, batch: DaliBatch, error: RuntimeError) -> Any:
        """Images of a batch that failed as a whole, without the samples that DALI cannot decode.

        A pipeline that raised is not used again, so the batches in flight behind this one are started anew.
        """
        self._pipelines.clear()
        for i in range(len(batch.payloads)):
            self._try_alone(batch, i)
        try:
            return self._run(replace(batch, spec=PipelineSpec.of(batch.params, encoded=batch.spec.encoded)))
        except RuntimeError:
            self._pipelines.clear()
            raise EngineError(f"DALI failed: {_last_line(error)}") from error
        finally:
            for waiting in self._in_flight:
                self._pipeline(waiting).start(waiting)

    def _try_alone(self, batch: DaliBatch, i: int) -> None:
        """Reject sample ``i`` if DALI cannot decode it."""
        try:
            self._run(batch.alone(i))
        except RuntimeError as reason:
            batch.payloads.reject(i, Status.NOT_DECODABLE, _last_line(reason))
            self._pipelines.clear()

    def _run(self, batch: DaliBatch) -> Any:
        pipeline = self._pipeline(batch)
        pipeline.start(batch)
        return pipeline.finish()


@dataclass(frozen=True)
class _Settings:
    """What all pipelines of an engine share; see :class:`DaliEngine`."""

    image_format: ImageFormat
    device: str
    num_threads: int
    depth: int
    batch_size: int

    @property
    def device_id(self) -> int | None:
        if self.device == "cpu":
            return None
        device_type, _, number = self.device.partition(":")
        if device_type != "cuda" or not (number or "0").isdigit():
            raise ConfigError(f"device must be 'cpu' or 'cuda:N', found {self.device!r}")
        return int(number or 0)


class _Pipeline:
    """A built DALI pipeline for batches with the specification of ``batch``."""

    alive: ClassVar[weakref.WeakSet[_Pipeline]] = weakref.WeakSet()

    def __init__(self, batch: DaliBatch, settings: _Settings) -> None:
        self._settings = settings
        self._pipeline = define_pipeline(
            batch.spec,
            settings.image_format,
            device_id=settings.device_id,
            batch_size=settings.batch_size,
            num_threads=settings.num_threads,
            depth=settings.depth,
        )
        self._pipeline.build()
        self.alive.add(self)
        # From the first batch of a decoder nvImageCodec (0.8, image_generic_codec.h) decides how many samples
        # of every batch go to a GPU's JPEG hardware; from a batch of one sample, hardly any.
        self._prime(batch.black(1 if settings.device == "cpu" else settings.batch_size))

    def abandon(self) -> None:
        """Never free the pipeline. Freeing waits for its threads, which a forked child does not have."""
        inner, self._pipeline._pipe = self._pipeline._pipe, None
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inner))

    def start(self, batch: DaliBatch) -> None:
        self._feed(batch)
        self._pipeline.schedule_run()

    def _feed(self, batch: DaliBatch) -> None:
        """Hand over the inputs as DALI's own lists, which it takes without checking every sample."""
        from nvidia.dali.tensors import TensorCPU, TensorListCPU

        layout = "" if batch.spec.encoded else "HWC"
        lists = {"payload": TensorListCPU([TensorCPU(data, layout) for data in batch.data()])}
        lists |= {name: TensorListCPU(values, "") for name, values in batch.inputs().items()}
        # After everything that may fail: DALI would take a part of a batch for a part of the next.
        for name, values in lists.items():
            self._pipeline.feed_input(name, values)

    def finish(self) -> Any:
        """Images of the oldest batch: a NumPy array, or on a GPU a DALI tensor; both speak DLPack."""
        (images,) = self._pipeline.outputs()
        tensor = images.as_tensor()
        if self._settings.device != "cpu":
            return tensor
        # Through the buffer protocol, as np.from_dlpack would make the array read-only.
        array = np.asarray(tensor)
        return to_bfloat16(array) if self._settings.image_format.dtype == "bfloat16" else array

    def _prime(self, batch: DaliBatch) -> None:
        """Run a black batch through every slot of the queue.

        DALI's first ``schedule_run`` starts as many runs as the queue is deep, and needs inputs for all of
        them. Each later call starts one.
        """
        for _ in range(self._settings.depth):
            self._feed(batch)
        self._pipeline.schedule_run()
        for _ in range(self._settings.depth):
            self._pipeline.outputs()


def _abandon_pipelines() -> None:
    for pipeline in _Pipeline.alive:
        pipeline.abandon()


os.register_at_fork(after_in_child=_abandon_pipelines)


def _last_line(error: BaseException) -> str:
    """The line of a DALI error that says what happened, without its C++ traceback."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [
        line for line in lines if line.startswith("Error") or "failure" in line.lower() or "Assert" in line
    ]
    return next(iter(telling[1:2] or telling or lines), "no message")


def _require_dali() -> None:
    try:
        import nvidia.dali  # noqa: F401 - to see whether it is there
    except ImportError as error:
        raise MissingDependencyError(
            "the dali engine needs NVIDIA DALI, which is not installed",
            hint=install_hint("nvidia-dali-cuda120")
            + ", or nvidia-dali-cuda130 with a driver of 580 or later.",
        ) from error
