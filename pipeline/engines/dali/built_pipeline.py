"""Built pipelines of DALI: they take batches and return their images."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, ClassVar

import numpy as np

from ..base import EngineSettings
from ..bfloat16 import to_bfloat16
from .inputs import DaliBatch
from .pipeline import define_pipeline


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
        """Start a batch; returns at once."""
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
    for pipeline in BuiltPipeline.alive:
        pipeline.abandon()


os.register_at_fork(after_in_child=_abandon_pipelines)
