"""How sequences are put together, checked when a loader is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from stoker.bucketing.packing.plan import TooLong
from stoker.bucketing.samplers.batch_sampler import Balance
from stoker.bucketing.samplers.groups import LastBatch
from stoker.errors import ConfigError

from ..execution.arguments import optional_number, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from stoker.bucketing import BatchSampler, BucketBoundaries

__all__ = ["BatchingConfig", "LastBatch", "TooLong", "as_buckets"]

_COUNTS = (
    "batch_size",
    "max_tokens",
    "pad_multiple",
    "pack",
    "max_sequences",
    "max_length",
    "samples_per_epoch",
)
_CHOICES = {"too_long": get_args(TooLong), "balance": (None, *get_args(Balance))}


@dataclass(frozen=True)
class BatchingConfig:
    """How sequences are put together; see :class:`stoker.pipeline.text.loader.TextLoader`.

    Attributes:
        batch_size: Samples, or packed rows, of a batch on one rank; None with what follows.
        max_tokens: Tokens of a batch, padding included; None with the others.
        batch_sampler: Makes what puts samples into batches; None with the others.
        buckets: Number of buckets, or their boundaries; None pads each batch to its longest.
        pad_multiple: Padded lengths are multiples of this.
        pack: Tokens of a packed row; None does not pack.
        max_sequences: Sequences of a packed row at most; None for any number.
        max_length: Tokens of a sequence at most; None for any number.
        too_long: What becomes of a longer sequence.
        shuffle: Whether batches are drawn anew each epoch, or come in the order of the dataset.
        samples_per_epoch: Samples of an epoch, cut from an infinite stream; None for no stream.
        seed: Decides what is drawn.
        last_batch: What becomes of the samples that fill no batch.
        balance: What is dealt out to the ranks in equal parts at each step; None for samples as they come.
    """

    batch_size: int | None
    max_tokens: int | None
    batch_sampler: Callable[..., BatchSampler] | None
    buckets: int | BucketBoundaries | npt.NDArray[np.int64] | None
    pad_multiple: int
    pack: int | None
    max_sequences: int | None
    max_length: int | None
    too_long: TooLong
    shuffle: bool
    samples_per_epoch: int | None
    seed: int
    last_batch: LastBatch
    balance: Balance | None

    def __post_init__(self) -> None:
        if [self.batch_size, self.max_tokens, self.batch_sampler].count(None) != 2:
            raise ConfigError(
                "give either batch_size or max_tokens, which decides batches, or a batch_sampler"
            )
        for name in _COUNTS:
            object.__setattr__(self, name, optional_number(name, getattr(self, name), 1))
        object.__setattr__(self, "seed", whole_number("seed", self.seed))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} must be one of {allowed}, found {getattr(self, name)!r}")
        if not isinstance(self.shuffle, bool):
            raise ConfigError(f"shuffle must be True or False, found {self.shuffle!r}")
        self._check_pack()
        if self.pack is None and self.buckets is None and self.max_tokens is not None:
            raise ConfigError("max_tokens needs buckets: a batch that is padded to its longest has no budget")

    def _check_pack(self) -> None:
        if self.pack is None:
            if self.too_long == "split":
                raise ConfigError("too_long='split' needs pack, whose rows the pieces are for")
            if self.max_sequences is not None:
                raise ConfigError("max_sequences needs pack, whose rows it is for")
            return
        if self.max_length is not None:
            raise ConfigError("pack is itself the longest that a sequence may be; leave out max_length")
        if self.batch_sampler is not None:
            raise ConfigError("packed rows are all of one length; give batch_size instead of batch_sampler")


def as_buckets(given: Any) -> int | BucketBoundaries | npt.NDArray[np.int64] | None:
    """Buckets as batching have them: of any kind of integer Python's, of a list or tuple an array."""
    if isinstance(given, np.integer):
        return int(given)
    return np.asarray(given) if isinstance(given, (list, tuple)) else given
