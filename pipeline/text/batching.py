"""How sequences of text form batches: the checked arguments of a loader, and what follows from them.

``TextPlanner`` makes the plans of epochs from these: lengths after truncation, and a batch sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from stoker.arguments import one_of, optional_number, whole_number
from stoker.bucketing import (
    BatchSampler,
    BucketBoundaries,
    FixedBucketSampler,
    SortedBucketSampler,
    TokenBudgetSampler,
)
from stoker.bucketing.boundaries import as_edges
from stoker.bucketing.groups import LastGroup
from stoker.bucketing.packing import TooLong
from stoker.bucketing.samplers import Balance
from stoker.errors import ConfigError

Int64 = npt.NDArray[np.int64]

Buckets = int | BucketBoundaries | Int64 | Literal["auto"] | None

FEW_BUCKETS = 8  # of "auto", for samples of one field

_WINDOW = 100  # batches of a window that a k-d split orders; states depend on the number

_COUNTS = (
    *("batch_size", "max_tokens", "pad_to_multiple_of", "max_sequences", "max_length", "samples_per_epoch"),
    "stream",
)


_WITHOUT_EFFECT = {
    "stream": (
        *("max_tokens", "batch_sampler", "pack", "max_length", "balance", "max_sequences", "buckets"),
        *("too_long", "pad_to_multiple_of"),
    ),
    "pack": ("batch_sampler", "buckets"),
    "batch_sampler": ("buckets", "pad_to_multiple_of"),
}
"""The arguments that have no effect beside another one."""


_USUAL = {"buckets": ("auto", FEW_BUCKETS), "too_long": ("error",), "pad_to_multiple_of": (1,)}


@dataclass(frozen=True)
class BatchingConfig:
    """How sequences form batches. States record the names of the attributes."""

    batch_size: int | None = None  # Samples, or packed rows, of a batch on one rank
    max_tokens: int | None = None  # Tokens of a batch on one rank, padding included
    batch_sampler: Callable[..., BatchSampler] | None = None  # Function that makes the sampler of batches
    buckets: Buckets = None  # Number of buckets, or their boundaries
    pad_to_multiple_of: int = 1
    # Tokens of a packed row, one number for all fields or one for each; None does not pack
    pack: int | tuple[int, ...] | None = None
    max_sequences: int | None = None  # Largest number of sequences in a packed row
    max_length: int | None = None  # Largest number of tokens of a sequence
    too_long: TooLong = "error"  # What happens to a longer sequence
    keep_end: bool = True  # Whether a sequence that is cut keeps the special tokens at its end
    shuffle: bool = False  # Whether each epoch draws other batches; False keeps the order of the dataset
    samples_per_epoch: int | None = None  # Samples of an epoch cut from an infinite stream; None for all once
    seed: int = 0
    last_batch: LastGroup = "partial"  # What happens to samples that do not fill a batch
    balance: Balance | None = None  # Cost that is about equal on all ranks at each step; None deals in order
    stream: int | None = None  # Tokens that a row takes of its stream at each step; None makes no streams

    def __post_init__(self) -> None:
        if [self.batch_size, self.max_tokens, self.batch_sampler].count(None) != 2:
            raise ConfigError(
                "batch_size or batch_sampler decides the size of batches",
                hint="Give one of them. A batch_size in tokens is stoker.MaxTokens(8192).",
            )
        for name in _COUNTS:
            object.__setattr__(self, name, optional_number(name, getattr(self, name), 1))
        pack: Any = self.pack
        if isinstance(pack, (list, tuple, np.ndarray)) and len(pack):
            object.__setattr__(self, "pack", tuple(whole_number("pack", each, 1) for each in pack))
        else:
            object.__setattr__(self, "pack", optional_number("pack", pack, 1))
        object.__setattr__(self, "seed", whole_number("seed", self.seed))
        buckets: Any = self.buckets
        if isinstance(buckets, str) and buckets != "auto":
            raise ConfigError(f"buckets must be 'auto', a number, boundaries or None, found {buckets!r}")
        if isinstance(buckets, np.integer):
            object.__setattr__(self, "buckets", int(buckets))
        elif isinstance(buckets, (list, tuple)):
            object.__setattr__(self, "buckets", np.asarray(buckets))
        one_of("too_long", self.too_long, get_args(TooLong))
        one_of("balance", self.balance, (None, *get_args(Balance)))
        one_of("keep_end", self.keep_end, (True, False))
        if not isinstance(self.shuffle, bool):
            raise ConfigError(f"shuffle must be True or False, found {self.shuffle!r}")
        self._refuse_without_effect()
        if self.stream is not None and self.last_batch == "pad":
            raise ConfigError(
                "streams end together, and no sample is repeated",
                hint='Give last_batch="partial" for a last step of fewer tokens, or "drop".',
            )
        if self.stream is None:
            self._check_padding()

    @property
    def is_auto(self) -> bool:
        """Whether the number of fields decides the way of batching."""
        return isinstance(self.buckets, str) and self.pack is None and self.batch_sampler is None

    @property
    def boundaries(self) -> Int64 | None:
        """(K,) or (K, D), the boundaries that ``buckets`` gives; None if it gives none."""
        buckets = self.buckets
        return None if buckets is None or isinstance(buckets, (int, str)) else as_edges(buckets)

    def _refuse_without_effect(self) -> None:
        """Refuse arguments that another one makes useless."""
        for owner, names in _WITHOUT_EFFECT.items():
            for name in names if getattr(self, owner) is not None else ():
                value = getattr(self, name)
                usual = value is None or (isinstance(value, (int, str)) and value in _USUAL.get(name, ()))
                if not usual:
                    raise ConfigError(
                        f"{name} has no effect beside {owner}", hint=f"Leave out {name}, or {owner}."
                    )

    def _check_padding(self) -> None:
        """Refuse limits of packing without it, and lengths that cannot be padded as asked."""
        edges = self.boundaries
        if self.pack is None and self.too_long == "split":
            raise ConfigError("too_long='split' needs pack", hint="Give pack, or too_long='truncate'.")
        if self.pack is None and self.max_sequences is not None:
            raise ConfigError("max_sequences needs pack", hint="Give pack, or leave max_sequences out.")
        if self.pack is None and self.buckets is None and self.max_tokens is not None:
            raise ConfigError(
                "max_tokens needs buckets, whose lengths decide how many samples fit", hint="Give buckets."
            )
        widths = np.atleast_1d(self.pack or self.pad_to_multiple_of) if edges is None else edges
        if (widths % self.pad_to_multiple_of).any():
            name = "buckets" if self.pack is None else "pack"
            raise ConfigError(
                f"{name} must be multiples of pad_to_multiple_of={self.pad_to_multiple_of}, "
                f"found {widths.tolist()}",
                hint=f"They are the padded lengths: round {name} up, or leave out pad_to_multiple_of.",
            )


def make_batch_sampler(
    batching: BatchingConfig,
    lengths: npt.NDArray[Any],
    boundaries: Int64 | None,
    balance: Balance | Int64 | None,
    world_size: int,
) -> BatchSampler:
    """Return the sampler that groups samples or packed rows into batches."""
    # lengths (M, D), boundaries (K, D)
    flat = flat_lengths(lengths)
    shared: dict[str, Any] = {
        "seed": batching.seed,
        "world_size": world_size,
        "membership": "fresh" if batching.shuffle else "ordered",
        "shuffle": batching.shuffle,
        "last_batch": batching.last_batch,
        "balance": balance,
    }
    if batching.batch_sampler is not None:
        return _given_sampler(batching.batch_sampler, flat, shared)
    budget, size = batching.max_tokens, batching.batch_size or 0
    if boundaries is not None:
        edges = flat_lengths(boundaries)
        if budget is not None:
            return TokenBudgetSampler(flat, budget, edges, **shared)
        return FixedBucketSampler(flat, edges, size, **shared)
    shared["pad_to_multiple_of"] = batching.pad_to_multiple_of
    if budget is not None:
        window = max(1, _WINDOW * budget * len(flat) // max(1, int(flat.sum())))
        return TokenBudgetSampler(flat, budget, window=window, **shared)
    if batching.is_auto or batching.shuffle:
        window = _WINDOW if batching.is_auto else 1
        return SortedBucketSampler(flat, size, window=window, **shared)
    # A sampler that sorts would change the order within a batch; one bucket of all samples keeps it.
    longest = flat_lengths(lengths.max(axis=0, keepdims=True))
    return FixedBucketSampler(flat, longest, size, pad_to="batch", **shared)


def flat_lengths(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lengths of one field as (N,), as samplers take them; of several fields as (N, D)."""
    return table[:, 0] if table.shape[1] == 1 else table


