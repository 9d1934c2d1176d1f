"""Batchify functions for sequences of tokens: padded, end to end, or packed.

:class:`stoker.TextLoader` calls them with the sequences of a batch; users compose them with ``Dict``
and ``Tuple``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from .layout import Layout, Side
from .ragged import Packed, Ragged, as_packed, as_ragged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Flatten", "Output", "Pack", "Pad"]

Output = Literal[
    "input_ids",
    "attention_mask",
    "lengths",
    "position_ids",
    "segment_ids",
    "labels",
    "loss_weights",
    "cu_seqlens",
    "max_seqlen",
]


@dataclass(frozen=True, kw_only=True)
class _Tokens:
    """Options of Pad, Flatten and Pack.

    Attributes:
        outputs: Which arrays to make, of :data:`Output`.
        prefix: Put before the names of the arrays.
        value: Token id written where padding is. It is never read as a sign of padding.
        dtype: Of the token ids; None keeps theirs.
        multiple_of: Where the length is not fixed, it is rounded up to a multiple.
        position_start: Where position ids of every sequence start (2 for RoBERTa).
        ignore_index: Label of what is not to be predicted.
        loss_weights: "tokens" weighs every label 1, "sequences" every sequence 1.
    """

    outputs: Sequence[Output] = ("input_ids", "attention_mask")
    prefix: str = ""
    value: int = 0
    dtype: npt.DTypeLike | None = None
    multiple_of: int = 1
    position_start: int = 0
    ignore_index: int = -100
    loss_weights: Literal["tokens", "sequences"] = "tokens"

    def __post_init__(self) -> None:
        unknown = set(self.outputs) - set(get_args(Output))
        if unknown:
            raise ConfigError(f"outputs must be of {get_args(Output)}, not {sorted(unknown)}")
        if self.multiple_of < 1:
            raise ConfigError(f"multiple_of must be at least 1, not {self.multiple_of}")

    def _width(self, longest: int, length: int | None) -> int:
        return max(-(-longest // self.multiple_of), 1) * self.multiple_of if length is None else length

    def _arrays(self, layout: Layout, max_sequences: int | None = None) -> dict[str, Any]:
        make: dict[Output, Callable[[], Any]] = {
            "input_ids": lambda: layout.tokens(self.value, self.dtype),
            "attention_mask": lambda: layout.mask,
            "lengths": lambda: layout.filled.astype(np.int32),
            "position_ids": lambda: layout.position_ids(self.position_start),
            "segment_ids": layout.segment_ids,
            "labels": lambda: layout.labels(self.ignore_index, self.dtype),
            "loss_weights": lambda: layout.loss_weights(by_sequence=self.loss_weights == "sequences"),
            "cu_seqlens": lambda: layout.cu_seqlens(max_sequences),
            "max_seqlen": lambda: layout.max_seqlen(max_sequences),
        }
        return {self.prefix + name: make[name]() for name in self.outputs}


@dataclass(frozen=True)
class Pad(_Tokens):
    """Sequences into rows of one length.

    Attributes:
        side: Where padding goes.
    """

    side: Side = field(default="right", kw_only=True)

    def __call__(
        self, samples: Ragged | Sequence[npt.ArrayLike], length: int | None = None
    ) -> dict[str, Any]:
        """Arrays by name, (N, length) but for lengths (N,) int32; attention_mask is bool.

        Args:
            samples: N sequences.
            length: Pad to this, as a bucket asks; None pads to the longest.

        Raises:
            ConfigError: A sequence is longer than ``length``.
        """
        ragged = as_ragged(samples)
        packed = Packed(ragged, np.arange(len(ragged) + 1))
        return self._arrays(Layout(packed, self._width(int(ragged.lengths.max()), length), self.side))


@dataclass(frozen=True)
class Flatten(_Tokens):
    """Sequences end to end, for variable-length attention.

    Attributes:
        max_sequences: With it, ``cu_seqlens`` has the fixed shape (max_sequences + 2,), and
            ``max_seqlen`` is the padded length; give ``length`` too, and all shapes are static.
    """

    outputs: Sequence[Output] = ("input_ids", "cu_seqlens", "max_seqlen", "position_ids")
    max_sequences: int | None = field(default=None, kw_only=True)

    def __call__(
        self, samples: Ragged | Sequence[npt.ArrayLike], length: int | None = None
    ) -> dict[str, Any]:
        """Arrays by name, (T,) but for cu_seqlens, see :meth:`Layout.cu_seqlens`, and max_seqlen, an int.

        Args:
            samples: N sequences.
            length: T, padding included; None adds none but for ``multiple_of``.

        Raises:
            ConfigError: The sequences are longer than ``length`` in all, or too many.
        """
        ragged = as_ragged(samples)
        packed = Packed(ragged, np.array([0, len(ragged)]))
        arrays = self._arrays(Layout(packed, self._width(len(ragged.values), length)), self.max_sequences)
        return {
            name: array[0] if isinstance(array, np.ndarray) and array.ndim == 2 else array
            for name, array in arrays.items()
        }


@dataclass(frozen=True)
class Pack(_Tokens):
    """Packed rows of one capacity, several sequences each.

    Attention stays within a sequence where ``segment_ids`` are equal, or by ``cu_seqlens`` of the
    flattened rows.

    Attributes:
        max_sequences: As in :class:`Flatten`, for each row: cu_seqlens is
            (B * (max_sequences + 1) + 1,).
    """

    outputs: Sequence[Output] = ("input_ids", "segment_ids", "position_ids")
    max_sequences: int | None = field(default=None, kw_only=True)

    def __call__(
        self, samples: Packed | Sequence[Sequence[npt.ArrayLike]], length: int | None = None
    ) -> dict[str, Any]:
        """Arrays by name, (B, length) but for lengths (B,), cu_seqlens and max_seqlen.

        Args:
            samples: B rows, each a list of sequences.
            length: The capacity; None takes the fullest row's.

        Raises:
            ConfigError: A row holds more than ``length`` tokens, or too many sequences.
        """
        packed = as_packed(samples)
        tokens = np.diff(packed.sequences.offsets[packed.groups])
        return self._arrays(Layout(packed, self._width(int(tokens.max()), length)), self.max_sequences)
