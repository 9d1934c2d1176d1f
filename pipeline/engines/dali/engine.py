"""The DALI engine: one pipeline for CPU and GPU, whose inputs are the samples' bytes and drawn parameters.

DALI neither reads, nor shuffles, nor draws random numbers. The engine checks every sample before DALI sees it
(checksum, header, size, entropy-coded data): a decode error costs DALI the whole batch, and it makes an image
of most damaged payloads.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from stoker.augment.params import ImageParams
from stoker.errors import EngineError, MissingDependencyError, install_hint
from stoker.formats.codecs.codec import engine_decodes
from stoker.formats.dataset.index import Samples

from ..base import EngineSettings, Result, Work, open_shards, to_bfloat16
from .failures import engine_error, is_sticky, recover
from .inputs import DaliBatch, DamageScan, Payloads, PipelineSpec, read_payloads, united_crops
from .pipeline import define_pipeline
from .steps import STEPS

_MOST_PIPELINES = 3
"""Pipelines that are kept for each array of images. Each holds threads; on a GPU it also holds a decoder, and
at least 32 MiB for each thread."""


EXECUTES = STEPS | frozenset(
    {"interpolation", "antialias=False", "mean_matrix", "warp", "perspective", "nearest", "erase"}
)
"""What DALI executes of :attr:`stoker.augment.plan.ImagePlan.needs`."""


class DaliEngine:
    """Executes batches with NVIDIA DALI.

    DALI has no bfloat16, so on a GPU such images are left as float32. JPEGs are decoded on the device of the
    engine. The pipeline for ``EngineSettings.typical`` is built at once; without it the first batch waits.
    """

    name = "dali"

    def __init__(self, settings: EngineSettings) -> None:
        _require_dali()
        self.device = settings.device
        self.max_in_flight = settings.depth
        self._settings = settings
        self._shards = open_shards(
            settings.files, settings.sizes, mapped=settings.mapped, listing=settings.listing
        )
        self._scan = DamageScan(self._shards, settings)
        self._specs: dict[tuple[int, PipelineSpec], PipelineSpec] = {}  # the one in use, by family
        # By image column and specification. The pipeline that was used last stands last.
        self._pipelines: dict[tuple[int, PipelineSpec], BuiltPipeline] = {}
        self._works: deque[tuple[int, Payloads]] = deque()  # numbers of batches, and payloads of the samples
        # The pipeline of each batch, or why it could not be started again.
        self._in_flight: deque[tuple[DaliBatch, BuiltPipeline | EngineError]] = deque()
        if settings.typical is not None:
            self._prepare(settings.typical)

    def submit(self, work: Work) -> None:
        """Check the payloads of a batch and start it."""
        crops = np.concatenate([params.crop for params in work.columns])
        crops = united_crops(crops, work.views(crops))
        payloads = read_payloads(self._shards, work.samples, self._settings, crops)
        self._scan.reject_damaged(work, payloads)
        batches = [self._batch(work, column, payloads) for column in range(len(work.columns))]
        try:
            started = [(batch, self._start(batch)) for batch in batches]
        except BaseException:
            self._pipelines.clear()  # a pipeline may have started a batch that will not be collected
            raise
        self._in_flight.extend(started)
        self._works.append((len(started), payloads))

    def collect(self) -> Result:
        count, payloads = self._works.popleft()
        arrays, failures = [], []
        for _ in range(count):  # collects all, also after a failure: the next batch follows
            batch, pipeline = self._in_flight.popleft()
            try:
                arrays.append(self._finish(batch, pipeline))
            except EngineError as error:
                failures.append(error)
            for i, found in batch.payloads.bad.items():
                payloads.bad.setdefault(i % len(payloads), found)
        if failures:
            raise failures[0]
        images, *others = arrays
        return Result(images, payloads.status(), payloads.reason(), others=tuple(others))

    def read_ahead(self, samples: Samples, columns: Sequence[ImageParams] = ()) -> None:
        self._shards.will_need(samples.shard, samples.offset, samples.length)

    def close(self) -> None:
        self._works.clear()
        self._in_flight.clear()
        self._pipelines.clear()
        self._scan.close()
        self._shards.close()

    def _prepare(self, typical: Work) -> None:
        try:
            for column in range(len(typical.columns)):
                self._pipeline(self._batch(typical, column, Payloads([])))
        except BaseException:
            self.close()
            raise

    def _batch(self, work: Work, column: int, payloads: Payloads) -> DaliBatch:
        params = work.columns[column]
        views = work.views(params)
        spec = self._spec(work.samples, column, params)
        if self.device == "cpu":
            return DaliBatch(spec, params, payloads.repeated(1), column=column, cuts=views)
        # On a GPU the cuts would have to be joined there. On a CPU one decoding for all cuts takes two thirds
        # of the time of a decoding for each, on photographs of ImageNet's size and quality.
        return DaliBatch(spec, params, payloads.repeated(views), column=column, repeats=views)

    def _spec(self, samples: Samples, column: int, params: ImageParams) -> PipelineSpec:
        """The specification of the pipeline for a batch, which covers the needs of all batches so far."""
        # So a need of a single batch, such as a vertical flip, builds a pipeline at most once.
        encoded = bool(engine_decodes("dali", samples.codec).any())
        needed = PipelineSpec.of(params, encoded=encoded)
        known = self._specs.get((column, needed.family))
        self._specs[column, needed.family] = spec = known.covering(needed) if known else needed
        return spec

    def _pipeline(self, batch: DaliBatch) -> BuiltPipeline:
        key = batch.column, batch.spec
        pipeline = self._pipelines.pop(key, None)
        if pipeline is None:
            own = [one for one in self._pipelines if one[0] == batch.column]
            for old in own[: max(0, len(own) + 1 - _MOST_PIPELINES)]:  # batches in flight keep theirs
                del self._pipelines[old]
            try:
                pipeline = BuiltPipeline(batch, self._settings)
            except (RuntimeError, MemoryError) as error:
                if isinstance(error, EngineError):
                    raise
                raise engine_error(error, self.device) from error
        self._pipelines[key] = pipeline
        return pipeline

    def _start(self, batch: DaliBatch) -> BuiltPipeline:
        pipeline = self._pipeline(batch)
        pipeline.start(batch)
        return pipeline

    def _finish(self, batch: DaliBatch, pipeline: BuiltPipeline | EngineError) -> Any:
        if isinstance(pipeline, EngineError):
            raise pipeline
        try:
            return pipeline.finish()
        except (RuntimeError, MemoryError) as error:
            return self._recover(batch, error)

    def _recover(self, batch: DaliBatch, error: RuntimeError | MemoryError) -> Any:
        """Images of a batch that failed, without the samples that DALI cannot decode."""
        # A pipeline that raised is not used again, so the batches in flight after this one are started again.
        self._pipelines.clear()
        waiting = [batch for batch, _ in self._in_flight]
        self._in_flight.clear()
        fault: EngineError | None = None
        try:
            return recover(batch, error, self._run, self.device)
        except EngineError as reason:
            fault = reason if reason.__cause__ is not None and is_sticky(reason.__cause__) else None
            raise
        finally:
            self._restart(waiting, fault)

    def _restart(self, batches: list[DaliBatch], fault: EngineError | None) -> None:
        """Start batches again; those that cannot be started fail when they are collected."""
        for batch in batches:
            if fault is not None:
                self._in_flight.append((batch, fault))
                continue
            try:
                self._in_flight.append((batch, self._start(batch)))
            except (RuntimeError, MemoryError) as error:
                self._pipelines.clear()  # a pipeline may have taken a part of the batch
                failure = engine_error(error, self.device)
                failure.__cause__ = failure.__cause__ or error
                if is_sticky(failure.__cause__):
                    fault = failure
                self._in_flight.append((batch, failure))

    def _run(self, batch: DaliBatch) -> Any:
        try:
            return self._start(batch).finish()
        except (RuntimeError, MemoryError):
            self._pipelines.clear()
            raise


make_engine = DaliEngine


def _require_dali() -> None:
    try:
        import nvidia.dali  # noqa: F401 - to see whether it is there
    except ImportError as error:
        raise MissingDependencyError(
            "the dali engine needs NVIDIA DALI, which is not installed",
            hint=install_hint("nvidia-dali-cuda120")
            + ", or nvidia-dali-cuda130 with a driver of 580 or later.",
        ) from error


class BuiltPipeline:
    """A pipeline of DALI that is ready for batches with the specification of ``batch``."""

    alive: ClassVar[weakref.WeakSet[BuiltPipeline]] = weakref.WeakSet()

    def __init__(self, batch: DaliBatch, settings: EngineSettings) -> None:
        self._settings = settings
        batch_size = settings.batch_size * batch.repeats
        self._pipeline = define_pipeline(batch.spec, settings, batch_size=batch_size, cuts=batch.cuts)
        self._pipeline.build()
        self.alive.add(self)
        # From the first batch of a decoder nvImageCodec (0.8, image_generic_codec.h) decides how many samples
        # of every batch go to a GPU's JPEG hardware; from a batch of one sample, hardly any.
        self._prime(batch.black(1 if settings.device == "cpu" else batch_size))

    def abandon(self) -> None:
        """Never free the pipeline. Freeing waits for its threads, which a forked child does not have."""
        inner, self._pipeline._pipe = self._pipeline._pipe, None
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inner))

    def start(self, batch: DaliBatch) -> None:
        self._feed(batch)
        self._pipeline.schedule_run()

    def finish(self) -> Any:
        """Images of the oldest batch: a NumPy array, or on a GPU a DALI tensor; both speak DLPack."""
        outputs = self._pipeline.outputs()
        if self._settings.device != "cpu":
            return outputs[0].as_tensor()
        # Through the buffer protocol, as np.from_dlpack would make the array read-only.
        arrays = [np.asarray(images.as_tensor()) for images in outputs]
        array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return to_bfloat16(array) if self._settings.image_format.dtype == "bfloat16" else array

    def _feed(self, batch: DaliBatch) -> None:
        """Hand over the inputs as DALI's own lists, which it takes without checking every sample."""
        from nvidia.dali.tensors import TensorCPU, TensorListCPU

        layout = "" if batch.spec.encoded else "HWC"
        payloads = [TensorCPU(capsule, layout) for capsule in batch.data()]
        # A contiguous list would be a copy of all payloads, made under the interpreter's lock.
        list_of_views: Any = TensorListCPU  # whose stub lacks the argument
        lists = {"payload": list_of_views(payloads, layout, contiguous=False)}
        lists |= {name: TensorListCPU(values, "") for name, values in batch.inputs().items()}
        # After everything that may fail: DALI would take a part of a batch for a part of the next.
        for name, values in lists.items():
            self._pipeline.feed_input(name, values)

    def _prime(self, batch: DaliBatch) -> None:
        """Run a black batch through every slot of the queue."""
        # DALI's first ``schedule_run`` starts as many runs as the queue is deep, and needs inputs for all of
        # them. Each later call starts one.
        for _ in range(self._settings.depth):
            self._feed(batch)
        self._pipeline.schedule_run()
        for _ in range(self._settings.depth):
            self._pipeline.outputs()


def _abandon_pipelines() -> None:
    for pipeline in BuiltPipeline.alive:
        pipeline.abandon()


os.register_at_fork(after_in_child=_abandon_pipelines)