def _given_sampler(make: Any, lengths: npt.NDArray[Any], shared: dict[str, Any]) -> BatchSampler:
    fixed = sorted(shared.keys() & make.keywords.keys()) if isinstance(make, partial) else []
    if fixed:
        raise ConfigError(
            f"batch_sampler fixes {', '.join(fixed)}, which the loader sets",
            hint="Give seed, world_size, shuffle, last_batch and balance to the loader; membership follows "
            "shuffle. To set one otherwise, give a function that changes the keyword arguments it gets.",
        )
    sampler = make(lengths, **shared)
    if not isinstance(sampler, BatchSampler):
        raise ConfigError(
            f"batch_sampler must make a stoker.bucketing.BatchSampler, found {sampler!r}",
            hint="Give a class of stoker.bucketing, or a functools.partial of one.",
        )
    if sampler.lengths.shape != lengths.shape:
        raise ConfigError(
            f"batch_sampler must cover the samples of the epoch: it got lengths of shape {lengths.shape}, "
            f"and its sampler has {sampler.lengths.shape}",
            hint="Give the sampler a length or a cost for each sample; choose samples with dataset.select() "
            "or sampler=.",
        )
    if sampler.world_size != shared["world_size"]:
        raise ConfigError(
            f"batch_sampler must plan for {shared['world_size']} ranks, found {sampler.world_size}",
            hint="Pass on the keyword arguments that the loader calls it with.",
        )
    return sampler


