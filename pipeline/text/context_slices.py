"""Slices of sequences for context parallelism: each rank of a group gets its part of every row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stoker.arguments import whole_number
from stoker.bucketing.batchify import Batchify, Pack, Pad
from stoker.errors import ConfigError

SliceForm = Literal["contiguous", "balanced"]

_LABELS = ("labels", "loss_weights")


@dataclass(frozen=True)
class ContextSlices:
    """The part of every row that one rank of a context-parallel group receives."""

    rank: int  # Rank in the group
    size: int  # Ranks of the group
    form: SliceForm = "balanced"  # "contiguous": rank r has the r-th of ``size`` equal parts
    # Arrays that move one token to the left first, with what follows the last token
    shifted: Mapping[str, float] = field(default_factory=dict)

    @property
    def parts(self) -> int:
        """The number of equal parts that a row is divided into."""
        return self.size * (2 if self.form == "balanced" else 1)

    def token_indices(self, length: int) -> npt.NDArray[np.int64]:
        """Indices of this rank's tokens in rows of ``length`` tokens, (length / size,) int64."""
        if length % self.parts:
            raise ConfigError(
                f"rows of {length} tokens cannot be divided among {self.size} ranks in equal slices",
                hint=f"Give pad_to_multiple_of={self.parts}, or boundaries or pack that are multiples of it.",
            )
        parts = np.arange(length).reshape(self.parts, -1)
        slices = [self.rank] if self.form == "contiguous" else [self.rank, self.parts - 1 - self.rank]
        return parts[slices].ravel()

    def cut(self, arrays: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        """Return the arrays of a batch, cut to this rank's part."""
        indices = self.token_indices(shape[1])
        cut_arrays = {}
        for name, value in arrays.items():
            whole = value
            if np.shape(value)[:2] == shape[:2]:
                if name in self.shifted:
                    whole = np.full_like(value, self.shifted[name])
                    whole[:, :-1] = value[:, 1:]
                whole = np.ascontiguousarray(whole[:, indices])
            cut_arrays[name] = whole
        if all(cut_arrays[name] is arrays[name] for name in arrays):
            raise ConfigError(
                "no array of the batch has rows of tokens that could be divided among context-parallel ranks",
                hint="Name columns such as 'input_ids', with rows that are padded or packed.",
            )
        return cut_arrays


def arrays_to_shift(batchify: Batchify) -> dict[str, float]:
    """Return the arrays that belong to the tokens that a causal model predicts, with their padding."""
    if not isinstance(batchify, (Pad, Pack)) or batchify.labels != "causal":
        return {}
    return {f"{batchify.prefix}labels": batchify.ignore_index, f"{batchify.prefix}loss_weights": 0}


def check_labels(batchify: Batchify, arrays: Collection[str]) -> None:
    """Check that it is known to which tokens the labels of a batchify function belong."""
    unknown = [] if isinstance(batchify, (Pad, Pack)) else [name for name in _LABELS if name in arrays]
    if unknown:
        raise ConfigError(
            f"context needs to know whether the array {unknown[0]!r} of batchify is shifted",
            hint="Shift labels and their weights one token to the left in the function, and give them other "
            "names, such as shift_labels. Or use Pad or Pack, whose labels are shifted before they are cut.",
        )


def make_slices(context: Any, form: SliceForm, shifted: Mapping[str, float]) -> ContextSlices:
    """Return the slices of a ``context`` and ``context_slices``, see :class:`stoker.Ranks`."""
    if hasattr(context, "get_local_rank") and hasattr(context, "size"):
        context = context.get_local_rank(), context.size()
    if not isinstance(context, (tuple, list)) or len(context) != 2:
        raise ConfigError(
            f"context must be a DeviceMesh of one dimension, or rank and size, found {context!r}",
            hint='Give mesh["cp"], or rank and size, such as (0, 4).',
        )
    rank, size = whole_number("context", context[0], 0), whole_number("context", context[1], 1)
    if rank >= size:
        raise ConfigError(f"context has rank {rank} of {size}", hint="Ranks count from 0.")
    return ContextSlices(rank, size, form, shifted)


def check_lengths(
    slices: ContextSlices, fields: int, edges: npt.NDArray[Any] | None, pad_to_multiple_of: int
) -> None:
    """Check that all rows can be cut."""
    # edges (K, fields)
    if fields > 1:
        raise ConfigError("context slices rows of one field", hint="Choose one: fields=('answer',)")
    for length in [pad_to_multiple_of] if edges is None else edges.ravel().tolist():
        slices.token_indices(length)
