"""How sequences are put together, checked when a loader is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from stoker.bucketing.base import Balance
from stoker.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stoker.bucketing import BucketBoundaries

__all__ = ["LastBatch", "TextRules", "TooLong"]

LastBatch = Literal["drop", "pad", "partial"]
TooLong = Literal["error", "truncate", "split"]


@dataclass(frozen=True)
class TextRules:
    """How sequences are put together; see :class:`stoker.pipeline.text_loader.TextLoader`.

    Attributes:
        batch_size: Samples, or packed rows, of a batch on one rank; None with ``max_tokens``.
        max_tokens: Tokens of a batch, padding included; None with ``batch_size``.
        buckets: Number of buckets, or their boundaries; None pads each batch to its longest.
        pad_multiple: Padded lengths are multiples.
        pack: Tokens of a packed row; None does not pack.
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
    buckets: int | BucketBoundaries | npt.NDArray[np.int64] | None
    pad_multiple: int
    pack: int | None
    max_length: int | None
    too_long: TooLong
    shuffle: bool
    samples_per_epoch: int | None
    seed: int
    last_batch: LastBatch
    balance: Balance | None

    def __post_init__(self) -> None:
        if (self.batch_size is None) == (self.max_tokens is None):
            raise ConfigError("give either batch_size or max_tokens, which decides the size of a batch")
        for name in ("batch_size", "max_tokens", "pad_multiple", "pack", "max_length", "samples_per_epoch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, found {value}")
        if not isinstance(self.shuffle, bool):
            raise ConfigError(f"shuffle must be True or False, found {self.shuffle!r}")
        if self.too_long not in get_args(TooLong):
            raise ConfigError(f"too_long must be one of {get_args(TooLong)}, found {self.too_long!r}")
        if self.balance not in (None, *get_args(Balance)):
            raise ConfigError(f"balance must be None or one of {get_args(Balance)}, found {self.balance!r}")
        if self.pack is None and self.too_long == "split":
            raise ConfigError("too_long='split' needs pack, whose rows the pieces are for")
        if self.pack is not None and self.max_length is not None:
            raise ConfigError("pack is itself the longest that a sequence may be; leave out max_length")
        if self.pack is None and self.buckets is None and self.max_tokens is not None:
            raise ConfigError("max_tokens needs buckets: a batch that is padded to its longest has no budget")
