"""Hit rates of a cache of blocks: evicted by least recent use, by next use, and at the optimum (Belady).

    python -m stoker.benchmarks.storage.cache_policies [--json benchmarks/results/cache_policies.json]

Three epochs of a full shuffle are drawn. The cache holds 10%, 25% or 50% of the blocks, which have one sample
each (photographs of a megabyte), or sixteen.
"""

from __future__ import annotations

import argparse
import json
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stoker.pipeline.caching.next_use import NextUse
from stoker.pipeline.order.epoch_order import FullShuffle

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["HitRates", "hit_rates"]

_EPOCHS = 3


@dataclass(frozen=True)
class HitRates:
    """Shares of the uses of blocks that find the block in the cache, 0 to 1, over three epochs.

    Attributes:
        blocks: Blocks of the dataset.
        samples: Samples in a block.
        share: Share of the blocks that the cache holds.
        least_recent: Evicting the block that was used longest ago.
        next_use: Evicting the block that the order of the draws needs last.
        optimum: The best of all policies that know the whole sequence (Belady, "A study of replacement
            algorithms", 1966).
    """

    blocks: int
    samples: int
    share: float
    least_recent: float
    next_use: float
    optimum: float


def hit_rates(blocks: int, samples: int, share: float, seed: int = 0) -> HitRates:
    """Draw three epochs, and count the hits of each policy."""
    order, room = FullShuffle(blocks * samples, seed), max(1, round(blocks * share))
    draws = np.arange(order.n)
    used = np.concatenate([order.positions(epoch, draws) // samples for epoch in range(_EPOCHS)])
    of_sample = (draws // samples).astype(np.int32)
    told = NextUse(order, of_sample, of_sample)
    next_use = [int(told.after(np.array([block]), draw)[0]) for draw, block in enumerate(used.tolist())]
    hits = (_least_recent(used, room), _by_next(used, next_use, room), _by_next(used, _following(used), room))
    return HitRates(blocks, samples, share, *(round(one / len(used), 4) for one in hits))


def _least_recent(used: npt.NDArray[np.int64], room: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for block in used.tolist():
        hits += block in cache
        cache.pop(block, None)
        cache[block] = None
        if len(cache) > room:
            cache.popitem(last=False)
    return hits


def _by_next(used: npt.NDArray[np.int64], next_use: list[int], room: int) -> int:
    cache: dict[int, int] = {}
    hits = 0
    for block, following in zip(used.tolist(), next_use, strict=True):
        hits += block in cache
        cache[block] = following
        if len(cache) > room:
            del cache[max(cache, key=cache.__getitem__)]
    return hits


def _following(used: npt.NDArray[np.int64]) -> list[int]:
    """The place of the next use of each used block in the sequence; blocks not used again come last."""
    following, last = [0] * len(used), dict[int, int]()
    for place in range(len(used) - 1, -1, -1):
        block = int(used[place])
        following[place] = last.get(block, 10 * len(used))
        last[block] = place
    return following


def main() -> None:
    """Print the table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = [hit_rates(256, samples, share) for samples in (1, 16) for share in (0.1, 0.25, 0.5)]
    print("samples in a block  cache  least recent use  next use  optimum")
    for one in found:
        rates = f"{one.least_recent:16.1%}  {one.next_use:8.1%}  {one.optimum:7.1%}"
        print(f"{one.samples:18}  {one.share:5.0%}  {rates}")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
