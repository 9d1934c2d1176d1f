"""Batch samplers that put samples of similar lengths into one batch.

A sampler holds lengths and rules. ``plan(epoch)`` is a pure function of these, of the seed, the epoch and the
number of ranks. It returns every batch of the epoch with its padded shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from stoker.errors import ConfigError

from ..boundaries.bucket_boundaries import Boundaries, as_edges, assign_buckets
from ..boundaries.lengths import round_up
from .batch_sampler import BatchSampler, Draw
from .groups import Groups, cut_buckets, cut_windows


def _at_least_one(**options: float) -> None:
    for name, value in options.items():
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, found {value}")


@dataclass(frozen=True)
class _Buckets:
    """Boundaries, and the bucket of every sample."""

    edges: npt.NDArray[np.int64]  # (K, D), the padded lengths of each bucket
    bucket: npt.NDArray[np.uint16]  # (N,), the bucket of each sample

    @classmethod
    def make(cls, lengths: npt.NDArray[np.int64], edges: npt.NDArray[np.int64]) -> _Buckets:
        return cls(edges.reshape(len(edges), -1), assign_buckets(lengths, edges).astype(np.uint16))

    def cut(self, sampler: BatchSampler, sizes: npt.NDArray[np.int64], draw: Draw) -> Groups:
        """Return groups of single buckets; ``sizes`` is (K,) int64, the samples of a full batch of each."""
        buckets = self.bucket[draw.rows]
        counts = np.bincount(buckets, minlength=len(self.edges))
        return cut_buckets(sampler.ordered(draw, buckets), counts, sizes, draw.world_size, sampler.last_batch)


@dataclass(frozen=True, eq=False)
class FixedBucketSampler(BatchSampler):
    """Batches from buckets, of one size or larger for shorter sequences (FixedBucketSampler of GluonNLP).

    Attributes:
        boundaries: Result of :func:`bucket_boundaries`, or (K,) or (K, D) int64.
        batch_size: Number of samples in a batch of one rank.
        ratio: A batch of bucket k has ``max(batch_size, int(ratio * batch_size * longest / boundary_k))``
            samples (GluonNLP 0.10). With two lengths in each sample, a boundary is their sum.
        pad_to: "bucket" pads to the boundary, for few shapes; "batch" pads to the longest sequence of the
            step.
        pad_to_multiple_of: With ``pad_to="batch"``, padded lengths are rounded up to a multiple of this.
    """

    boundaries: Boundaries
    batch_size: int
    ratio: float = field(default=0.0, kw_only=True)
    pad_to: Literal["bucket", "batch"] = field(default="bucket", kw_only=True)
    pad_to_multiple_of: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least_one(batch_size=self.batch_size, pad_to_multiple_of=self.pad_to_multiple_of)
        if self.ratio < 0 or self.pad_to not in ("bucket", "batch"):
            raise ConfigError(
                f"ratio must be at least 0, pad_to bucket or batch; found {self.ratio} and {self.pad_to!r}"
            )
        if self.pad_to == "bucket" and self.pad_to_multiple_of != 1:
            raise ConfigError(
                "pad_to_multiple_of has no effect beside pad_to='bucket', which pads to boundaries",
                hint="Give it to bucket_boundaries(), or choose pad_to='batch'.",
            )
        object.__setattr__(self, "boundaries", as_edges(self.boundaries))
        _ = self._buckets

    @cached_property
    def _buckets(self) -> _Buckets:
        return _Buckets.make(self.lengths, as_edges(self.boundaries))

    @cached_property
    def batch_sizes(self) -> npt.NDArray[np.int64]:
        """(K,) int64, the number of samples in a full batch of each bucket."""
        widths = self._buckets.edges.sum(axis=1)
        scaled = widths[-1] / widths * self.ratio * self.batch_size
        sizes: npt.NDArray[np.int64] = np.maximum(scaled.astype(np.int64), self.batch_size)
        return sizes

    def cut(self, draw: Draw) -> Groups:
        """See :meth:`BatchSampler.cut`."""
        return self._buckets.cut(self, self.batch_sizes, draw)

    def padded(self, groups: Groups) -> npt.NDArray[np.int64]:
        """See :meth:`BatchSampler.padded`."""
        if self.pad_to == "bucket":
            return self._buckets.edges[groups.runs]
        return round_up(self.group_maxima(groups), self.pad_to_multiple_of)


@dataclass(frozen=True, eq=False)
class SortedBucketSampler(BatchSampler):
    """Batches from windows of random samples, sorted by length (SortedBucketSampler of GluonNLP).

    Samples with several lengths are not sorted, but halved again and again by the length that leaves the
    least padding (k-d split): pairs then need half the padding of sorting by their sum, or less.

    Each step is padded to its longest sequence, so there are many shapes. A window of one step makes random
    batches; ``window=None`` sorts all samples. ``last_batch="drop"`` leaves out the shortest samples of the
    last window.

    Attributes:
        batch_size: Number of samples in a batch of one rank.
        window: Number of steps in a window; None for one window.
        pad_to_multiple_of: Padded lengths are rounded up to a multiple of this.
    """

    batch_size: int
    window: int | None = field(default=100, kw_only=True)
    pad_to_multiple_of: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least_one(
            batch_size=self.batch_size, pad_to_multiple_of=self.pad_to_multiple_of, window=self.window or 1
        )

    @property
    def rule(self) -> str:
        """See :attr:`BatchSampler.rule`."""
        return "" if self.lengths.ndim == 1 else "k-d split"

    def cut(self, draw: Draw) -> Groups:
        """See :meth:`BatchSampler.cut`."""
        window = self.window * self.batch_size * draw.world_size if self.window else len(self.lengths)
        return cut_windows(
            self.ordered(draw),
            self.lengths,
            window=window,
            batch_size=lambda _: self.batch_size,
            together=self.batch_size,
            world_size=draw.world_size,
            last_batch=self.last_batch,
        )

    def padded(self, groups: Groups) -> npt.NDArray[np.int64]:
        """See :meth:`BatchSampler.padded`."""
        return round_up(self.group_maxima(groups), self.pad_to_multiple_of)


@dataclass(frozen=True, eq=False)
class TokenBudgetSampler(BatchSampler):
    """Batches of at most ``max_tokens`` padded tokens on one rank (max_tokens of fairseq).

    With boundaries, a full batch of a bucket has as many samples as fit, so there are few shapes. Without
    boundaries, samples are ordered in windows as by :class:`SortedBucketSampler`, and each batch takes as
    many as fit; one window of all samples gives the least number of batches.

    Attributes:
        max_tokens: Limit of samples times padded length; with two lengths in each sample, of their sum.
        boundaries: As in :class:`FixedBucketSampler`, or None.
        window: Number of samples of one rank in a window, without boundaries; None for one window.
        batch_multiple: Larger batch sizes are rounded down to a multiple of this
            (required_batch_size_multiple of fairseq).
        max_batch_size: Largest number of samples in a batch of one rank, or None.
        pad_to_multiple_of: Padded lengths are rounded up to a multiple of this, without boundaries.
    """

    max_tokens: int
    boundaries: Boundaries | None = None
    window: int | None = field(default=None, kw_only=True)
    batch_multiple: int = field(default=1, kw_only=True)
    max_batch_size: int | None = field(default=None, kw_only=True)
    pad_to_multiple_of: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        options = {"batch_multiple": self.batch_multiple, "pad_to_multiple_of": self.pad_to_multiple_of}
        _at_least_one(window=self.window or 1, max_batch_size=self.max_batch_size or 1, **options)
        if self.boundaries is not None and (self.window is not None or self.pad_to_multiple_of != 1):
            raise ConfigError(
                "window and pad_to_multiple_of have no effect beside boundaries",
                hint="Leave them out, or leave out boundaries.",
            )
        if self.boundaries is None:
            longest = int(round_up(np.atleast_1d(self.lengths.max(axis=0)), self.pad_to_multiple_of).sum())
        else:
            object.__setattr__(self, "boundaries", as_edges(self.boundaries))
            longest = int(self._buckets.edges[-1].sum())
        if longest > self.max_tokens:
            raise ConfigError(
                f"max_tokens is {self.max_tokens}, less than one sample padded to {longest}",
                hint="Raise max_tokens, or truncate or leave out longer samples.",
            )

    @cached_property
    def _buckets(self) -> _Buckets:
        assert self.boundaries is not None
        return _Buckets.make(self.lengths, as_edges(self.boundaries))

    @cached_property
    def batch_sizes(self) -> npt.NDArray[np.int64]:
        """(K,) int64, the number of samples in a full batch of each bucket; only with boundaries."""
        return np.array([self.batch_size(width) for width in self._buckets.edges.sum(axis=1).tolist()])

    def batch_size(self, padded_length: int) -> int:
        """Return the number of samples in a full batch of one padded length."""
        return self._allowed(self.max_tokens // padded_length)

    def _allowed(self, size: int) -> int:
        if self.max_batch_size is not None:
            size = min(size, self.max_batch_size)
        return size if size < self.batch_multiple else size // self.batch_multiple * self.batch_multiple

    def cut(self, draw: Draw) -> Groups:
        """See :meth:`BatchSampler.cut`."""
        if self.boundaries is not None:
            return self._buckets.cut(self, self.batch_sizes, draw)
        return cut_windows(
            self.ordered(draw),
            round_up(self.lengths, self.pad_to_multiple_of),
            window=self.window * draw.world_size if self.window else len(self.lengths),
            batch_size=lambda following: self._fitting(following, draw.world_size),
            together=1,
            world_size=draw.world_size,
            last_batch=self.last_batch,
        )

    def _fitting(self, following: npt.NDArray[np.int64], world_size: int) -> int:
        """Return the samples of a batch of one rank that begins (n, D) padded lengths, in their order."""
        first = int(following[0].sum())
        if following.shape[1] == 1:  # sorted: the first is the longest
            return self.batch_size(first)
        longest = np.maximum.accumulate(following[: self.max_tokens // first * world_size])
        sizes = np.arange(1, -(-len(longest) // world_size) + 1)
        widths = longest[np.minimum(sizes * world_size, len(longest)) - 1].sum(axis=1)
        fitting = int((sizes * widths <= self.max_tokens).sum())
        return self.batch_size(int(widths[-1])) if fitting == len(sizes) else self._allowed(fitting)

    def padded(self, groups: Groups) -> npt.NDArray[np.int64]:
        """See :meth:`BatchSampler.padded`."""
        if self.boundaries is not None:
            return self._buckets.edges[groups.runs]
        return round_up(self.group_maxima(groups), self.pad_to_multiple_of)
