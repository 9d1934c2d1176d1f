"""Hit rates of a cache of blocks: evicted by least recent use, by next use, and at the optimum (Belady).

    python -m stoker.benchmarks.storage.cache_policies [--json benchmarks/results/cache_policies.json]

Three epochs of a full shuffle are drawn. The cache holds 10%, 25% or 50% of the blocks, which have one sample
each (photographs of a megabyte), or sixteen. With ``--dataset`` a loader reads three epochs of this dataset
through a cache, and its misses are compared with those of both policies without reading ahead.
"""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import stoker
from stoker.augment import CenterCrop
from stoker.formats.remote.block_files import BLOCK_BYTES
from stoker.pipeline.caching.next_use import PlannedDraws, make_next_use
from stoker.pipeline.order.orders import FullShuffle

from ..measuring import make_parser, write_json

_EPOCHS = 3


@dataclass(frozen=True)
class HitRates:
    """Shares of the uses of blocks that find the block in the cache, 0 to 1, over three epochs."""

    blocks: int  # Blocks of the dataset
    samples: int  # Samples in a block
    share: float  # Share of the blocks that the cache holds
    least_recent: float  # Evicting the block that was used longest ago
    next_use: float  # Evicting the block that the order of the draws needs last
    # The best of all policies that know the whole sequence (Belady, "A study of replacement algorithms",
    # 1966)
    optimum: float


def hit_rates(
    blocks: int, samples: int, share: float, seed: int = 0, draws: PlannedDraws | None = None
) -> HitRates:
    """Draw three epochs, and count the hits of each policy."""
    n, room = blocks * samples, max(1, round(blocks * share))
    order = FullShuffle(n, seed)
    draws = draws or PlannedDraws(n, n, lambda epoch: (np.arange(n), order.positions(epoch, np.arange(n))))
    of_sample = np.arange(n) // samples
    next_uses = make_next_use(draws, of_sample, of_sample)
    assert next_uses is not None, "the draws are few"
    uses = []
    for epoch in range(_EPOCHS):
        moments, rows = draws.drawn(epoch)
        uses.append(np.unique(np.stack([epoch * draws.moments + moments, of_sample[rows]], 1), axis=0))
    moments, used = np.concatenate(uses).T
    next_use = [int(next_uses.after(used[i : i + 1], moment)[0]) for i, moment in enumerate(moments.tolist())]
    hits = (_least_recent(used, room), _by_next(used, next_use, room), _by_next(used, _following(used), room))
    return HitRates(blocks, samples, share, *(round(one / len(used), 4) for one in hits))


@dataclass(frozen=True)
class LoaderMisses:
    """Blocks that three epochs of a loader fetch."""

    uses: int  # Blocks that batches use
    loader: int  # Blocks that the loader has fetched
    least_recent: int  # Blocks that a cache fetches which evicts the block that was used longest ago
    optimum: int  # Blocks that the best possible cache fetches


def loader_misses(shards: Path, cache: Path, room: int, batch_size: int = 32) -> LoaderMisses:
    """Load three epochs of a local dataset through a cache of ``room`` blocks in the folder ``cache``."""
    dataset = stoker.open(shards)
    offset, length, shard = (dataset.column(name) for name in ("offset", "length", "shard"))
    first = offset // BLOCK_BYTES + shard.astype(np.int64) * (1 << 32)
    last = first + (offset % BLOCK_BYTES + length - 1) // BLOCK_BYTES
    order, starts = FullShuffle(len(dataset), 0), range(0, len(dataset), batch_size)
    used = np.concatenate(
        [
            np.unique(
                np.concatenate([np.arange(first[i], last[i] + 1) for i in rows[start : start + batch_size]])
            )
            for rows in (order.positions(epoch, np.arange(order.n)) for epoch in range(_EPOCHS))
            for start in starts
        ]
    )
    with stoker.ImageLoader(
        f"file://{shards.absolute()}",
        batch_size=batch_size,
        shuffle=True,
        transforms=[CenterCrop(8)],
        reading=stoker.Reading(cache=stoker.Cache(cache, room * BLOCK_BYTES)),
    ) as loader:
        for _ in range(_EPOCHS):
            for _ in loader:
                pass
        fetched = -(-loader.stats().counters.bytes_fetched // BLOCK_BYTES)
    hits = (_least_recent(used, room), _by_next(used, _following(used), room))
    return LoaderMisses(len(used), fetched, *(len(used) - one for one in hits))


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
    """The index in the sequence of the next use of each used block; blocks not used again come last."""
    following, last = [0] * len(used), dict[int, int]()
    for index in range(len(used) - 1, -1, -1):
        block = int(used[index])
        following[index] = last.get(block, 10 * len(used))
        last[block] = index
    return following


def main() -> None:
    """Print the table, and write it as JSON if asked."""
    parser = make_parser(__doc__, "json")
    parser.add_argument("--dataset", type=Path, help="folder of a dataset that a loader reads")
    args = parser.parse_args()
    if args.dataset is not None:
        _show_loader(args.dataset)
        return
    rates = [hit_rates(256, samples, share) for samples in (1, 16) for share in (0.1, 0.25, 0.5)]
    print("samples in a block  cache  least recent use  next use  optimum")
    for one in rates:
        shares = f"{one.least_recent:16.1%}  {one.next_use:8.1%}  {one.optimum:7.1%}"
        print(f"{one.samples:18}  {one.share:5.0%}  {shares}")
    write_json(args.json, [asdict(one) for one in rates])


def _show_loader(shards: Path) -> None:
    blocks = sum(-(-shard.bytes // BLOCK_BYTES) for shard in stoker.open(shards).manifest.shards)
    print("cache  uses of blocks  fetched by the loader  by least recent use  at the optimum")
    for share in (0.25, 0.5):
        with tempfile.TemporaryDirectory() as cache:
            one = loader_misses(shards, Path(cache), round(share * blocks))
        print(f"{share:5.0%}  {one.uses:14}  {one.loader:21}  {one.least_recent:19}  {one.optimum:14}")


if __name__ == "__main__":
    main()
