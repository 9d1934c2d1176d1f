"""Arrays of sequences with different lengths, which batchify functions take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    offsets: npt.NDArray[np.int64]
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
    def lengths(self) -> npt.NDArray[np.int64]:
        """(N,) int64, the number of tokens of each sequence."""
        return self.offsets[1:] - self.offsets[:-1]


class Packed(NamedTuple):
    """Sequences, and the packed row of each.

    Attributes:
        sequences: S sequences, packed row after packed row.
        groups: (B + 1,) int64, the first sequence of each packed row, and S.
    """

    sequences: Ragged
    groups: npt.NDArray[np.int64]


class Padded(NamedTuple):
    """Sequences in padded rows."""

    rows: npt.NDArray[Any]  # (N, L), tokens and then padding
    lengths: npt.NDArray[np.int64]  # (N,) int64, the number of tokens of each row
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
