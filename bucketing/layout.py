"""Sequences of different lengths, and the layout of their tokens in padded or packed rows.

Batchify functions make all arrays of a batch from a :class:`Layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError
from stoker.processes import cached_property

Int64 = npt.NDArray[np.int64]

Side = Literal["left", "right"]
"""The side of a row that is padded."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """N sequences, end to end in one array.

    Attributes:
        values: (T,) of any dtype, all tokens.
        offsets: (N + 1,) int64, the start of each sequence in ``values``, and T.
        trained: (T,) bool, the tokens that a model is trained on, which alone have labels; None for all.
        targets: (T,), the tokens before a mask hid some of them in ``values``. Labels are made of these, each
            at the index of its token, also for ``labels="causal"``. None without a mask.
    """

    values: npt.NDArray[Any]
    offsets: Int64
    trained: npt.NDArray[np.bool_] | None = None
    targets: npt.NDArray[Any] | None = None

    def __post_init__(self) -> None:
        shapes = self.values.ndim == 1 and self.offsets.ndim == 1 and len(self.offsets) > 0
        if not shapes or self.offsets[0] != 0 or self.offsets[-1] != len(self.values):
            raise ConfigError("values must be (T,), and offsets (N + 1,) from 0 to T")
        if (self.offsets[1:] < self.offsets[:-1]).any():
            raise ConfigError("offsets must be ascending")
        if self.trained is not None and (
            self.trained.shape != self.values.shape or self.trained.dtype != np.bool_
        ):
            raise ConfigError(f"trained must be ({len(self.values)},) bool, found {self.trained.shape}")
        if self.targets is not None and self.targets.shape != self.values.shape:
            raise ConfigError(f"targets must be ({len(self.values)},), found {self.targets.shape}")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"sequence must be from 0 to {len(self) - 1}, found {index}")
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> Int64:
        """(N,) int64, the number of tokens of each sequence."""
        return self.offsets[1:] - self.offsets[:-1]


class Packed(NamedTuple):
    """Sequences, and the packed row of each.

    Attributes:
        sequences: S sequences, packed row after packed row.
        groups: (B + 1,) int64, the first sequence of each packed row, and S.
    """

    sequences: Ragged
    groups: Int64


class Padded(NamedTuple):
    """Sequences in padded rows."""

    rows: npt.NDArray[Any]  # (N, L), tokens and then padding
    lengths: Int64  # (N,) int64, the number of tokens of each row
    trained: npt.NDArray[np.bool_] | None = None  # See :class:`Ragged`; the tokens of all rows end to end


def as_ragged(samples: Ragged | Sequence[npt.ArrayLike]) -> Ragged:
    """Return sequences end to end; a Ragged is returned as it is."""
    if isinstance(samples, Ragged):
        return samples
    arrays = [np.asarray(sample) for sample in samples]
    if not arrays or any(array.ndim != 1 for array in arrays):
        raise ConfigError("a batch needs at least one sequence, and sequences must be one-dimensional")
    # NumPy makes float64 of an empty list, which would turn all tokens into floats.
    typed = [array for array in arrays if len(array)] or arrays[:1]
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    return Ragged(np.concatenate(typed), offsets)


def as_packed(samples: Packed | Sequence[Sequence[npt.ArrayLike]]) -> Packed:
    """Return packed rows, each a list of sequences, end to end; a Packed is returned as it is."""
    if not isinstance(samples, Packed):
        groups = np.cumsum([0, *(len(row) for row in samples)], dtype=np.int64)
        samples = Packed(as_ragged(list(chain.from_iterable(samples))), groups)
    groups = samples.groups
    if len(groups) < 2 or groups[0] != 0 or groups[-1] != len(samples.sequences):
        raise ConfigError(f"groups must rise from 0 to {len(samples.sequences)}, the number of sequences")
    if (groups[1:] < groups[:-1]).any():
        raise ConfigError("groups must be ascending")
    return samples


class _Spans(NamedTuple):
    """The sequences and the paddings, in their order in the flattened rows."""

    bounds: Int64  # (spans + 1,), the start of each span, and the end of the last
    segment: npt.NDArray[np.int32]  # (spans,), the number of the sequence in its row, from 1; 0 for padding

    @property
    def lengths(self) -> Int64:
        return self.bounds[1:] - self.bounds[:-1]


class Layout:
    """B rows of one width, each with sequences end to end and padding on one side.

    The lengths alone tell padding from tokens; token ids do not.
    """

    def __init__(self, packed: Packed, width: int, side: Side = "right") -> None:
        self._values = packed.sequences.values
        self._trained = packed.sequences.trained
        self._targets = packed.sequences.targets
        self._offsets = packed.sequences.offsets
        self._groups = packed.groups
        self._side = side
        self.width = width
        bounds = self._offsets[packed.groups]
        self.filled: Int64 = bounds[1:] - bounds[:-1]  # (B,), the number of tokens in each row
        if self.filled.max() > width:
            row = int(self.filled.argmax())
            raise ConfigError(
                f"row {row} of the batch has {self.filled[row]} tokens, more than the {width} it is padded to"
            )

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        """(B, width) bool: True for tokens, False for padding."""
        column = np.arange(self.width)
        if self._side == "left":
            return np.greater_equal(column, (self.width - self.filled)[:, None])
        return np.less(column, self.filled[:, None])

    def tokens(self, fill: float, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
        """Return (B, width): the tokens, and ``fill`` as padding."""
        return self._padded(self._values, fill, dtype)

    def trained(self) -> npt.NDArray[np.bool_]:
        """Return (B, width) bool: the tokens that a model is trained on."""
        return self.mask if self._trained is None else self._padded(self._trained, fill=False)

    def _padded(
        self, values: npt.NDArray[Any], fill: float, dtype: npt.DTypeLike | None = None
    ) -> npt.NDArray[Any]:
        """Return (B, width): (T,) values, one of each token, and ``fill`` as padding."""
        shape = (len(self.filled), self.width)
        if len(values) == shape[0] * shape[1]:
            return values.reshape(shape).astype(dtype or values.dtype)
        padded = np.full(shape, fill, dtype or values.dtype)
        padded[self.mask] = values
        return padded

    def position_ids(self, start: int) -> npt.NDArray[np.int32]:
        """Return (B, width) int32: positions in each sequence from ``start``; 0 for padding."""
        positions = np.arange(start, start + self.mask.size, dtype=np.int32)
        positions -= np.repeat(self._spans.bounds[:-1].astype(np.int32), self._spans.lengths)
        positions *= self.mask.reshape(-1)
        return positions.reshape(self.mask.shape)

    def segment_ids(self) -> npt.NDArray[np.int32]:
        """Return (B, width) int32: the number of the sequence in its row, from 1; 0 for padding."""
        return np.repeat(self._spans.segment, self._spans.lengths).reshape(self.mask.shape)

    def labels(
        self, ignore_index: int, dtype: npt.DTypeLike | None = None, *, causal: bool = True
    ) -> npt.NDArray[Any]:
        """Return (B, width): the tokens, but ``ignore_index`` for padding and, if causal, each first token.

        Tokens that a model is not trained on have ``ignore_index``, too. So a causal model, which compares
        its output at t with the label at t + 1, never predicts the first token of a sequence from the last
        token of another. If a mask has hidden tokens, labels are the hidden tokens, at the same indices.
        """
        values = self._values if self._targets is None else self._targets
        if self._trained is None:
            labels = self._padded(values, ignore_index, dtype)
        else:
            chosen = values.astype(dtype or values.dtype)
            chosen[~self._trained] = ignore_index
            labels = self._padded(chosen, ignore_index)
        if causal and self._targets is None:
            labels.reshape(-1)[self._starts[self._offsets[1:] > self._offsets[:-1]]] = ignore_index
        return labels

    def loss_weights(self, *, by_sequence: bool, causal: bool = True) -> npt.NDArray[np.float32]:
        """Return (B, width) float32: 0 where ``labels`` ignores."""
        # Elsewhere 1; with ``by_sequence`` 1 / (labels of the sequence), so that a sequence weighs 1.
        offsets = self._offsets
        trained = np.ones(len(self._values), np.bool_) if self._trained is None else self._trained
        weights = trained.astype(np.float32)
        if causal and self._targets is None:
            weights[offsets[:-1][offsets[1:] > offsets[:-1]]] = 0
        if by_sequence:
            before = np.concatenate(([0], np.cumsum(weights, dtype=np.int64)))
            labels = before[offsets[1:]] - before[offsets[:-1]]
            weights /= np.repeat(np.maximum(labels, 1), offsets[1:] - offsets[:-1])
        return self._padded(weights, 0)

    def cu_seqlens(self, max_sequences: int | None) -> npt.NDArray[np.int32]:
        """Return the start of each sequence of the flattened rows, and the end of the last: int32."""
        # The padding of a row counts as a sequence, so that every token belongs to one. With
        # ``max_sequences`` the shape is fixed, (B * (max_sequences + 1) + 1,), with empty sequences at the
        # end. Without it the shape is (S + padded rows + 1,). Kernels of variable-length attention take this
        # array.
        bounds = self._spans.bounds.astype(np.int32)
        if max_sequences is None:
            return bounds
        if self._sequences_per_row.max() > max_sequences:
            most = self._sequences_per_row.max()
            raise ConfigError(f"a row has {most} sequences; max_sequences is {max_sequences}")
        fixed = np.full(len(self.filled) * (max_sequences + 1) + 1, bounds[-1])
        fixed[: len(bounds)] = bounds
        return fixed

    def max_seqlen(self, max_sequences: int | None) -> int:
        """Return the longest span of ``cu_seqlens``; with ``max_sequences``: ``width``."""
        return self.width if max_sequences is not None else int(self._spans.lengths.max())

    @cached_property
    def _sequences_per_row(self) -> Int64:
        return self._groups[1:] - self._groups[:-1]

    @cached_property
    def _starts(self) -> Int64:
        """(S,), the start of each sequence in the flattened rows."""
        gaps = self.width - self.filled
        before = np.cumsum(gaps) - (gaps if self._side == "right" else 0)
        return self._offsets[:-1] + np.repeat(before, self._sequences_per_row)

    @cached_property
    def _spans(self) -> _Spans:
        rows = np.flatnonzero(self.filled < self.width)
        paddings = rows * self.width + (self.filled[rows] if self._side == "right" else 0)
        begins = np.concatenate((self._starts, paddings))
        segment = np.zeros(len(begins), np.int32)
        numbered = np.arange(1, len(self._starts) + 1) - np.repeat(self._groups[:-1], self._sequences_per_row)
        segment[: len(numbered)] = numbered
        order = np.argsort(begins, kind="stable")
        total = len(self.filled) * self.width
        return _Spans(np.append(begins[order], total), segment[order])
