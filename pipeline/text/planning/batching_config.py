"""How sequences form batches: arguments of a text loader, checked against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import optional_number, whole_number
from stoker.bucketing import BatchSampler, BucketBoundaries
from stoker.bucketing.boundaries.bucket_boundaries import as_edges
from stoker.bucketing.packing.plan import TooLong
from stoker.bucketing.samplers.batch_sampler import Balance
from stoker.bucketing.samplers.groups import LastGroup
from stoker.errors import ConfigError

Buckets = int | BucketBoundaries | npt.NDArray[np.int64] | Literal["auto"] | None

__all__ = ["FEW_BUCKETS", "BatchingConfig", "LastGroup", "TooLong", "as_buckets"]

FEW_BUCKETS = 8  # of "auto", for samples of one field

_COUNTS = (
    *("batch_size", "max_tokens", "pad_to_multiple_of", "max_sequences", "max_length", "samples_per_epoch"),
    "stream",
)
_CHOICES = {"too_long": get_args(TooLong), "balance": (None, *get_args(Balance))}


@dataclass(frozen=True)
class BatchingConfig:
    """How sequences form batches. States record the names of the attributes."""

    batch_size: int | None  # Samples, or packed rows, of a batch on one rank
    max_tokens: int | None  # Tokens of a batch on one rank, padding included
    batch_sampler: Callable[..., BatchSampler] | None  # Function that makes the sampler of batches
    buckets: Buckets  # Number of buckets, or their boundaries
    pad_to_multiple_of: int  # Padded lengths are multiples of this
    # Tokens of a packed row, one number for all fields or one for each; None does not pack
    pack: int | tuple[int, ...] | None
    max_sequences: int | None  # Largest number of sequences in a packed row; None sets no limit
    max_length: int | None  # Largest number of tokens of a sequence; None sets no limit
    too_long: TooLong  # What happens to a longer sequence
    shuffle: bool  # Whether batches are drawn anew in each epoch; False keeps the order of the dataset
    # Samples of an epoch that is cut from an infinite stream; None for all draws once
    samples_per_epoch: int | None
    seed: int  # Seed of all draws
    last_batch: LastGroup  # What happens to samples that do not fill a batch
    # The cost that is about equal on all ranks at each step; None deals samples in order
    balance: Balance | None
    stream: int | None = None  # Tokens that a row takes of its stream at each step; None makes no streams

    def __post_init__(self) -> None:
        if [self.batch_size, self.max_tokens, self.batch_sampler].count(None) != 2:
            raise ConfigError(
                "one of batch_size, max_tokens and batch_sampler decides the size of batches",
                hint="Give exactly one of them.",
            )
        for name in _COUNTS:
            object.__setattr__(self, name, optional_number(name, getattr(self, name), 1))
        object.__setattr__(self, "pack", _as_capacity(self.pack))
        object.__setattr__(self, "seed", whole_number("seed", self.seed))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} must be one of {allowed}, found {getattr(self, name)!r}")
        if not isinstance(self.shuffle, bool):
            raise ConfigError(f"shuffle must be True or False, found {self.shuffle!r}")
        self._check_stream()
        self._check_pack()
        self._check_padding()
        if self.pack is None and self.buckets is None and self.max_tokens is not None:
            raise ConfigError(
                "max_tokens needs buckets, whose lengths decide how many samples fit", hint="Give buckets."
            )

    @property
    def is_auto(self) -> bool:
        """Whether the number of fields decides the way of batching."""
        return isinstance(self.buckets, str) and self.pack is None and self.batch_sampler is None

    @property
    def boundaries(self) -> npt.NDArray[np.int64] | None:
        """(K,) or (K, D) int64, the boundaries that ``buckets`` gives; None if it gives none."""
        buckets = self.buckets
        return None if buckets is None or isinstance(buckets, (int, str)) else as_edges(buckets)

    @property
    def _gives_buckets(self) -> bool:
        return self.boundaries is not None or self.buckets not in (None, "auto", FEW_BUCKETS)

    def _check_stream(self) -> None:
        if self.stream is None:
            return
        others = {name: getattr(self, name) for name in ("max_tokens", "batch_sampler", "pack", "max_length")}
        others |= {"balance": self.balance, "max_sequences": self.max_sequences}
        without_effect = [name for name, value in others.items() if value is not None]
        without_effect += ["buckets"] * self._gives_buckets + ["too_long"] * (self.too_long != "error")
        without_effect += ["pad_to_multiple_of"] * (self.pad_to_multiple_of != 1)
        if without_effect:
            raise ConfigError(
                f"{without_effect[0]} has no effect beside stream, whose rows are full",
                hint=f"Leave out {without_effect[0]}, and give batch_size.",
            )
        if self.last_batch == "pad":
            raise ConfigError(
                "streams end together, and no sample is repeated",
                hint='Give last_batch="partial" for a last step of fewer tokens, or "drop".',
            )

    def _check_pack(self) -> None:
        if self.pack is None:
            if self.too_long == "split":
                raise ConfigError("too_long='split' needs pack", hint="Give pack, or too_long='truncate'.")
            if self.max_sequences is not None:
                raise ConfigError("max_sequences needs pack", hint="Give pack, or leave max_sequences out.")
            return
        if self.batch_sampler is not None:
            raise ConfigError(
                "packed rows all have one length, which leaves a batch_sampler no choice",
                hint="Give batch_size.",
            )

    def _check_padding(self) -> None:
        """Refuse arguments that would have no effect beside the others."""
        edges = self.boundaries
        if self.pack is not None or self.batch_sampler is not None:
            if self._gives_buckets:
                other = "batch_sampler" if self.pack is None else "pack"
                raise ConfigError(f"buckets has no effect beside {other}", hint="Leave out one of them.")
        elif self.too_long == "truncate" and self.max_length is None and edges is None:
            raise ConfigError('too_long="truncate" needs a largest length', hint="Give max_length.")
        if self.batch_sampler is not None and self.pad_to_multiple_of != 1:
            raise ConfigError(
                "pad_to_multiple_of has no effect beside batch_sampler",
                hint="Give it to the sampler: partial(SortedBucketSampler, ..., pad_to_multiple_of=8).",
            )
        widths = np.atleast_1d(self.pack or self.pad_to_multiple_of) if edges is None else edges
        if (widths % self.pad_to_multiple_of).any():
            name = "buckets" if self.pack is None else "pack"
            raise ConfigError(
                f"{name} must be multiples of pad_to_multiple_of={self.pad_to_multiple_of}, "
                f"found {widths.tolist()}",
                hint=f"They are the padded lengths: round {name} up, or leave out pad_to_multiple_of.",
            )


def _as_capacity(pack: Any) -> int | tuple[int, ...] | None:
    if isinstance(pack, (list, tuple, np.ndarray)) and len(pack):
        return tuple(whole_number("pack", each, 1) for each in pack)
    return optional_number("pack", pack, 1)


def as_buckets(buckets: Any) -> Buckets:
    """Return buckets for :class:`BatchingConfig`: NumPy's integers become Python's, and lists arrays."""
    if isinstance(buckets, str) and buckets != "auto":
        raise ConfigError(f'buckets must be "auto", a number, boundaries or None, found {buckets!r}')
    if isinstance(buckets, np.integer):
        return int(buckets)
    return np.asarray(buckets) if isinstance(buckets, (list, tuple)) else buckets
