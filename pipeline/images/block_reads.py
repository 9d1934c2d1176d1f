"""Reading of whole blocks for :class:`stoker.BlockShuffle`, called by the producer of batches of images."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from stoker.formats.dataset.index import Samples

from ..order.changes.substitutes import drawn_at
from ..order.draws import MixedOrder
from ..order.epoch_order import BlockShuffle, Order, Repeat
from ..order.rank_draws import Schedule
from .config import ImageLoaderConfig

_AT_ONCE = 1024  # samples in one request; a larger one could block a thread for seconds on a slow disk


def block_reads(config: ImageLoaderConfig, schedule: Schedule, epoch: int) -> Iterator[Samples]:
    """Yield the samples to read ahead before each batch; yield nothing for orders without blocks.

    Batches draw at random from a window of several blocks. So the engine reads the bytes of a window ahead in
    the order of the files, before the first batch that needs them. It requests the first window at once, and
    each other window in parts, with the batches of the window before it.
    """
    span = _span(config.order)
    if not span:
        return
    steps = max(1, span // schedule.global_batch)
    first = max(1, steps - schedule.start % span // schedule.global_batch)
    ends = [0, *range(first, len(schedule), steps), len(schedule)]
    parts = None
    for begin, end in pairwise(ends):
        window = _in_file_order(config, schedule, epoch, range(begin, end))
        if parts is None:  # the first window, whose last parts come with the first batches
            parts = -(-len(window) // _AT_ONCE)
            following = end - begin - parts + 1
        else:
            parts, following = following, end - begin
        yield from (window.take(part) for part in np.array_split(np.arange(len(window)), max(1, parts)))


def _span(order: Order) -> int:
    """Number of successive draws, of all ranks, from the same blocks; 0 if the order has no blocks."""
    if isinstance(order, BlockShuffle):
        return order.block * order.window
    if isinstance(order, MixedOrder):
        spans = [(_span(one), quota) for one, quota in zip(order.rounds, order.quotas, strict=True)]
        return max((span * order.n // quota for span, quota in spans if quota), default=0)
    within: Order | None = getattr(order, "order", None)
    return _span(within) * (order.times if isinstance(order, Repeat) else 1) if within else 0


def _in_file_order(config: ImageLoaderConfig, schedule: Schedule, epoch: int, steps: range) -> Samples:
    """The samples of this rank's batches at ``steps``, in the order of the files."""
    draws = np.concatenate([schedule.draws(step)[0] for step in steps])
    _, positions = drawn_at(config.order, epoch, draws, draws)
    samples = config.dataset.samples(positions)
    return samples.take(np.lexsort((samples.offset, samples.shard)))
