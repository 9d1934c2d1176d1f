"""The completion of image batches: what an engine has made becomes the batch that a loader returns.

It raises the errors of bad samples, or leaves these out as ``on_error`` says, and assembles the columns in
the arrays of the framework. :mod:`.image_pipeline` calls it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.errors import CorruptRecordError, DecodeError, ImageTooLargeError, SampleError

from ..adapters import Adapter
from ..engines.base import Result, Status
from ..execution.batch import FinishedBatch
from ..execution.stats import StatsTotals
from .batch_assembler import BatchAssembler
from .batch_transforms import function_name
from .columns import Contents
from .config import ImageLoaderConfig
from .patch_assembler import PatchAssembler
from .planned_batches import PlannedBatch

_LISTS = "on_error='skip' or 'replace' goes on without such samples; stoker verify{} lists them all."
_DAMAGED, _BROKEN = _LISTS.format(""), _LISTS.format(" --decode")
_LARGE = "A larger max_pixels accepts it; on_error='skip' or 'replace' goes on without such samples."

ERRORS = {
    Status.READ_ERROR: (CorruptRecordError, "the payload cannot be read", _DAMAGED),
    Status.CHECKSUM_MISMATCH: (CorruptRecordError, "the payload does not match its checksum", _DAMAGED),
    Status.SIZE_MISMATCH: (CorruptRecordError, "the image is not the one in the index", _BROKEN),
    Status.NOT_DECODABLE: (DecodeError, "the image cannot be decoded", _BROKEN),
    Status.TRUNCATED: (DecodeError, "the image is truncated", _BROKEN),
    Status.TOO_LARGE: (ImageTooLargeError, "the image has more pixels than max_pixels", _LARGE),
}
"""Class of the error, what was wrong, and what to do about it, by the status of a sample."""


@dataclass(frozen=True, eq=False)
class CollectedBatch:
    """A batch of the engine and the readers, not yet in arrays of the framework."""

    planned: PlannedBatch  # The samples of the batch
    result: Result  # Their images, as the engine returned them
    contents: Contents  # Annotations and arrays of the samples

    @property
    def images(self) -> tuple[Any, ...]:
        """All arrays of images."""
        return self.result.columns

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.planned)

    @property
    def nbytes(self) -> int:
        """Bytes of the images."""
        return sum(images.nbytes for images in self.images)


class BatchCompletion:
    """Makes the batches of one epoch out of :class:`CollectedBatch`, and counts bad samples."""

    def __init__(
        self, config: ImageLoaderConfig, adapter: Adapter, totals: StatsTotals, epoch: int, samples: float
    ) -> None:
        self._config = config
        self._assembler = (
            PatchAssembler(config, adapter, totals, epoch)
            if config.size_plan.patch_planner
            else BatchAssembler(config, adapter, totals, epoch)
        )
        self._copy_stream = adapter.copy_stream
        self._totals = totals
        self._samples = samples
        self._bad = 0
        self._last_bad: SampleError | None = None

    def complete(self, collected: CollectedBatch) -> FinishedBatch:
        """Return the batch."""
        planned, result, contents = collected.planned, collected.result, collected.contents
        self._raise_step_error(planned, result)
        is_bad = planned.of_images(result.status != Status.OK)
        is_bad[list(contents.errors)] = True
        self._totals.seen += len(planned)
        kept = self._choose_samples(planned, result, contents, is_bad) if is_bad.any() else None
        self._check_budget()
        stream = self._copy_stream
        with self._totals.worker.stage("handing over"), stream or contextlib.nullcontext():
            batch = self._assembler.make(planned, result.columns, contents, kept)
            for whole in self._config.batch_transform_plan.whole:
                with self._totals.worker.stage(function_name(whole.function)):
                    batch = whole(batch)
        ready = stream.ready(batch) if stream else None
        if kept is None:
            return FinishedBatch(batch, len(planned), ready=ready)
        counted = "skipped" if self._config.bad_samples.on_error == "skip" else "replaced"
        keys = tuple(self._config.dataset.keys(planned.blamed(result.status != Status.OK)[is_bad]))
        return FinishedBatch(batch, len(kept), bad_keys=keys, ready=ready, **{counted: len(keys)})

    def _choose_samples(
        self, planned: PlannedBatch, result: Result, contents: Contents, is_bad: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """Indices in the batch of the samples to hand out, (K,) int64, as ``on_error`` says."""
        good, bad = np.flatnonzero(~is_bad), np.flatnonzero(is_bad)
        on_error = self._config.bad_samples.on_error
        if on_error == "raise" or (on_error == "replace" and not good.size):
            raise self._sample_error(planned, result, contents, int(bad[0]))
        self._bad += len(bad)
        self._last_bad = self._sample_error(planned, result, contents, int(bad[-1]))
        if on_error == "skip":
            return good
        chosen = np.arange(len(planned))
        # The next good sample of the batch, or after the last one the first: no further samples are drawn.
        chosen[bad] = good[np.searchsorted(good, bad) % good.size]
        return chosen

    def _raise_step_error(self, planned: PlannedBatch, result: Result) -> None:
        """Raise the error of the first sample on which a step failed, with the sample's key."""
        if result.step_errors:
            i = min(result.step_errors)
            error = result.step_errors.pop(i)  # popped, or the error would hold itself by its traceback
            error.key = self._config.dataset.keys(planned.positions[[i]])[0]
            raise error

    def _check_budget(self) -> None:
        """Raise the error of the last bad sample if the epoch has too many."""
        policy, error = self._config.bad_samples, self._last_bad
        if error and policy.is_exceeded(self._bad, samples=self._samples, seen=self._totals.seen):
            self._last_bad = None  # the error's traceback refers to this producer
            error.message = f"{self._bad} samples of this epoch are bad, the last one: {error.message}"
            error.hint = f"max_bad={policy.most} allows fewer; stoker verify --decode lists them all."
            raise error

    def _sample_error(self, planned: PlannedBatch, result: Result, contents: Contents, i: int) -> SampleError:
        """The error of the bad sample ``i`` of a batch."""
        sources = planned.sources_of(i)
        bad = sources[result.status[sources] != Status.OK]
        if not bad.size:
            return contents.errors.pop(i)  # popped, or the error would hold itself by its traceback
        error_class, message, hint = ERRORS[Status(int(result.status[bad[0]]))]
        reason = result.reason.get(int(bad[0]), "")
        return self._config.dataset.error(
            int(planned.sources[bad[0]]), f"{message}: {reason}" if reason else message, error_class, hint
        )
