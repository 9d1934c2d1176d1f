"""Facts about the batches of a text loader before it makes them: columns, dtypes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..adapters import framework_of
from ..execution.batch import ColumnSpec
from ..execution.ranks.ranks import Ranks
from ..order.sample_source import SampleSource
from .checkpoints import CheckpointedText
from .config import TextLoaderConfig, ids_dtype

__all__ = ["DescribedText"]


class DescribedText(CheckpointedText):
    """A loader of text that tells columns, dtypes and shapes of its batches."""

    def __init__(self, config: TextLoaderConfig, ranks: Ranks, prefetch: int) -> None:
        self._config = config
        super().__init__(config, ranks, prefetch)

    @property
    def dataset(self) -> SampleSource:
        """The dataset or mixture whose samples are drawn."""
        return self._config.dataset

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch, in their order."""
        return self._config.columns

    @property
    def boundaries(self) -> npt.NDArray[np.int64] | None:
        """(K, D) int64, the padded lengths of each field; None if each batch has its own."""
        return self._config.planner.boundaries

    @property
    def pad_id(self) -> int:
        """Token id of padding. Texts may contain it, too, so only masks show what is padding."""
        return self._config.reader.pad_id

    def shapes(self) -> list[tuple[int, ...]]:
        """The distinct shapes of batches, ascending: (samples, padded length), with a length for each field.

        A compiler can be shown all of them before the first batch. With buckets or packing they are the
        shapes of every epoch, and of the rest of an epoch that is resumed; otherwise those of the next epoch.
        If epochs draw different samples, ``last_batch="partial"`` makes smaller batches; the list has only
        those of the next epoch. With ``context`` they are the shapes of whole rows.
        """
        shapes = self._config.planner.common_shapes  # first, so that the next epoch's plan is kept
        return sorted({*shapes, *self._plan(self._next.epoch).shapes()})

    def element_spec(self) -> tuple[ColumnSpec, ...]:
        """Dtype and shape of each column of a batch, without the batch axis; None for lengths that differ."""
        return tuple(self._config.spec(name) for name in self._config.columns)

    def _options_elsewhere(self) -> dict[str, Any]:
        given = self._given_options
        framework = framework_of(given.get("output", "numpy"))
        options: dict[str, Any] = {"dtype": ids_dtype(given.get("dtype"), framework.ids_dtype)}
        if slices := self._config.maker.slices:
            options["context"] = slices.rank, slices.size
            options["context_slices"] = slices.form
        return options