def limited_lengths(
    lengths: npt.NDArray[Any], batching: BatchingConfig, special_tokens: int, *, are_planned: bool
) -> npt.NDArray[Any]:
    """Return the lengths, (N, D), after truncation; packing itself splits long sequences."""
    limits = [] if batching.max_length is None else [np.full(lengths.shape[1], batching.max_length)]
    if are_planned and (capacity := row_capacity(batching, lengths.shape[1])):
        limits.append(np.array(capacity))
    elif are_planned and not limits and batching.boundaries is not None:
        limits.append(length_table(batching.boundaries)[-1])
    if not limits:
        if batching.too_long == "truncate":
            raise ConfigError('too_long="truncate" needs a largest length', hint="Give max_length.")
        return lengths
    longest = np.minimum.reduce(limits)
    if batching.too_long == "error" and (lengths > longest).any():
        row = int((lengths > longest).any(axis=1).argmax())
        raise ConfigError(
            f"sample {row} has {lengths[row].tolist()} tokens, and the most are {longest.tolist()}",
            hint='Truncate with too_long="truncate", or leave out samples with dataset.select().',
        )
    if batching.too_long != "truncate":
        return lengths
    if special_tokens and longest.min() <= special_tokens:
        raise ConfigError(
            f"truncation to {int(longest.min())} tokens leaves no room beside the {special_tokens} special "
            "tokens of the tokenizer",
            hint="Truncate to more tokens.",
        )
    limited: npt.NDArray[Any] = np.minimum(lengths, longest)
    return limited


def length_table(edges: Int64) -> Int64:
    """Boundaries as (K, D), also for one field."""
    return edges.reshape(len(edges), -1)


def row_capacity(batching: BatchingConfig, fields: int) -> tuple[int, ...] | None:
    """Tokens of a packed row in each planned field; None without packing."""
    if batching.pack is None:
        return None
    if fields > 1 and batching.too_long == "split":
        raise ConfigError('too_long="split" takes one field', hint="Choose one: fields=('answer',)")
    capacity = (batching.pack,) * fields if isinstance(batching.pack, int) else batching.pack
    if len(capacity) != fields:
        raise ConfigError(
            f"pack has {len(capacity)} lengths, and rows have {fields}",
            hint="Give one length for all fields, or one for each.",
        )
    return capacity
